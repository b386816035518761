//! `metaq consume`: reading with a group, which shares the partitions and remembers where it stands, or without.

mod group;
mod plain;
mod print;
mod reader;

use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use tokio::time::Instant;

use self::print::Payload;
use super::output::{Format, finish};
use super::runtime;
use super::target::TargetArguments;
use crate::id::{GroupName, Offset, TopicName};

/// Arguments of `metaq consume`.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ConsumeArguments {
    #[command(flatten)]
    target: TargetArguments,
    /// The topic
    #[arg(long)]
    topic: TopicName,
    /// Read as a member of this group: its members share the partitions, and it goes on where it stopped. With --server
    /// the group only names the reads
    #[arg(long)]
    group: Option<GroupName>,
    /// Where to begin: beginning, end, or an offset; a group only where it has not read yet
    #[arg(long, visible_alias = "offset", value_name = "WHERE", default_value = "beginning")]
    from: Start,
    /// Begin at the end; the same as --from end
    #[arg(long, conflicts_with = "from")]
    from_max: bool,
    /// End after this many messages; the exit status is 1 if there were fewer
    #[arg(long, value_name = "N")]
    max: Option<u64>,
    /// Wait for further messages, and end when none came for so long, in milliseconds
    #[arg(long, value_name = "MS")]
    idle_ms: Option<u64>,
    /// Bytes to ask for at a time
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = clap::value_parser!(i32).range(1..))]
    max_size: i32,
    /// How json shows the payload
    #[arg(long, value_enum, default_value_t)]
    payload: Payload,
    /// The form of the output; text prints payloads alone, a line each
    #[arg(long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    plain: plain::PlainArguments,
    #[command(flatten)]
    member: group::MemberArguments,
}

/// Where to begin.
#[derive(Debug, Clone, Copy)]
enum Start {
    Beginning,
    End,
    At(Offset),
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "beginning" => Ok(Self::Beginning),
            "end" => Ok(Self::End),
            _ => match text.parse::<i64>() {
                Ok(offset) if offset >= 0 => Ok(Self::At(Offset::new(offset))),
                _ => Err(format!("'{text}' is neither beginning nor end nor an offset")),
            },
        }
    }
}

impl ConsumeArguments {
    fn start(&self) -> Offset {
        match self.from {
            _ if self.from_max => Offset::LATEST,
            Start::Beginning => Offset::ZERO,
            Start::End => Offset::LATEST,
            Start::At(offset) => offset,
        }
    }
}

pub(super) fn run(arguments: ConsumeArguments) -> ExitCode {
    let format = arguments.output;
    let consume = async {
        match &arguments.group {
            Some(group) if arguments.target.is_cluster() => group::consume(&arguments, group).await,
            _ => plain::consume(&arguments).await,
        }
    };
    finish(runtime().and_then(|runtime| runtime.block_on(consume)), format)
}

/// Ends when nothing has come for so long.
async fn idle_since(last: Instant, idle: Duration) {
    match last.checked_add(idle) {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}
