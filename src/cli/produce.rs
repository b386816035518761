//! `metaq produce`.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::output::{Format, Printer, finish, tell};
use super::signals::stop_requested;
use super::table::counted;
use super::target::{self, Place, Target, wire};
use super::{runtime, source};
use crate::client::{BrokerClient, ClientError, PendingPut, Sent};
use crate::id::TopicName;

/// Pause between two attempts to reach a broker.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// Arguments of `metaq produce`.
#[derive(Debug, clap::Args)]
pub(super) struct ProduceArguments {
    #[command(flatten)]
    target: target::TargetArguments,
    /// The topic
    #[arg(long)]
    topic: TopicName,
    #[command(flatten)]
    source: source::SourceArguments,
    /// Attribute of every message
    #[arg(long, value_name = "TEXT")]
    attribute: Option<String>,
    /// The partition, BROKER-NUMBER (or the number alone with --server); otherwise the partitions take turns, or a
    /// broker given with --server chooses
    #[arg(long, value_name = "PARTITION")]
    partition: Option<String>,
    /// Messages that may wait for their answer at the same time, as if so many threads sent one after the other
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
    /// Longest wait for each answer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 3000)]
    timeout_ms: u64,
    /// Pause between two messages, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    interval_ms: u64,
    /// The form of the output; json prints a line for each message and a summary
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn run(arguments: ProduceArguments) -> ExitCode {
    let format = arguments.output;
    finish(runtime().and_then(|runtime| runtime.block_on(produce(arguments))), format)
}

/// One message on its way.
struct Sending {
    number: usize,
    place: Arc<Place>,
    /// What waits for the answer, or why it was not sent.
    pending: Result<PendingPut, ClientError>,
    /// Its place among those under way, and that in its lane.
    _places: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
}

#[derive(Debug, Serialize)]
struct Line<'a> {
    i: usize,
    ok: bool,
    broker: Option<i32>,
    partition: Option<i32>,
    offset: i64,
    id: i64,
    error: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct Summary {
    summary: bool,
    ok: u64,
    failed: u64,
    ms: u128,
}

async fn produce(arguments: ProduceArguments) -> anyhow::Result<bool> {
    let stop = stop_requested()?;
    tokio::pin!(stop);
    let target = Target::open(&arguments.target, Duration::from_millis(arguments.timeout_ms)).await?;
    let places = match &arguments.partition {
        Some(partition) => vec![target.place(partition).await?],
        None => target.places_to_write(&arguments.topic).await?,
    };
    let timeout = Duration::from_millis(arguments.timeout_ms);
    let mut lanes = Vec::with_capacity(places.len());
    for place in places {
        let client = target.client(&place.address).await?;
        let in_turn = if client.keeps_order().await? { None } else { Some(Arc::new(Semaphore::new(1))) };
        lanes.push(Lane { place: Arc::new(place), client, in_turn });
    }

    let progress = progress(arguments.output, arguments.source.len());
    let started = Instant::now();
    let window = Arc::new(Semaphore::new(arguments.threads.into()));
    let (under_way, answers) = mpsc::unbounded_channel();
    let printing = tokio::spawn(report(answers, arguments.output, progress.clone()));
    let topic = wire(&arguments.topic);
    let attribute = arguments.attribute.as_deref();
    let mut messages = arguments.source.messages();
    let lane_count = lanes.len();
    let mut number = 0;
    let mut source_error = None;
    loop {
        let message: Bytes = tokio::select! {
            biased;
            () = &mut stop => break,
            message = messages.recv() => match message {
                Some(Ok(message)) => message,
                Some(Err(error)) => {
                    source_error = Some(error);
                    break;
                }
                None => break,
            },
        };
        let Some(lane) = lanes.get_mut(number % lane_count) else { break };
        let Ok(permit) = Arc::clone(&window).acquire_owned().await else { break };
        let turn = lane.turn().await;
        let index = lane.place.index;
        let pending = match lane.connected(&target, timeout).await {
            Ok(client) => client.start_put(&topic, index, attribute, &message).await,
            Err(error) => Err(error),
        };
        let place = Arc::clone(&lane.place);
        if under_way.send(Sending { number, place, pending, _places: (permit, turn) }).is_err() {
            break;
        }
        number += 1;
        if arguments.interval_ms > 0 {
            tokio::time::sleep(Duration::from_millis(arguments.interval_ms)).await;
        }
    }
    drop(under_way);
    let (ok, failed) = printing.await??;
    progress.finish_and_clear();
    target.close().await;
    let elapsed = started.elapsed();
    match arguments.output {
        Format::Json => {
            Printer::new().json(&Summary { summary: true, ok, failed, ms: elapsed.as_millis() })?;
        }
        Format::Text => {
            let failures = if failed == 0 { String::new() } else { format!(", {failed} failed") };
            let topic = &arguments.topic;
            Printer::new()
                .line(format_args!("{} sent to {topic}{failures} in {elapsed:.1?}", counted(ok, "message")))?;
        }
    }
    source_error.map_or(Ok(failed == 0), Err)
}

/// The way to one partition.
struct Lane {
    place: Arc<Place>,
    client: Arc<BrokerClient>,
    /// One message at a time where the broker may store pipelined ones in another order.
    in_turn: Option<Arc<Semaphore>>,
}

impl Lane {
    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(self.in_turn.as_ref()?).acquire_owned().await.ok()
    }

    /// A connection to the broker. A lost one is made anew, for as long as a message may wait for its answer.
    async fn connected(&mut self, target: &Target, timeout: Duration) -> Result<&BrokerClient, ClientError> {
        let deadline = Instant::now() + timeout;
        while self.client.is_lost() {
            let address = target.address_of(&self.place).await.unwrap_or_else(|_| self.place.address.clone());
            match target.client(&address).await {
                Ok(client) => self.client = client,
                Err(error) if Instant::now() >= deadline => return Err(error),
                Err(_) => tokio::time::sleep(RECONNECT_PAUSE).await,
            }
        }
        Ok(&self.client)
    }
}

/// Awaits the answers in the order of sending and prints them. Returns how many messages were stored and how many not.
async fn report(
    mut sendings: mpsc::UnboundedReceiver<Sending>,
    format: Format,
    progress: ProgressBar,
) -> anyhow::Result<(u64, u64)> {
    let (mut ok, mut failed) = (0, 0);
    while let Some(Sending { number, place, pending, _places }) = sendings.recv().await {
        let result = match pending {
            Ok(pending) => pending.wait().await,
            Err(error) => Err(error),
        };
        progress.inc(1);
        match &result {
            Ok(_) => ok += 1,
            Err(_) => failed += 1,
        }
        match format {
            Format::Json => Printer::new().json(&line(number, &place, &result.map_err(|error| error.to_string())))?,
            Format::Text => {
                if let Err(error) = result {
                    progress.suspend(|| tell(format_args!("metaq: message {number}: {error}")));
                }
            }
        }
    }
    Ok((ok, failed))
}

fn line<'a>(i: usize, place: &Place, result: &'a Result<Sent, String>) -> Line<'a> {
    match result {
        Ok(sent) => Line {
            i,
            ok: true,
            broker: Some(place.broker_number()),
            partition: Some(sent.partition.get()),
            offset: sent.offset.get(),
            id: sent.id.get(),
            error: None,
        },
        Err(error) => Line { i, ok: false, broker: None, partition: None, offset: -1, id: 0, error: Some(error) },
    }
}

/// A progress bar on a terminal, nothing elsewhere.
fn progress(format: Format, len: Option<u64>) -> ProgressBar {
    if format == Format::Json || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match len {
        Some(len) => (ProgressBar::new(len), "{bar:40} {human_pos}/{human_len} messages, {per_sec}, {eta} left"),
        None => (ProgressBar::no_length(), "{spinner} {human_pos} messages, {per_sec}"),
    };
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}
