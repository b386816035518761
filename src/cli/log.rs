//! `metaq log`: the commit log of a broker that does not run.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{ArgGroup, Args, Subcommand};
use serde_json::json;

use super::broker::{load, raise_descriptor_limit};
use super::logging;
use super::output::{Format, Printer, finish};
use crate::broker::store_options;
use crate::id::{PartitionIndex, TopicName};
use crate::store::{
    FrameContent, LogItem, OsFileSystem, PartitionRecovery, RecoveryOutcome, RecoveryReport, Resolution, Resolved,
    Store, dump_log, resolve_quarantine,
};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Bring what only the commit log holds into the segment files and remove it, as a start and a clean stop do:
    /// afterwards a Java broker may use the directory; the exit status is 1 if messages had to be set aside
    Recover(Common),
    /// Show the files of the commit log and where it ends, without changing anything; the exit status is 1 if a start
    /// would be refused
    Dump {
        #[command(flatten)]
        common: Common,
        /// Show every frame
        #[arg(long)]
        frames: bool,
    },
    /// Decide about messages in quarantine, so that their partition takes messages again
    #[command(group(ArgGroup::new("decision").required(true).args(["keep_segment", "append"])))]
    Resolve {
        #[command(flatten)]
        common: Common,
        /// The topic
        topic: TopicName,
        /// The number of the partition
        partition: PartitionIndex,
        /// Leave the segments as they are; the messages are kept in a file that ends in .resolved, which may be renamed
        /// back
        #[arg(long)]
        keep_segment: bool,
        /// Append the messages at the end of the partition: ids stay, offsets change
        #[arg(long)]
        append: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct Common {
    /// The configuration file of the broker
    #[arg(short = 'f', value_name = "FILE")]
    file: PathBuf,
    /// The form of the output
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn run(command: &Command) -> ExitCode {
    match command {
        Command::Recover(common) => finish(recover(common), common.output),
        Command::Dump { common, frames } => finish(dump(common, *frames), common.output),
        Command::Resolve { common, topic, partition, append, .. } => {
            let resolution = if *append { Resolution::Append } else { Resolution::KeepSegment };
            finish(resolve(common, topic, *partition, resolution), common.output)
        }
    }
}

fn recover(common: &Common) -> anyhow::Result<bool> {
    logging::start();
    let config = Arc::new(load(&common.file)?);
    raise_descriptor_limit();
    let store = Store::open(store_options(&config), Arc::new(OsFileSystem))?;
    let report = store.recovery().clone();
    let closed = store.close();
    let all_applied = report.partitions.iter().all(|partition| partition.outcome == RecoveryOutcome::Applied);
    let mut printer = Printer::new();
    match common.output {
        Format::Text => print_report(&mut printer, &report)?,
        Format::Json => {
            let partition = |partition: &PartitionRecovery| {
                json!({
                    "topic": partition.topic.as_str(),
                    "partition": partition.partition.get(),
                    "outcome": partition.outcome,
                    "written_bytes": partition.written_bytes,
                    "present_bytes": partition.present_bytes,
                    "removed_bytes": partition.removed_bytes,
                    "reason": partition.reason,
                })
            };
            printer.json(&json!({
                "clean_stop": report.clean_stop,
                "log_files": report.log_files,
                "frames": report.frames,
                "partitions": report.partitions.iter().map(partition).collect::<Vec<_>>(),
            }))?;
        }
    }
    closed?;
    Ok(all_applied)
}

fn print_report(printer: &mut Printer, report: &RecoveryReport) -> io::Result<()> {
    for partition in &report.partitions {
        let PartitionRecovery { topic, partition: index, written_bytes, present_bytes, removed_bytes, .. } = partition;
        let what = match partition.outcome {
            RecoveryOutcome::Applied => "complete",
            RecoveryOutcome::Quarantined => "in quarantine",
            RecoveryOutcome::Pending => "pending",
        };
        printer.line(format_args!(
            "{topic}-{index}: {what}, {written_bytes} bytes written, {present_bytes} bytes were there, {removed_bytes} \
             bytes were of removed segments"
        ))?;
        if let Some(reason) = &partition.reason {
            printer.line(format_args!("  {reason}"))?;
        }
    }
    let end =
        report.log_end.as_ref().map(|(path, position)| format!(", ended at byte {position} of {}", path.display()));
    match report.log_files {
        0 if report.clean_stop => printer.line("nothing to do: the broker was stopped cleanly"),
        0 => printer.line("there was no commit log; the store is cleanly stopped now"),
        files => printer.line(format_args!(
            "commit log of {files} files with {} frames replayed{}; the store is cleanly stopped now",
            report.frames,
            end.unwrap_or_default()
        )),
    }
}

fn dump(common: &Common, frames: bool) -> anyhow::Result<bool> {
    let config = load(&common.file)?;
    let mut printer = Printer::new();
    let mut empty = true;
    let good = dump_log(&OsFileSystem, &config.system.data_log_path, frames, &mut |item| {
        empty = false;
        match common.output {
            Format::Text => print_item(&mut printer, &item),
            Format::Json => printer.json(&item),
        }
    })?;
    if empty && common.output == Format::Text {
        printer.line("there is no commit log")?;
    }
    Ok(good)
}

fn print_item(printer: &mut Printer, item: &LogItem) -> io::Result<()> {
    match item {
        LogItem::File { path, number, log_id, first_sequence, checkpoints, bytes } => printer.line(format_args!(
            "file {}: number {number} of log {log_id:016x}, from frame {first_sequence}, {checkpoints} checkpoints, {bytes} \
             bytes",
            path.display()
        )),
        LogItem::BlankFile { path, bytes } => {
            printer.line(format_args!("file {}: spare, {bytes} bytes", path.display()))
        }
        LogItem::Frame { path, position, bytes, sequence, synced, content } => {
            let name = path.file_name().unwrap_or_default().display();
            let content = match content {
                FrameContent::Records { partition, segment, offset, bytes } => {
                    format!("{partition} at offset {offset} in segment {segment}, {bytes} bytes of messages")
                }
                FrameContent::Forget { partition } => format!("{partition} was deleted: earlier frames of it are void"),
                FrameContent::Checkpoints { entries } => format!("{entries} checkpoints"),
                FrameContent::Unknown { number } => format!("unknown kind {number}"),
            };
            printer.line(format_args!(
                "frame {sequence} at byte {position} of {name}, {bytes} bytes, durable up to {synced}: {content}"
            ))
        }
        LogItem::End { frames, next_sequence, path, position, damage } => {
            let path = path.display();
            printer.line(format_args!("end after {frames} frames: no frame {next_sequence} at byte {position} of {path}"))?;
            match damage {
                Some(damage) => printer.line(damage),
                None => printer.line("nothing shows that more was durable: a torn end, or the end"),
            }
        }
        LogItem::SetAside { path, kind, frames, bytes, first_offset } => {
            let from = first_offset.map(|offset| format!(" from offset {offset}")).unwrap_or_default();
            let path = path.display();
            printer.line(format_args!("{kind} {path}: {frames} frames with {bytes} bytes of messages{from}"))
        }
        LogItem::Problem { text } => printer.line(format_args!("problem: {text}")),
    }
}

fn resolve(
    common: &Common,
    topic: &TopicName,
    partition: PartitionIndex,
    resolution: Resolution,
) -> anyhow::Result<bool> {
    logging::start();
    let config = Arc::new(load(&common.file)?);
    raise_descriptor_limit();
    let resolved = resolve_quarantine(store_options(&config), Arc::new(OsFileSystem), topic, partition, resolution)?;
    let Resolved { kept, records, bytes, old_offset, new_offset } = resolved;
    let mut printer = Printer::new();
    match common.output {
        Format::Json => printer.json(&json!({
            "topic": topic.as_str(),
            "partition": partition.get(),
            "kept": kept,
            "messages": records,
            "bytes": bytes,
            "old_offset": old_offset.map(|offset| offset.get()),
            "new_offset": new_offset.map(|offset| offset.get()),
        }))?,
        Format::Text => {
            let from = old_offset.map(|offset| format!(", which began at offset {offset},")).unwrap_or_default();
            match new_offset {
                Some(offset) => printer.line(format_args!(
                    "{records} messages ({bytes} bytes){from} were appended to {topic}-{partition} from offset {offset} on"
                ))?,
                None => printer.line(format_args!(
                    "{records} messages ({bytes} bytes){from} were not brought into {topic}-{partition}: its segments stay as \
                     they are. To undo this, stop the broker and rename the file below to its name without .resolved"
                ))?,
            }
            printer.line(format_args!("kept in {}", kept.display()))?;
        }
    }
    Ok(true)
}
