//! `metaq partitions`: closing partitions for put and get, and opening them again (02 §14).

use std::process::ExitCode;

use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::admin::{AdminArguments, with_client};
use super::output::Format;
use super::table::Table;
use crate::id::TopicName;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List the closed partitions
    List(AdminArguments),
    /// Close partitions of a topic for put and get, until they are opened or the broker is restarted
    Close {
        /// The topic; it must have a section of exactly this name in the configuration
        #[arg(long)]
        topic: TopicName,
        /// The first partition
        #[arg(long, allow_negative_numbers = true)]
        start: i32,
        /// The last partition, which is closed too
        #[arg(long, allow_negative_numbers = true)]
        end: i32,
        #[command(flatten)]
        admin: AdminArguments,
    },
    /// Open all closed partitions of a topic
    Open {
        /// The topic
        #[arg(long)]
        topic: TopicName,
        #[command(flatten)]
        admin: AdminArguments,
    },
}

/// Partitions from the first to the last.
#[derive(Debug, Deserialize, Serialize)]
struct ClosedRange {
    topic: String,
    start: i32,
    end: i32,
}

pub(super) fn run(command: &Command) -> ExitCode {
    match command {
        Command::List(admin) => list(admin),
        Command::Close { topic, start, end, admin } => close(admin, topic, *start, *end),
        Command::Open { topic, admin } => open(admin, topic),
    }
}

fn list(admin: &AdminArguments) -> ExitCode {
    with_client(admin, async |client, printer, format| {
        let closed: Vec<ClosedRange> = client.get("/api/v1/partitions/closed").await?;
        match format {
            Format::Json => closed.iter().try_for_each(|range| printer.json(range))?,
            Format::Text if closed.is_empty() => printer.line("no partition is closed")?,
            Format::Text => {
                let mut table = Table::new(["CLOSED OF TOPIC", "FROM", "TO"]);
                closed.into_iter().for_each(|c| table.row([c.topic, c.start.to_string(), c.end.to_string()]));
                printer.line(&table)?;
            }
        }
        Ok(())
    })
}

fn close(admin: &AdminArguments, topic: &TopicName, start: i32, end: i32) -> ExitCode {
    with_client(admin, async |client, printer, format| {
        let range = json!({ "topic": topic.as_str(), "start": start, "end": end });
        let answer = client.post("/api/v1/partitions/close", Some(&range)).await?;
        match format {
            Format::Json => printer.json(&answer)?,
            Format::Text => {
                let closed =
                    if start == end { format!("Partition {start}") } else { format!("Partitions {start} to {end}") };
                let (are, they_are) = if start == end { ("is", "it is") } else { ("are", "they are") };
                printer.line(format_args!(
                    "{closed} of {topic} {are} closed for put and get, until {they_are} opened or the broker is restarted."
                ))?;
                if let Some(count) =
                    answer.get("numPartitions").and_then(Value::as_i64).filter(|&n| i64::from(end) >= n)
                {
                    printer.line(format_args!(
                        "numPartitions of {topic} is {count} on this broker: partitions beyond are closed should they come."
                    ))?;
                }
            }
        }
        Ok(())
    })
}

fn open(admin: &AdminArguments, topic: &TopicName) -> ExitCode {
    with_client(admin, async |client, printer, format| {
        let answer = client.post("/api/v1/partitions/open", Some(&json!({ "topic": topic.as_str() }))).await?;
        let was_closed = answer.get("opened").and_then(Value::as_bool).unwrap_or(true);
        match format {
            Format::Json => printer.json(&answer)?,
            Format::Text if was_closed => printer.line(format_args!("All partitions of {topic} are open."))?,
            Format::Text => {
                printer.line(format_args!("No partition of {topic} was closed."))?;
            }
        }
        Ok(())
    })
}
