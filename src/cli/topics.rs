//! `metaq topics`: the topics of one broker, by its HTTP interface or, as far as the wire protocol tells, of any broker.

use std::process::ExitCode;

use anyhow::bail;
use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::admin::{AdminArguments, AdminClient, AdminError, with_client};
use super::output::{Format, Printer, finish};
use super::runtime;
use super::stats::{connect, lines};
use super::table::{Table, bytes};
use super::target::server_address;
use crate::client::TopicOffsets;
use crate::id::TopicName;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the topics that are configured or have data
    List(Arguments),
    /// Show the settings of a topic and its partitions
    Describe {
        /// The topic
        topic: TopicName,
        #[command(flatten)]
        arguments: Arguments,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    admin: AdminArguments,
    /// Ask this broker, of any kind, by the wire protocol instead, which tells less
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["admin", "config", "token_file"])]
    server: Option<String>,
}

/// A topic as the HTTP interface shows it.
#[derive(Debug, Deserialize)]
struct Topic {
    topic: String,
    configured: bool,
    settings: Settings,
    bytes: u64,
    messages: u64,
    partitions: Vec<Partition>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    num_partitions: u32,
    accept_publish: bool,
    accept_subscribe: bool,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
struct Partition {
    partition: i32,
    min_offset: i64,
    max_offset: i64,
    bytes: u64,
    segments: u64,
    messages: u64,
    closed: bool,
    poisoned: Option<String>,
    full: bool,
}

pub(super) fn run(command: &Command) -> ExitCode {
    let (topic, arguments) = match command {
        Command::List(arguments) => (None, arguments),
        Command::Describe { topic, arguments } => (Some(topic), arguments),
    };
    match (&arguments.server, topic) {
        (Some(server), topic) => {
            let format = arguments.admin.output();
            finish(by_wire(server, topic, arguments, &mut Printer::new()).map(|()| true), format)
        }
        (None, None) => with_client(&arguments.admin, list),
        (None, Some(topic)) => with_client(&arguments.admin, async |client, printer, format| {
            describe(client, printer, format, topic).await
        }),
    }
}

async fn list(client: &AdminClient, printer: &mut Printer, format: Format) -> anyhow::Result<()> {
    let topics: Vec<Value> = client.get("/api/v1/topics").await?;
    if format == Format::Json {
        return Ok(topics.iter().try_for_each(|topic| printer.json(topic))?);
    }
    let mut table =
        Table::new(["TOPIC", "PARTITIONS", "WITH DATA", "MESSAGES", "SIZE", "PUBLISH", "SUBSCRIBE", "REMARKS"]);
    for topic in topics {
        let topic: Topic = serde_json::from_value(topic)?;
        table.row([
            topic.topic.clone(),
            topic.settings.num_partitions.to_string(),
            topic.partitions.len().to_string(),
            topic.messages.to_string(),
            bytes(topic.bytes),
            yes_or_no(topic.settings.accept_publish),
            yes_or_no(topic.settings.accept_subscribe),
            topic.remarks(),
        ]);
    }
    Ok(printer.line(&table)?)
}

async fn describe(
    client: &AdminClient,
    printer: &mut Printer,
    format: Format,
    topic: &TopicName,
) -> anyhow::Result<()> {
    let shown = client.get(&format!("/api/v1/topics/{}", path_element(topic.as_str()))).await;
    if let Err(AdminError::NotFound { .. }) = shown {
        bail!("no topic {topic} is configured or has data; metaq topics list shows those that are or have");
    }
    let shown: Value = shown?;
    if format == Format::Json {
        return Ok(printer.json(&shown)?);
    }
    let topic: Topic = serde_json::from_value(shown)?;
    let mut settings = Table::plain();
    let mut setting = |name: &str, value: String| settings.row([name.to_owned(), value]);
    setting("topic", topic.topic.clone());
    let origin = if topic.configured { "a section of its own" } else { "none of its own: the values of [system]" };
    setting("configuration", origin.to_owned());
    setting("numPartitions", topic.settings.num_partitions.to_string());
    setting("acceptPublish", topic.settings.accept_publish.to_string());
    setting("acceptSubscribe", topic.settings.accept_subscribe.to_string());
    for (name, value) in &topic.settings.others {
        setting(name, value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    setting("messages", topic.messages.to_string());
    setting("size", bytes(topic.bytes));
    printer.line(&settings)?;
    if topic.partitions.is_empty() {
        return Ok(printer.line("\nno partition has data")?);
    }
    let mut table = Table::new(["PARTITION", "MIN OFFSET", "MAX OFFSET", "MESSAGES", "SIZE", "SEGMENTS", "REMARKS"]);
    for partition in &topic.partitions {
        table.row([
            partition.partition.to_string(),
            partition.min_offset.to_string(),
            partition.max_offset.to_string(),
            partition.messages.to_string(),
            bytes(partition.bytes),
            partition.segments.to_string(),
            partition.remarks().join("; "),
        ]);
    }
    Ok(printer.line(format_args!("\n{table}"))?)
}

impl Topic {
    /// What an operator should know of it.
    fn remarks(&self) -> String {
        let count = |what: &str, is: fn(&Partition) -> bool| {
            let count = self.partitions.iter().filter(|partition| is(partition)).count();
            (count > 0).then(|| format!("{count} {what}"))
        };
        let remarks = [
            (!self.configured).then(|| "no section".to_owned()),
            count("closed", |partition| partition.closed),
            count("failed", |partition| partition.poisoned.is_some()),
            count("full", |partition| partition.full),
        ];
        remarks.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl Partition {
    fn remarks(&self) -> Vec<String> {
        let closed = self.closed.then(|| "closed".to_owned());
        let failed = self.poisoned.as_ref().map(|why| format!("takes no messages until a restart: {why}"));
        let full = self.full.then(|| "its disk is full".to_owned());
        [closed, failed, full].into_iter().flatten().collect()
    }
}

/// What the commands `stats topics` and `stats offsets` tell.
fn by_wire(
    server: &str,
    topic: Option<&TopicName>,
    arguments: &Arguments,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let format = arguments.admin.output();
    runtime()?.block_on(async {
        let broker = connect(&server_address(server)?, arguments.admin.timeout()).await?;
        match topic {
            None => list_lines(&broker.stats("topics").await?, printer, format),
            Some(topic) => describe_offsets(topic, broker.topic_offsets(topic.as_str()).await?, printer, format),
        }
    })
}

/// A line of `stats topics`.
#[derive(Debug, Serialize)]
struct TopicLine<'a> {
    topic: &'a str,
    /// Those with data.
    partitions: u64,
    messages: u64,
    bytes: u64,
    /// Not told of a topic without data.
    accept_publish: Option<bool>,
    accept_subscribe: Option<bool>,
}

impl<'a> TopicLine<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let words: Vec<_> = line.split(' ').collect();
        match *words.as_slice() {
            [topic, "*Empty*"] => {
                Some(Self { topic, partitions: 0, messages: 0, bytes: 0, accept_publish: None, accept_subscribe: None })
            }
            [
                topic,
                "partitions",
                partitions,
                "message_count",
                messages,
                "message_bytes",
                bytes,
                "accept_publish",
                publish,
                "accept_subscribe",
                subscribe,
            ] => Some(Self {
                topic,
                partitions: partitions.parse().ok()?,
                messages: messages.parse().ok()?,
                bytes: bytes.parse().ok()?,
                accept_publish: publish.parse().ok(),
                accept_subscribe: subscribe.parse().ok(),
            }),
            _ => None,
        }
    }
}

fn list_lines(text: &str, printer: &mut Printer, format: Format) -> anyhow::Result<()> {
    let topics = lines(text).filter_map(TopicLine::of);
    if format == Format::Json {
        return Ok(topics.into_iter().try_for_each(|topic| printer.json(&topic))?);
    }
    let mut table = Table::new(["TOPIC", "WITH DATA", "MESSAGES", "SIZE", "PUBLISH", "SUBSCRIBE"]);
    let known = |value: Option<bool>| value.map_or_else(|| "-".to_owned(), yes_or_no);
    for topic in topics {
        table.row([
            topic.topic.to_owned(),
            topic.partitions.to_string(),
            topic.messages.to_string(),
            bytes(topic.bytes),
            known(topic.accept_publish),
            known(topic.accept_subscribe),
        ]);
    }
    Ok(printer.line(&table)?)
}

fn describe_offsets(
    topic: &TopicName,
    partitions: TopicOffsets,
    printer: &mut Printer,
    format: Format,
) -> anyhow::Result<()> {
    if partitions.is_empty() {
        bail!("the broker has no data of topic {topic}; metaq topics list shows what it has");
    }
    let mut table = Table::new(["PARTITION", "MIN OFFSET", "MAX OFFSET", "SIZE"]);
    for (partition, range) in partitions {
        let (min, max) = (range.min.get(), range.max.get());
        match format {
            Format::Json => {
                printer.json(&json!({ "partition": partition.get(), "min_offset": min, "max_offset": max }))?;
            }
            Format::Text => {
                let size = bytes(u64::try_from(max.saturating_sub(min)).unwrap_or(0));
                table.row([partition.to_string(), min.to_string(), max.to_string(), size]);
            }
        }
    }
    if format == Format::Text {
        printer.line(&table)?;
    }
    Ok(())
}

fn yes_or_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

/// A name as one element of a path.
fn path_element(name: &str) -> String {
    name.bytes().fold(String::new(), |mut path, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => path.push(char::from(byte)),
            _ => path.push_str(&format!("%{byte:02X}")),
        }
        path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_is_one_element_of_a_path() {
        assert_eq!(path_element("orders-1_a.b"), "orders-1_a.b");
        assert_eq!(path_element("a%*?#é"), "a%25%2A%3F%23%C3%A9");
    }

    #[test]
    fn lines_of_topics_are_read() {
        let line = "t partitions 2 message_count 3 message_bytes 70 accept_publish true accept_subscribe false";
        let topic = TopicLine::of(line).unwrap();
        assert_eq!((topic.partitions, topic.messages, topic.bytes), (2, 3, 70));
        assert_eq!((topic.accept_publish, topic.accept_subscribe), (Some(true), Some(false)));
        assert_eq!(TopicLine::of("t *Empty*").unwrap().topic, "t");
        assert!(TopicLine::of("t").is_none());
    }
}
