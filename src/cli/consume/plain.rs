//! Reading without a group, each partition on its own.

use std::collections::HashSet;
use std::time::Duration;

use bytestring::ByteString;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::ConsumeArguments;
use super::print::{self, Shown, Summary};
use super::reader::{Delivery, Reader};
use crate::cli::output::{Format, Printer, tell};
use crate::cli::signals::stop_requested;
use crate::cli::table::counted;
use crate::client::MessageSessionFactory;
use crate::id::{BrokerId, GroupName, Offset, PartitionIndex};

/// Messages that are read ahead of the output.
const READ_AHEAD: usize = 1024;

/// How often a follower looks for new partitions.
const PARTITION_CHECK: Duration = Duration::from_secs(1);

/// Longest wait for each answer of a broker.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The group that brokers count the reads for if none is named.
const GROUP: &str = "metaq-cli";

/// Arguments that make sense without a group.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Without a group")]
pub(super) struct PlainArguments {
    /// One partition, BROKER-NUMBER (or the number alone with --server); otherwise all
    #[arg(long, value_name = "PARTITION")]
    partition: Option<String>,
    /// Wait for further messages at the end
    #[arg(long, short)]
    follow: bool,
}

impl PlainArguments {
    /// An argument that was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        match self {
            Self { partition: Some(_), .. } => Some("--partition"),
            Self { follow: true, .. } => Some("--follow"),
            _ => None,
        }
    }
}

pub(super) async fn consume(arguments: &ConsumeArguments) -> anyhow::Result<bool> {
    let stop = stop_requested()?;
    tokio::pin!(stop);
    let config = arguments.target.client_config()?.request_timeout(REQUEST_TIMEOUT);
    let factory = arguments.target.connect(config).await?;
    let (sender, mut deliveries) = mpsc::channel(READ_AHEAD);
    let follow = arguments.plain.follow || arguments.idle_ms.is_some();
    let mut readers =
        Readers { arguments, factory: &factory, follow, sender, known: HashSet::new(), tasks: JoinSet::new() };
    readers.start_new(true).await?;
    print::ready(arguments, &group(arguments))?;

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
                show(arguments, &delivery)?;
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
            () = super::idle_since(last, idle) => break "idle",
            _ = partition_check.tick(), if follow => readers.start_new(false).await?,
        }
    };
    drop(readers);
    print::summary(arguments, &Summary::new(received, received, reason))?;
    factory.shutdown().await?;
    let missing = arguments.max.map_or(0, |max| max.saturating_sub(received));
    if missing > 0 && failed.is_none() && arguments.output == Format::Text {
        tell(format_args!("metaq: {} fewer than --max asks for ({reason})", counted(missing, "message")));
    }
    failed.map_or(Ok(missing == 0), Err)
}

/// A partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// `None` for a broker that was given by its address.
    broker: Option<BrokerId>,
    pub(super) index: PartitionIndex,
}

impl Place {
    /// Stands for a broker that was given by its address, whatever its number.
    const ONLY_BROKER: BrokerId = BrokerId::MAX;

    pub(super) fn broker_id(self) -> BrokerId {
        self.broker.unwrap_or(Self::ONLY_BROKER)
    }

    /// The number of the broker as the reference's client shows it: -1 for one that is known by its address only.
    fn broker_number(self) -> i32 {
        self.broker.map_or(-1, |broker| broker.get().into())
    }
}

/// One task for each partition that is known.
struct Readers<'a> {
    arguments: &'a ConsumeArguments,
    factory: &'a MessageSessionFactory,
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
        let places = match &self.arguments.plain.partition {
            Some(_) if !first => return Ok(()),
            Some(partition) => self.place(partition).map(|place| vec![place]),
            None => self.places().await,
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

    /// One partition, given as `BROKER-NUMBER` or, with a broker's address, as its number alone.
    fn place(&self, text: &str) -> anyhow::Result<Place> {
        let (partition, index) = self.arguments.target.partition(text)?;
        Ok(Place { broker: partition.map(|partition| partition.broker), index })
    }

    /// All partitions. A broker that was given by its address tells of those that hold messages.
    async fn places(&self) -> anyhow::Result<Vec<Place>> {
        let topic = &self.arguments.topic;
        let session = self.factory.session();
        if let Some(cluster) = session.cluster() {
            let partitions = cluster.partitions_for_subscribe(topic).await?;
            return Ok(partitions.iter().map(|p| Place { broker: Some(p.broker), index: p.index }).collect());
        }
        let offsets = session.for_reading(Place::ONLY_BROKER).await?.topic_offsets(topic.as_str()).await?;
        Ok(offsets.into_iter().map(|(index, _)| Place { broker: None, index }).collect())
    }

    fn reader(&self, place: Place, first: bool) -> Reader {
        let start = if first { self.arguments.start() } else { Offset::ZERO };
        Reader {
            factory: self.factory.clone(),
            place,
            topic: self.arguments.topic.to_wire(),
            group: group(self.arguments),
            offset: start,
            max_size: self.arguments.max_size,
            follow: self.follow,
            deliveries: self.sender.clone(),
        }
    }
}

fn group(arguments: &ConsumeArguments) -> ByteString {
    arguments.group.as_ref().map_or_else(|| ByteString::from_static(GROUP), GroupName::to_wire)
}

fn show(arguments: &ConsumeArguments, delivery: &Delivery) -> std::io::Result<()> {
    let Delivery { place, offset, id, body } = delivery;
    let shown = Shown {
        ok: true,
        broker: place.broker_number(),
        partition: place.index,
        offset: *offset,
        id: *id,
        attribute: body.attribute.as_deref(),
        payload: &body.payload,
    };
    let mut line = Vec::new();
    print::append(arguments, &shown, &mut line)?;
    print::print(&line)
}
