//! What `metaq bench` can be asked for.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use clap::{Args, Subcommand};

use super::end_to_end::SIZE_MIN;
use super::schedule::Length;
use crate::cli::output::Format;
use crate::id::TopicName;

/// Longest run and warm-up.
const SECONDS_MAX: f64 = 7.0 * 86_400.0;

/// Largest payload.
const SIZE_MAX: i64 = 64 << 20;

/// Most connections, and most puts under way on each.
const CONNECTIONS_MAX: i64 = 4096;
const WINDOW_MAX: i64 = 65_535;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Throughput of puts: each connection keeps a window of them under way
    Put {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        connections: Connections,
        #[command(flatten)]
        length: LengthArguments,
        /// Puts under way on each connection
        #[arg(long, default_value = "64", value_parser = clap::value_parser!(u32).range(1..=WINDOW_MAX))]
        window: u32,
        /// Payload in bytes
        #[arg(long, default_value = "256", value_parser = clap::value_parser!(u32).range(..=SIZE_MAX))]
        size: u32,
    },
    /// Throughput of gets: each connection reads its partitions from the beginning to the end, again and again
    Get {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        connections: Connections,
        #[command(flatten)]
        length: LengthArguments,
        #[command(flatten)]
        transfer: Transfer,
    },
    /// Latency of single puts: each connection sends the next one when the last is answered
    Latency {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        connections: Connections,
        #[command(flatten)]
        warm_up: WarmUp,
        /// Payload in bytes
        #[arg(long, default_value = "256", value_parser = clap::value_parser!(u32).range(..=SIZE_MAX))]
        size: u32,
        /// Puts of each connection
        #[arg(long, default_value = "2000")]
        count: NonZeroU64,
    },
    /// Latency from a producer to a consumer, at a given rate: by long poll where the broker announces it, otherwise by
    /// asking again a millisecond after each get that brought nothing
    E2e {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        length: LengthArguments,
        #[command(flatten)]
        transfer: Transfer,
        /// Payload in bytes, of which the first 16 carry the time
        #[arg(long, default_value = "256", value_parser = clap::value_parser!(u32).range(SIZE_MIN as i64..=SIZE_MAX))]
        size: u32,
        /// Messages a second
        #[arg(long, default_value = "1000")]
        rate: NonZeroU32,
    },
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Common {
    /// The broker, of any kind that speaks MetaQ
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) server: String,
    /// The topic
    #[arg(long)]
    pub(super) topic: TopicName,
    /// Partitions 0 to this number less 1 are used in turn
    #[arg(long, default_value = "1")]
    pub(super) partitions: NonZeroU32,
    /// The form of the output
    #[arg(long, value_enum, default_value_t)]
    pub(super) output: Format,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Connections {
    /// Connections, each with a thread of its own
    #[arg(long, default_value = "8", value_parser = clap::value_parser!(u32).range(1..=CONNECTIONS_MAX))]
    pub(super) connections: u32,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct Transfer {
    /// Bytes to ask for at a time
    #[arg(long, default_value_t = 1 << 20, value_parser = clap::value_parser!(i32).range(1..))]
    pub(super) max_size: i32,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct WarmUp {
    /// Seconds of the same load before what is measured
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    pub(super) warm_up: Duration,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct LengthArguments {
    #[command(flatten)]
    warm_up: WarmUp,
    /// Length of what is measured
    #[arg(long, default_value = "5", value_parser = seconds, conflicts_with = "count")]
    seconds: Duration,
    /// Measure this many commands of each connection instead
    #[arg(long)]
    count: Option<NonZeroU64>,
}

impl LengthArguments {
    pub(super) fn length(&self) -> Length {
        let count = self.count.map(NonZeroU64::get);
        Length { warm_up: self.warm_up.warm_up, time: count.is_none().then_some(self.seconds), count }
    }
}

impl Command {
    pub(super) fn common(&self) -> &Common {
        match self {
            Self::Put { common, .. }
            | Self::Get { common, .. }
            | Self::Latency { common, .. }
            | Self::E2e { common, .. } => common,
        }
    }

    pub(super) fn length(&self) -> Length {
        match self {
            Self::Put { length, .. } | Self::Get { length, .. } | Self::E2e { length, .. } => length.length(),
            Self::Latency { warm_up, count, .. } => {
                Length { warm_up: warm_up.warm_up, time: None, count: Some(count.get()) }
            }
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "give a number of seconds".to_owned())?;
    if !(0.0..=SECONDS_MAX).contains(&seconds) {
        return Err(format!("give 0 to {SECONDS_MAX} seconds"));
    }
    Ok(Duration::from_secs_f64(seconds))
}
