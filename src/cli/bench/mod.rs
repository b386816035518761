//! `metaq bench`: a load generator for any broker that speaks MetaQ.

mod load;
mod report;

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;

use self::load::{Load, Work};
use super::output::{Format, Printer, finish};
use super::target::server_address;
use crate::id::TopicName;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Throughput of puts: each connection keeps a window of them under way
    Put {
        #[command(flatten)]
        common: Common,
        /// Puts under way on each connection
        #[arg(long, default_value = "64")]
        window: NonZeroUsize,
        /// Payload in bytes
        #[arg(long, default_value_t = 256)]
        size: usize,
        /// Length of the run
        #[arg(long, default_value = "5")]
        seconds: NonZeroU64,
    },
    /// Throughput of gets: each connection reads its partitions from the beginning to the end, again and again
    Get {
        #[command(flatten)]
        common: Common,
        /// Bytes to ask for at a time
        #[arg(long, default_value_t = 1 << 20, value_parser = clap::value_parser!(i32).range(1..))]
        max_size: i32,
        /// Length of the run
        #[arg(long, default_value = "5")]
        seconds: NonZeroU64,
    },
    /// Latency of single puts: each connection sends the next one when the last is answered
    Latency {
        #[command(flatten)]
        common: Common,
        /// Payload in bytes
        #[arg(long, default_value_t = 256)]
        size: usize,
        /// Puts of each connection
        #[arg(long, default_value = "2000")]
        count: NonZeroU64,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct Common {
    /// The broker
    #[arg(long, value_name = "HOST:PORT")]
    server: String,
    /// The topic
    #[arg(long)]
    topic: TopicName,
    /// Partitions 0 to this number less 1 are used in turn
    #[arg(long, default_value = "1")]
    partitions: NonZeroU32,
    /// Connections, each with a thread of its own
    #[arg(long, default_value = "8")]
    connections: NonZeroU32,
    /// The form of the output
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn run(command: &Command) -> ExitCode {
    let (common, work, seconds) = match command {
        Command::Put { common, window, size, seconds } => {
            (common, Work::Put { window: window.get(), size: *size, count: None }, Some(*seconds))
        }
        Command::Get { common, max_size, seconds } => (common, Work::Get { max_size: *max_size }, Some(*seconds)),
        Command::Latency { common, size, count } => {
            (common, Work::Put { window: 1, size: *size, count: Some(count.get()) }, None)
        }
    };
    finish(measure(common, work, seconds.map(|seconds| Duration::from_secs(seconds.get()))), common.output)
}

fn measure(common: &Common, work: Work, time: Option<Duration>) -> anyhow::Result<bool> {
    let address = server_address(&common.server)?;
    let load = Load { address, topic: common.topic.clone(), partitions: common.partitions.get(), work, time };
    let report = load.run(common.connections.get())?;
    match common.output {
        Format::Text => Printer::new().line(&report)?,
        Format::Json => Printer::new().json(&report.figures())?,
    }
    Ok(report.is_clean())
}
