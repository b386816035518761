//! A load on one broker: one thread and one blocking connection each.

use std::thread;
use std::time::Instant;

use anyhow::anyhow;

use super::exchange::Exchange;
use super::report::{Mode, Report};
use super::schedule::{Interrupt, Length, Schedule};
use crate::id::{PartitionIndex, TopicName};

/// A load on one broker.
#[derive(Debug)]
pub(super) struct Load {
    /// `host:port`.
    pub(super) address: String,
    pub(super) topic: TopicName,
    /// Partitions 0 to this number less 1 are used in turn.
    pub(super) partitions: u32,
    pub(super) length: Length,
    pub(super) interrupt: Interrupt,
}

/// One connection of a load and what its thread needs to know.
pub(super) struct Worker<'a> {
    pub(super) exchange: Exchange,
    pub(super) load: &'a Load,
    pub(super) schedule: &'a Schedule,
    /// Its number, from 0.
    pub(super) number: u32,
    pub(super) connections: u32,
}

impl Load {
    /// Runs the same work on some connections and adds up what they saw.
    pub(super) fn run(
        &self,
        mode: Mode,
        connections: u32,
        work: impl Fn(Worker<'_>) -> anyhow::Result<Report> + Sync,
    ) -> anyhow::Result<Report> {
        let exchanges = (0..connections).map(|_| Exchange::connect(&self.address));
        let exchanges = exchanges.collect::<anyhow::Result<Vec<_>>>()?;
        let (schedule, work) = (&self.length.begin(self.interrupt.clone()), &work);
        let mut report = Report::new(mode)?;
        thread::scope(|scope| {
            let spawn = |(exchange, number)| {
                scope.spawn(move || work(Worker { exchange, load: self, schedule, number, connections }))
            };
            let threads: Vec<_> = exchanges.into_iter().zip(0..).map(spawn).collect();
            threads.into_iter().try_for_each(|thread| {
                report.add(&thread.join().map_err(|_| anyhow!("a connection's thread panicked"))??)
            })
        })?;
        report.finish(Instant::now().saturating_duration_since(schedule.measured_from), schedule.is_interrupted());
        Ok(report)
    }

    pub(super) fn partition(&self, turn: u32) -> PartitionIndex {
        PartitionIndex::new(i32::try_from(turn % self.partitions).unwrap_or(i32::MAX))
    }
}
