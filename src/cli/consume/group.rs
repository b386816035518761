//! Reading as a member of a group.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::bail;
use clap::ValueEnum;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::ConsumeArguments;
use super::print::{self, Shown, Summary};
use crate::cli::logging;
use crate::cli::output::{Format, tell};
use crate::cli::signals::stop_requested_within;
use crate::cli::table::counted;
use crate::client::{
    Action, BatchListener, BoxFuture, Consumer, ConsumerConfig, FileOffsets, MessageBatch, MessageSessionFactory,
    OffsetStorage, ReceivedMessage, SubscribeOptions,
};
use crate::common::guard::lock;
use crate::id::{GroupName, Offset};
use crate::rebalance::ConsistentHashStrategy;

/// Arguments of a member of a group.
#[derive(Debug, Clone, clap::Args)]
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
    let reading = Arc::new(Reading::new(arguments));
    let options = SubscribeOptions::new(arguments.max_size);
    consumer.subscribe_batches(&arguments.topic, options, Show(Arc::clone(&reading)))?;
    tokio::select! {
        joined = consumer.complete_subscribe() => joined?,
        () = &mut stop => {
            factory.shutdown().await?;
            return Ok(false);
        }
    }
    print::ready(arguments, group.as_str())?;

    let reason = tokio::select! {
        biased;
        () = &mut stop => "stopped",
        () = reading.over.notified() => "max",
        () = reading.idle() => "idle",
    };
    // Whatever ends the reading, the member leaves its group.
    reading.end();
    let left = factory.shutdown().await;
    let (deliveries, received) = reading.result()?;
    print::summary(arguments, &Summary::new(received, deliveries, reason))?;
    left?;
    let missing = arguments.max.map_or(0, |max| max.saturating_sub(received));
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

/// What was shown, and until when to go on.
struct Reading {
    arguments: ConsumeArguments,
    state: Mutex<State>,
    /// Told when there are enough messages, or when they cannot be shown any more.
    over: Notify,
}

struct State {
    deliveries: u64,
    received: u64,
    last: Instant,
    /// Why nothing is shown any more.
    ended: Option<io::Result<()>>,
}

impl Reading {
    fn new(arguments: &ConsumeArguments) -> Self {
        let state = State { deliveries: 0, received: 0, last: Instant::now(), ended: None };
        let reading = Self { arguments: arguments.clone(), state: Mutex::new(state), over: Notify::new() };
        reading.finish_if_enough(&mut lock(&reading.state));
        reading
    }

    /// Shows what is wanted of a batch. Messages are acknowledged only then: what could not be printed comes again. `None`
    /// when nothing more is shown.
    fn show(&self, batch: &MessageBatch<'_>) -> Option<Action> {
        let mut state = lock(&self.state);
        let mut out = Vec::new();
        let mut shown = 0;
        let mut action = Some(Action::Ack);
        for message in batch.messages() {
            if state.ended.is_some() {
                action = None;
                break;
            }
            state.deliveries += 1;
            let ok = self.arguments.member.fail_every.is_none_or(|n| !state.deliveries.is_multiple_of(n));
            if let Err(error) = self.append(message, ok, &mut out) {
                self.fail(&mut state, error);
                continue;
            }
            if !ok {
                action = Some(Action::Retry("failed on purpose".to_owned()));
                break;
            }
            shown += 1;
            state.received += 1;
            self.finish_if_enough(&mut state);
        }
        if let Err(error) = print::print(&out) {
            self.fail(&mut state, error);
            return None;
        }
        state.last = Instant::now();
        batch.handled(shown);
        action
    }

    fn append(&self, message: &ReceivedMessage, ok: bool, out: &mut Vec<u8>) -> io::Result<()> {
        let partition = message.from.partition;
        let shown = Shown {
            ok,
            broker: partition.broker.get().into(),
            partition: partition.index,
            offset: message.offset,
            id: message.id,
            attribute: message.attribute.as_deref(),
            payload: &message.payload,
        };
        print::append(&self.arguments, &shown, out)
    }

    fn fail(&self, state: &mut State, error: io::Error) {
        state.ended = Some(Err(error));
        self.over.notify_one();
    }

    fn finish_if_enough(&self, state: &mut State) {
        if self.arguments.max.is_some_and(|max| state.received >= max) && state.ended.is_none() {
            state.ended = Some(Ok(()));
            self.over.notify_one();
        }
    }

    /// Ends when nothing has come for as long as was asked for.
    async fn idle(&self) {
        let idle = self.arguments.idle_ms.map_or(Duration::MAX, Duration::from_millis);
        loop {
            let last = lock(&self.state).last;
            super::idle_since(last, idle).await;
            if lock(&self.state).last == last {
                return;
            }
        }
    }

    /// Nothing is shown from now on.
    fn end(&self) {
        lock(&self.state).ended.get_or_insert(Ok(()));
    }

    /// How much was delivered and received.
    ///
    /// # Errors
    /// It could not be shown.
    fn result(&self) -> io::Result<(u64, u64)> {
        let mut state = lock(&self.state);
        state.ended.replace(Ok(())).unwrap_or(Ok(()))?;
        Ok((state.deliveries, state.received))
    }
}

/// Shows messages as they come.
struct Show(Arc<Reading>);

impl BatchListener for Show {
    fn on_batch<'a>(&'a self, batch: &'a MessageBatch<'a>) -> BoxFuture<'a, Action> {
        Box::pin(async {
            match self.0.show(batch) {
                Some(action) => action,
                None => {
                    batch.stopped().await;
                    Action::Retry("not shown".to_owned())
                }
            }
        })
    }
}
