//! What a consumer prints: the lines of the reference rig's `metaq-java`, so that scripts take either.

use std::io;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use clap::ValueEnum;
use serde::Serialize;

use super::ConsumeArguments;
use crate::cli::output::{Format, Printer};
use crate::id::{MessageId, Offset, PartitionIndex};

/// How json shows a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum Payload {
    #[default]
    Text,
    Base64,
    None,
}

/// A message as it is shown.
#[derive(Debug)]
pub(super) struct Shown<'a> {
    /// False for a delivery that was failed on purpose.
    pub(super) ok: bool,
    /// -1 for a broker that is known by its address only, as the reference's client shows it.
    pub(super) broker: i32,
    pub(super) partition: PartitionIndex,
    pub(super) offset: Offset,
    pub(super) id: MessageId,
    pub(super) attribute: Option<&'a str>,
    pub(super) payload: &'a Bytes,
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

/// What was read, in the end.
#[derive(Debug, Serialize)]
pub(super) struct Summary {
    summary: bool,
    received: u64,
    deliveries: u64,
    reason: &'static str,
}

impl Summary {
    pub(super) fn new(received: u64, deliveries: u64, reason: &'static str) -> Self {
        Self { summary: true, received, deliveries, reason }
    }
}

/// Tells that consumption has begun.
pub(super) fn ready(arguments: &ConsumeArguments, group: &str) -> io::Result<()> {
    match arguments.output {
        Format::Text => Ok(()),
        Format::Json => Printer::new().json(&Ready { ready: true, group }),
    }
}

/// Adds a delivery to what is to be printed. As text, one that was failed on purpose is not shown.
pub(super) fn append(arguments: &ConsumeArguments, shown: &Shown<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    match arguments.output {
        Format::Text if shown.ok => out.extend_from_slice(shown.payload),
        Format::Text => return Ok(()),
        Format::Json => serde_json::to_writer(
            &mut *out,
            &Line {
                ok: shown.ok,
                broker: shown.broker,
                partition: shown.partition.get(),
                offset: shown.offset.get(),
                id: shown.id.get(),
                attribute: shown.attribute,
                size: shown.payload.len(),
                payload: payload(shown.payload, arguments.payload),
            },
        )?,
    }
    out.push(b'\n');
    Ok(())
}

/// Prints what was added, at once.
pub(super) fn print(out: &[u8]) -> io::Result<()> {
    let mut printer = Printer::new();
    printer.raw(out)?;
    printer.flush()
}

/// Tells how it ended, and sees that all is out.
pub(super) fn summary(arguments: &ConsumeArguments, summary: &Summary) -> io::Result<()> {
    let mut printer = Printer::new();
    if arguments.output == Format::Json {
        printer.json(summary)?;
    }
    printer.flush()
}

fn payload(payload: &Bytes, form: Payload) -> Option<String> {
    match form {
        Payload::Text => Some(String::from_utf8_lossy(payload).into_owned()),
        Payload::Base64 => Some(BASE64_STANDARD.encode(payload)),
        Payload::None => None,
    }
}
