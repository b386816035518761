//! Puts: a window of them under way on each connection.

use std::time::Instant;

use anyhow::{Context as _, bail};
use bytes::Bytes;

use super::exchange::Exchange;
use super::load::Worker;
use super::report::{Mode, Report};
use crate::id::{PartitionIndex, TopicName};
use crate::message::checksum;
use crate::protocol::{Opaque, Put, Request, Response, Status};

/// What each connection does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Puts {
    /// Puts under way.
    pub(super) window: usize,
    /// Bytes of a payload.
    pub(super) size: usize,
}

/// A put without an attribute for partition 0.
pub(super) fn plain_put(topic: &TopicName, body: Bytes) -> Put {
    Put {
        topic: topic.as_str().into(),
        partition: PartitionIndex::new(0),
        flag: 0,
        checksum: Some(checksum(&body)),
        transaction: None,
        opaque: Opaque::new(0),
        body,
    }
}

/// Letters to fill payloads with.
pub(super) fn letters(size: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(size).collect()
}

impl Puts {
    pub(super) fn run(self, worker: Worker<'_>) -> anyhow::Result<Report> {
        let Worker { exchange: Exchange { mut sender, mut receiver }, load, schedule, number, .. } = worker;
        let mut report = Report::new(Mode::Put)?;
        let mut put = plain_put(&load.topic, letters(self.size).into());
        // The opaque of a put is its place in the window, free again with the answer.
        let mut sent_at: Vec<Option<Instant>> = vec![None; self.window];
        let mut free: Vec<usize> = (0..self.window).collect();
        let mut turn = number;
        let mut sent = 0;
        let mut patience = schedule.patience();
        loop {
            let now = Instant::now();
            let mut left = schedule.left(now, sent);
            while left > 0
                && let Some(slot) = free.pop()
            {
                put.opaque = Opaque::new(i32::try_from(slot)?);
                put.partition = load.partition(turn);
                turn = turn.wrapping_add(1);
                left -= 1;
                sent += u64::from(schedule.is_measured(now));
                if let Some(at) = sent_at.get_mut(slot) {
                    *at = Some(now);
                }
                sender.queue(&Request::Put(put.clone()));
            }
            if free.len() == self.window || patience.is_over() {
                return Ok(report);
            }
            sender.send()?;
            receiver.receive(|response| {
                let slot = usize::try_from(response.opaque().get())?;
                let at = sent_at.get_mut(slot).and_then(Option::take);
                let at = at.context("the broker answered what nobody asked")?;
                free.push(slot);
                match response {
                    Response::Result(result) if result.status == Status::SUCCESS => {
                        if schedule.is_measured(at) {
                            report.count(1, self.size, at.elapsed())?;
                        }
                    }
                    Response::Result(result) => report.refused(&result),
                    Response::Value(_) => bail!("the broker answered a put with data"),
                }
                Ok(())
            })?;
        }
    }
}
