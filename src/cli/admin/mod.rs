//! `metaq admin`: looking at a running broker and changing it, by its HTTP interface.
//!
//! | part | what it does |
//! |---|---|
//! | `target` | where the interface is, and the token |
//! | `http` | requests to it |
//! | `status` | what it says of the broker |

mod http;
mod status;
mod target;

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::Value;

pub(super) use http::{AdminClient, AdminError};
pub(super) use target::{AdminArguments, configuration_of, reachable};

use super::output::{Format, Printer, finish};
use super::runtime;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Tell of a running broker: process, addresses, registration in ZooKeeper, health, what it holds; the exit status is 1
    /// if none answers
    Status(AdminArguments),
    /// Have the broker read its configuration file again and tell what changed; a file with any error is refused as a whole
    Reload(AdminArguments),
    /// Ask the broker to stop as TERM does; returns before it has stopped
    Stop(AdminArguments),
}

pub(super) fn run(command: &Command) -> ExitCode {
    match command {
        Command::Status(arguments) => with_client(arguments, status::show),
        Command::Reload(arguments) => with_client(arguments, reload),
        Command::Stop(arguments) => with_client(arguments, stop),
    }
}

/// Runs a command that asks the interface.
pub(super) fn with_client(
    arguments: &AdminArguments,
    command: impl AsyncFnOnce(&AdminClient, &mut Printer, Format) -> anyhow::Result<()>,
) -> ExitCode {
    let format = arguments.output();
    let run = || {
        let client = arguments.client()?;
        runtime()?.block_on(command(&client, &mut Printer::new(), format))
    };
    finish(run().map(|()| true), format)
}

async fn reload(client: &AdminClient, printer: &mut Printer, format: Format) -> anyhow::Result<()> {
    let answer = client.post("/reload", None).await?;
    match format {
        Format::Json => printer.json(answer.get("report").unwrap_or(&answer))?,
        Format::Text => printer.line(answer.get("text").and_then(Value::as_str).unwrap_or_default().trim_end())?,
    }
    Ok(())
}

async fn stop(client: &AdminClient, printer: &mut Printer, format: Format) -> anyhow::Result<()> {
    let answer = client.post("/api/v1/stop", None).await?;
    match format {
        Format::Json => printer.json(&answer)?,
        Format::Text => printer.line("The broker is stopping.")?,
    }
    Ok(())
}
