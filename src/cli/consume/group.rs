//! Reading as a member of a group.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use clap::ValueEnum;
use tokio::time::Instant;

use super::ConsumeArguments;
use super::print::{self, Shown, Summary};
use crate::cli::logging;
use crate::cli::output::{Format, Printer, tell};
use crate::cli::signals::stop_requested_within;
use crate::cli::table::counted;
use crate::client::{Consumer, ConsumerConfig, Delivery, FileOffsets, MessageSessionFactory, OffsetStorage};
use crate::id::{GroupName, Offset};
use crate::rebalance::ConsistentHashStrategy;

/// Arguments of a member of a group.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "As a member of a group")]
#[group(requires = "group", conflicts_with = "server")]
pub(super) struct MemberArguments {
    /// Name of the member within the group; otherwise one that nobody else has
    #[arg(long, value_name = "ID")]
    consumer_id: Option<String>,
    /// How the members share the partitions: all members of a group must use the same
    #[arg(long, value_enum, default_value_t)]
    strategy: Strategy,
    /// Where the group's offsets are kept
    #[arg(long, value_enum, default_value_t)]
    offset_storage: Storage,
    /// The file of --offset-storage file [default: ~/.meta_offsets]
    #[arg(long, value_name = "FILE")]
    offset_file: Option<PathBuf>,
    /// How often offsets are stored, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    commit_ms: u32,
    /// Longest pause between two gets of a partition, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..))]
    max_delay_ms: u32,
    /// Fail every Nth delivery on purpose, to see that it comes again
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    fail_every: Option<u64>,
    /// Failures of a message after which it is left behind
    #[arg(long, value_name = "N", default_value_t = 5)]
    max_retries: u32,
    /// Show a message again that was shown before and is delivered once more
    #[arg(long)]
    no_id_cache: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Strategy {
    /// Contiguous ranges
    #[default]
    Default,
    /// Consistent hashing
    Consist,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Storage {
    #[default]
    Zk,
    File,
}

/// How long a member may take to leave: what is under way is drained (10 s), offsets are stored, nodes and session go. One
/// that is ended before does not commit, and its last messages come again.
const LEAVE_PATIENCE: Duration = Duration::from_secs(20);

pub(super) async fn consume(arguments: &ConsumeArguments, group: &GroupName) -> anyhow::Result<bool> {
    if let Some(argument) = arguments.plain.given() {
        bail!(
            "{argument} is for reading without --group; a member gets its partitions from the group and waits at their end"
        );
    }
    let stop = stop_requested_within(LEAVE_PATIENCE)?;
    logging::start_for_command();
    tokio::pin!(stop);
    let factory = tokio::select! {
        factory = arguments.target.connect(arguments.target.client_config()?) => factory?,
        () = &mut stop => return Ok(false),
    };
    let consumer = create(&factory, arguments, group).await?;
    let mut messages = consumer.subscribe_stream(&arguments.topic, arguments.max_size)?;
    tokio::select! {
        joined = consumer.complete_subscribe() => joined?,
        () = &mut stop => {
            factory.shutdown().await?;
            return Ok(false);
        }
    }
    print::ready(arguments, group.as_str())?;

    let idle = arguments.idle_ms.map_or(Duration::MAX, Duration::from_millis);
    let mut reading = Reading { arguments, deliveries: 0, received: 0 };
    let mut last = Instant::now();
    let reason = loop {
        if arguments.max.is_some_and(|max| reading.received >= max) {
            break "max";
        }
        tokio::select! {
            biased;
            () = &mut stop => break "stopped",
            delivery = messages.next() => match delivery {
                Some(delivery) => reading.take(delivery)?,
                None => break "closed",
            },
            () = super::idle_since(last, idle) => break "idle",
        }
        last = Instant::now();
    };
    // What waits in the stream was not shown: it belongs to the next member.
    drop(messages);
    let left = factory.shutdown().await;
    print::summary(arguments, &Summary::new(reading.received, reading.deliveries, reason))?;
    left?;
    let missing = arguments.max.map_or(0, |max| max.saturating_sub(reading.received));
    if missing > 0 && arguments.output == Format::Text {
        tell(format_args!("metaq: {} fewer than --max asks for ({reason})", counted(missing, "message")));
    }
    Ok(missing == 0)
}

async fn create(
    factory: &MessageSessionFactory,
    arguments: &ConsumeArguments,
    group: &GroupName,
) -> anyhow::Result<Consumer> {
    let member = &arguments.member;
    let mut config = ConsumerConfig::new(group.as_str())?
        .offset(arguments.start())
        .commit_offset_period(Duration::from_millis(member.commit_ms.into()))
        .max_delay_fetch_time(Duration::from_millis(member.max_delay_ms.into()))
        .max_fetch_retries(member.max_retries);
    if arguments.start() == Offset::LATEST {
        config = config.consume_from_max_offset();
    }
    if let Some(id) = &member.consumer_id {
        config = config.consumer_id(id);
    }
    if member.strategy == Strategy::Consist {
        config = config.load_balance_strategy(ConsistentHashStrategy);
    }
    if member.no_id_cache {
        config = config.duplicate_suppression(None);
    }
    let file: Arc<dyn OffsetStorage> = match (member.offset_storage, &member.offset_file) {
        (Storage::Zk, None) => return Ok(factory.create_consumer(config)?),
        (Storage::Zk, Some(_)) => bail!("--offset-file needs --offset-storage file"),
        (Storage::File, None) => Arc::new(FileOffsets::open(FileOffsets::default_path()?).await?),
        (Storage::File, Some(path)) => Arc::new(FileOffsets::open(path).await?),
    };
    Ok(factory.create_consumer_with(config, file)?)
}

struct Reading<'a> {
    arguments: &'a ConsumeArguments,
    deliveries: u64,
    received: u64,
}

impl Reading<'_> {
    /// Shows a message. It is acknowledged only then: one that could not be printed comes again.
    fn take(&mut self, delivery: Delivery) -> std::io::Result<()> {
        self.deliveries += 1;
        let ok = self.arguments.member.fail_every.is_none_or(|n| !self.deliveries.is_multiple_of(n));
        let partition = delivery.from.partition;
        let shown = Shown {
            ok,
            broker: partition.broker.get().into(),
            partition: partition.index,
            offset: delivery.offset,
            id: delivery.id,
            attribute: delivery.attribute.as_deref(),
            payload: &delivery.payload,
        };
        print::message(self.arguments, &shown)?;
        if self.arguments.output == Format::Text {
            Printer::new().flush()?;
        }
        if ok {
            self.received += 1;
            delivery.ack();
        } else {
            delivery.retry("failed on purpose");
        }
        Ok(())
    }
}
