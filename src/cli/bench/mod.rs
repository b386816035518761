//! `metaq bench`: a load generator for any broker that speaks MetaQ.

mod arguments;
mod end_to_end;
mod exchange;
mod gets;
mod histogram;
mod load;
mod puts;
mod records;
mod report;
mod schedule;
mod stamp;
mod subscription;

use std::process::ExitCode;

use anyhow::bail;

pub(super) use self::arguments::Command;
use self::end_to_end::EndToEnd;
use self::gets::Gets;
use self::load::Load;
use self::puts::Puts;
use self::report::{Mode, Report};
use self::schedule::Interrupt;
use self::subscription::Subscription;
use super::output::{Format, Printer, finish};
use super::runtime;
use super::signals::stop_requested;
use super::target::server_address;
use crate::client::{BrokerClient, ConnectionOptions};
use crate::id::{Offset, PartitionIndex};

pub(super) fn run(command: Command) -> ExitCode {
    let output = command.common().output;
    finish(runtime().and_then(|runtime| runtime.block_on(measure(command))), output)
}

async fn measure(command: Command) -> anyhow::Result<bool> {
    let (interrupt, stop) = (Interrupt::default(), stop_requested()?);
    let interrupted = interrupt.clone();
    tokio::spawn(async move {
        stop.await;
        interrupted.set();
    });
    let common = command.common();
    let output = common.output;
    let load = Load {
        address: server_address(&common.server)?,
        topic: common.topic.clone(),
        partitions: common.partitions.get(),
        length: command.length(),
        interrupt: interrupt.clone(),
    };
    let subscription = match &command {
        Command::E2e { transfer, .. } => Some(subscribe(&load, transfer.max_size).await?),
        _ => None,
    };
    let report = tokio::task::spawn_blocking(move || run_load(&command, &load, subscription)).await??;
    if report.is_empty() {
        bail!("nothing was measured: the run ended before anything was answered");
    }
    match output {
        Format::Text => Printer::new().line(&report)?,
        Format::Json => Printer::new().json(&report.figures())?,
    }
    Ok(report.is_clean())
}

fn run_load(command: &Command, load: &Load, subscription: Option<Subscription>) -> anyhow::Result<Report> {
    match (command, subscription) {
        (&Command::Put { ref connections, window, size, .. }, _) => {
            let puts = Puts { window: window as usize, size: size as usize };
            load.run(Mode::Put, connections.connections, |worker| puts.run(worker))
        }
        (&Command::Latency { ref connections, size, .. }, _) => {
            let puts = Puts { window: 1, size: size as usize };
            load.run(Mode::Put, connections.connections, |worker| puts.run(worker))
        }
        (Command::Get { connections, transfer, .. }, _) => {
            let gets = Gets { max_size: transfer.max_size };
            load.run(Mode::Get, connections.connections, |worker| gets.run(worker))
        }
        (&Command::E2e { size, rate, .. }, Some(subscription)) => {
            EndToEnd { size: size as usize, rate: rate.get() }.run(load, subscription)
        }
        (Command::E2e { .. }, None) => bail!("nobody consumes"),
    }
}

/// Finds where the partitions end now, and whether the broker holds gets back.
async fn subscribe(load: &Load, max_size: i32) -> anyhow::Result<Subscription> {
    let client = BrokerClient::connect(&load.address, ConnectionOptions::default()).await?;
    let long_poll = client.holds_gets().await?;
    let ends = client.topic_offsets(load.topic.as_str()).await?;
    let end = |partition: PartitionIndex| {
        let known = ends.iter().find(|(index, _)| *index == partition);
        // Partitions without messages are not told of.
        known.map_or(Offset::ZERO, |(_, range)| range.max)
    };
    let partitions = (0..load.partitions).map(|turn| load.partition(turn));
    Ok(Subscription::new(long_poll, max_size, partitions.map(|partition| (partition, end(partition)))))
}
