//! Gets: each connection reads its partitions from the beginning to the end, again and again.

use std::time::Instant;

use anyhow::bail;
use bytestring::ByteString;

use super::exchange::Exchange;
use super::load::Worker;
use super::records::walk;
use super::report::{Mode, Report};
use crate::id::{Offset, PartitionIndex, TopicName};
use crate::protocol::{Get, Opaque, Request, Response, Status};

/// What each connection does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gets {
    /// Bytes to ask for.
    pub(super) max_size: i32,
}

/// A get without extensions.
pub(super) fn plain_get(topic: &TopicName, partition: PartitionIndex, offset: Offset, max_size: i32) -> Get {
    Get {
        topic: topic.as_str().into(),
        group: ByteString::from_static("metaq-bench"),
        partition,
        offset,
        max_size,
        opaque: Opaque::new(1),
        surplus: ByteString::new(),
    }
}

/// Where a connection reads.
struct Place {
    turn: u32,
    offset: Offset,
    /// Turns that ended without a message.
    empty: u32,
    is_empty: bool,
}

impl Gets {
    pub(super) fn run(self, worker: Worker<'_>) -> anyhow::Result<Report> {
        let Worker { exchange: Exchange { mut sender, mut receiver }, load, schedule, number, connections } = worker;
        let mut report = Report::new(Mode::Get)?;
        let mut place = Place { turn: number, offset: Offset::ZERO, empty: 0, is_empty: true };
        let mut sent = 0;
        let mut patience = schedule.patience();
        loop {
            let at = Instant::now();
            if schedule.left(at, sent) == 0 {
                return Ok(report);
            }
            let get = plain_get(&load.topic, load.partition(place.turn), place.offset, self.max_size);
            sender.queue(&Request::Get(get));
            sender.send()?;
            let mut answered = false;
            while !answered && !patience.is_over() {
                receiver.receive(|response| {
                    answered = true;
                    match response {
                        Response::Value(value) => {
                            let latency = at.elapsed();
                            let mut messages = 0;
                            let consumed = walk(&value.data, self.max_size, |_| messages += 1)?;
                            if schedule.is_measured(at) {
                                sent += 1;
                                report.count(messages, value.data.len(), latency)?;
                            }
                            place.offset = place.offset.checked_add(consumed as u64).unwrap_or(Offset::ZERO);
                            place.is_empty = false;
                        }
                        Response::Result(result) if result.status == Status::MOVED => {
                            place.offset = String::from_utf8_lossy(&result.body).parse()?;
                        }
                        // The end of this partition, or none such.
                        Response::Result(result) if result.status == Status::NOT_FOUND => {
                            place.go_on(connections);
                            if place.empty >= load.partitions {
                                bail!("nothing to read: put messages into topic {} first", load.topic);
                            }
                        }
                        Response::Result(result) => bail!(
                            "the broker refused a get with status {}: {}",
                            result.status,
                            String::from_utf8_lossy(&result.body)
                        ),
                    }
                    Ok(())
                })?;
            }
        }
    }
}

impl Place {
    /// To the begin of the next partition.
    fn go_on(&mut self, connections: u32) {
        self.empty = if self.is_empty { self.empty + 1 } else { 0 };
        *self = Self { turn: self.turn.wrapping_add(connections), offset: Offset::ZERO, is_empty: true, ..*self };
    }
}
