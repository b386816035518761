//! `metaq consume`: reading without a group, each partition on its own.

use std::collections::HashSet;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use bytestring::ByteString;
use clap::ValueEnum;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::output::{Format, Printer, finish, tell};
use super::reader::{Delivery, Reader};
use super::runtime;
use super::signals::stop_requested;
use super::table::counted;
use super::target::{self, Place, Target, wire};
use crate::id::{Offset, TopicName};

/// Messages that are read ahead of the output.
const READ_AHEAD: usize = 1024;

/// How often a follower looks for new partitions.
const PARTITION_CHECK: Duration = Duration::from_secs(1);

/// Longest wait for each answer of a broker.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Arguments of `metaq consume`.
#[derive(Debug, clap::Args)]
pub(super) struct ConsumeArguments {
    #[command(flatten)]
    target: target::TargetArguments,
    /// The topic
    #[arg(long)]
    topic: TopicName,
    /// Where to begin: beginning, end, or an offset
    #[arg(long, visible_alias = "offset", value_name = "WHERE", default_value = "beginning")]
    from: Start,
    /// Begin at the end; the same as --from end
    #[arg(long, conflicts_with = "from")]
    from_max: bool,
    /// One partition, BROKER-NUMBER (or the number alone with --server); otherwise all
    #[arg(long, value_name = "PARTITION")]
    partition: Option<String>,
    /// Wait for further messages at the end
    #[arg(long, short)]
    follow: bool,
    /// End after this many messages; the exit status is 1 if there were fewer
    #[arg(long, value_name = "N")]
    max: Option<u64>,
    /// Wait for further messages, and end when none came for so long, in milliseconds
    #[arg(long, value_name = "MS")]
    idle_ms: Option<u64>,
    /// The group that the broker counts the reads for; offsets are not stored
    #[arg(long, default_value = "metaq-cli")]
    group: ByteString,
    /// Bytes to ask for at a time
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = clap::value_parser!(i32).range(1..))]
    max_size: i32,
    /// How json shows the payload
    #[arg(long, value_enum, default_value_t)]
    payload: Payload,
    /// The form of the output; text prints payloads alone, a line each
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Payload {
    #[default]
    Text,
    Base64,
    None,
}

pub(super) fn run(arguments: ConsumeArguments) -> ExitCode {
    let format = arguments.output;
    finish(runtime().and_then(|runtime| runtime.block_on(consume(&arguments))), format)
}

#[derive(Debug, Serialize)]
struct Ready<'a> {
    ready: bool,
    group: &'a str,
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    ok: bool,
    broker: i32,
    partition: i32,
    offset: i64,
    id: i64,
    attribute: Option<&'a str>,
    size: usize,
    payload: Option<String>,
}

#[derive(Debug, Serialize)]
struct Summary {
    summary: bool,
    received: u64,
    deliveries: u64,
    reason: &'static str,
}

async fn consume(arguments: &ConsumeArguments) -> anyhow::Result<bool> {
    let stop = stop_requested()?;
    tokio::pin!(stop);
    let target = Arc::new(Target::open(&arguments.target, REQUEST_TIMEOUT).await?);
    let (sender, mut deliveries) = mpsc::channel(READ_AHEAD);
    let follow = arguments.follow || arguments.idle_ms.is_some();
    let mut readers =
        Readers { arguments, target: &target, follow, sender, known: HashSet::new(), tasks: JoinSet::new() };
    readers.start_new(true).await?;
    if arguments.output == Format::Json {
        Printer::new().json(&Ready { ready: true, group: &arguments.group })?;
    }

    let idle = arguments.idle_ms.map_or(Duration::MAX, Duration::from_millis);
    let mut partition_check = tokio::time::interval(PARTITION_CHECK);
    let mut last = tokio::time::Instant::now();
    let mut received = 0;
    let mut failed = None;
    let reason = loop {
        if arguments.max.is_some_and(|max| received >= max) {
            break "max";
        }
        // Without followers the readers end by themselves, and what they have read is in the queue by then.
        if !follow && readers.tasks.is_empty() && deliveries.is_empty() {
            break "end";
        }
        if deliveries.is_empty() {
            Printer::new().flush()?;
        }
        tokio::select! {
            biased;
            () = &mut stop => break "stopped",
            Some(delivery) = deliveries.recv() => {
                print(arguments, &delivery)?;
                received += 1;
                last = tokio::time::Instant::now();
            }
            Some(ended) = readers.tasks.join_next() => match ended? {
                Ok(()) => {}
                Err(error) => {
                    failed = Some(error);
                    break "failed";
                }
            },
            () = idle_since(last, idle) => break "idle",
            _ = partition_check.tick(), if follow => readers.start_new(false).await?,
        }
    };
    drop(readers);
    if arguments.output == Format::Json {
        Printer::new().json(&Summary { summary: true, received, deliveries: received, reason })?;
    }
    Printer::new().flush()?;
    target.close().await;
    let missing = arguments.max.map_or(0, |max| max.saturating_sub(received));
    if missing > 0 && failed.is_none() && arguments.output == Format::Text {
        tell(format_args!("metaq: {} fewer than --max asks for ({reason})", counted(missing, "message")));
    }
    failed.map_or(Ok(missing == 0), Err)
}

async fn idle_since(last: tokio::time::Instant, idle: Duration) {
    match last.checked_add(idle) {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// One task for each partition that is known.
struct Readers<'a> {
    arguments: &'a ConsumeArguments,
    target: &'a Arc<Target>,
    follow: bool,
    sender: mpsc::Sender<Delivery>,
    known: HashSet<(i32, i32)>,
    tasks: JoinSet<anyhow::Result<()>>,
}

impl Readers<'_> {
    /// Starts to read partitions that were not known yet. Those that appear later are read from their beginning: what
    /// is in them came after the command had started.
    async fn start_new(&mut self, first: bool) -> anyhow::Result<()> {
        let topic = &self.arguments.topic;
        let places = match &self.arguments.partition {
            Some(_) if !first => return Ok(()),
            Some(partition) => self.target.place(partition).await.map(|place| vec![place]),
            None => self.target.places_to_read(topic).await,
        };
        let places = match places {
            Ok(places) => places,
            // A follower waits for brokers to come back; the readers tell what is wrong.
            Err(_) if !first => return Ok(()),
            Err(error) => return Err(error),
        };
        if places.is_empty() && !self.follow {
            tell(format_args!("metaq: the broker holds no messages of topic {topic}"));
        }
        for place in places {
            if self.known.insert((place.broker_number(), place.index.get())) {
                self.tasks.spawn(self.reader(place, first).run());
            }
        }
        Ok(())
    }

    fn reader(&self, place: Place, first: bool) -> Reader {
        let start = match self.arguments.from {
            _ if !first => Offset::ZERO,
            _ if self.arguments.from_max => Offset::LATEST,
            Start::Beginning => Offset::ZERO,
            Start::End => Offset::LATEST,
            Start::At(offset) => offset,
        };
        Reader {
            target: Arc::clone(self.target),
            place,
            topic: wire(&self.arguments.topic),
            group: self.arguments.group.clone(),
            offset: start,
            max_size: self.arguments.max_size,
            follow: self.follow,
            deliveries: self.sender.clone(),
        }
    }
}

fn print(arguments: &ConsumeArguments, delivery: &Delivery) -> std::io::Result<()> {
    let Delivery { place, offset, id, body } = delivery;
    match arguments.output {
        Format::Text => Printer::new().bytes(&body.payload),
        Format::Json => Printer::new().json(&Line {
            ok: true,
            broker: place.broker_number(),
            partition: place.index.get(),
            offset: offset.get(),
            id: id.get(),
            attribute: body.attribute.as_deref(),
            size: body.payload.len(),
            payload: show(&body.payload, arguments.payload),
        }),
    }
}

fn show(payload: &Bytes, form: Payload) -> Option<String> {
    match form {
        Payload::Text => Some(String::from_utf8_lossy(payload).into_owned()),
        Payload::Base64 => Some(BASE64_STANDARD.encode(payload)),
        Payload::None => None,
    }
}
