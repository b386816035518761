//! `metaq produce`.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use bytes::Bytes;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tokio::sync::mpsc;

use super::output::{Format, Printer, finish, tell};
use super::signals::stop_requested;
use super::table::counted;
use super::target;
use super::{runtime, source};
use crate::client::{
    ClientError, FixedSelector, Message, MessageSessionFactory, Producer, ProducerConfig, SendHandle, SendResult,
};
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

/// What waits for the result of a message, or why it was not sent.
type Sending = Result<SendHandle, ClientError>;

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
    let config = arguments.target.client_config()?;
    let factory = arguments.target.connect(config.reconnect_backoff(RECONNECT_PAUSE)).await?;
    let producer = producer(&arguments, &factory).await?;
    let timeout = Duration::from_millis(arguments.timeout_ms);

    let progress = progress(arguments.output, arguments.source.len());
    let started = Instant::now();
    let (under_way, answers) = mpsc::unbounded_channel();
    let printing = tokio::spawn(report(answers, arguments.output, progress.clone()));
    let mut messages = arguments.source.messages();
    let mut source_error = None;
    loop {
        let payload: Bytes = tokio::select! {
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
        let mut message = Message::new(arguments.topic.clone(), payload);
        if let Some(attribute) = &arguments.attribute {
            message = message.with_attribute(attribute.as_str());
        }
        let sending = producer.start_send_with_timeout(message, timeout).await;
        if under_way.send(sending).is_err() {
            break;
        }
        if arguments.interval_ms > 0 {
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = tokio::time::sleep(Duration::from_millis(arguments.interval_ms)) => {}
            }
        }
    }
    drop(under_way);
    let (ok, failed) = printing.await??;
    progress.finish_and_clear();
    factory.shutdown().await?;
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

/// A producer for the topic, whose messages wait for a broker that is away as long as they have time.
async fn producer(arguments: &ProduceArguments, factory: &MessageSessionFactory) -> anyhow::Result<Producer> {
    let topic = &arguments.topic;
    let mut config = ProducerConfig::default()
        .in_flight_messages(arguments.threads.into())
        .max_message_bytes(None)
        .wait_for_broker(true);
    match arguments.partition.as_deref().map(|partition| arguments.target.partition(partition)).transpose()? {
        Some((Some(partition), _)) => config = config.selector(FixedSelector(partition)),
        Some((None, index)) => config = config.server_partition(index),
        // Publishing would make the topic's node, also for a name that is misspelt.
        None if arguments.target.is_cluster() && factory.partitions_for_topic(topic).await?.is_empty() => bail!(
            "no broker offers topic '{topic}' for sending; check its name, and that a broker with this topic is running"
        ),
        None => {}
    }
    let producer = factory.create_producer_with(config)?;
    producer.publish(topic).await?;
    Ok(producer)
}

/// Awaits the answers in the order of sending and prints them. Returns how many messages were stored and how many not.
async fn report(
    mut sendings: mpsc::UnboundedReceiver<Sending>,
    format: Format,
    progress: ProgressBar,
) -> anyhow::Result<(u64, u64)> {
    let (mut ok, mut failed) = (0, 0);
    for number in 0.. {
        let Some(sending) = sendings.recv().await else { break };
        let result = match sending {
            Ok(handle) => handle.await,
            Err(error) => Err(error),
        };
        progress.inc(1);
        match &result {
            Ok(_) => ok += 1,
            Err(_) => failed += 1,
        }
        match format {
            Format::Json => Printer::new().json(&line(number, &result.map_err(|error| error.to_string())))?,
            Format::Text => {
                if let Err(error) = result {
                    progress.suspend(|| tell(format_args!("metaq: message {number}: {error}")));
                }
            }
        }
    }
    Ok((ok, failed))
}

fn line(i: usize, result: &Result<SendResult, String>) -> Line<'_> {
    match result {
        Ok(sent) => Line {
            i,
            ok: true,
            // The reference's client shows a broker that is known by its address only as -1.
            broker: Some(sent.broker.map_or(-1, |broker| broker.get().into())),
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
