//! Counts since the start of the process (01 §10.2, and what operators see of them).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::protocol::Status;
use crate::store::{Histogram, HistogramSnapshot};

/// One counter.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Every status of an answer that is no success.
const REFUSALS: [Status; 6] =
    [Status::MOVED, Status::BAD_REQUEST, Status::FORBIDDEN, Status::NOT_FOUND, Status::ERROR, Status::UNAVAILABLE];

/// Why the broker closed a connection of its own accord.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The client sent something that is no command.
    Malformed,
    /// No byte moved for the idle time.
    Silent,
    /// A large body took too long to arrive.
    Late,
    /// A segment could not be read in the middle of an answer.
    Disk,
    /// The client did not take its answers while others waited for room.
    Unsent,
}

impl Cut {
    const ALL: [Self; 5] = [Self::Malformed, Self::Silent, Self::Late, Self::Disk, Self::Unsent];

    fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Silent => "silent",
            Self::Late => "late",
            Self::Disk => "disk",
            Self::Unsent => "unsent",
        }
    }
}

/// What the broker counts.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Puts, failed ones included.
    pub(super) puts: Count,
    /// Puts answered with 500.
    pub(super) failed_puts: Count,
    /// Bytes of bodies that were handed to the store.
    pub(super) put_bytes: Count,
    /// From a put's being read to its answer's being queued.
    pub(super) put_time: Histogram,
    pub(super) gets: Count,
    /// Gets that found nothing at their offset.
    pub(super) missed_gets: Count,
    /// Bytes of messages that went out.
    pub(super) get_bytes: Count,
    /// From the answer's being decided to the client's having taken its last byte, of gets that brought messages.
    pub(super) get_time: Histogram,
    pub(super) offset_queries: Count,
    /// Connections that got a place.
    pub(super) accepted_connections: Count,
    /// Connections closed at once because there were as many as there may be.
    pub(super) refused_connections: Count,
    open_connections: AtomicU64,
    refusals: [Count; REFUSALS.len()],
    cuts: [Count; Cut::ALL.len()],
}

/// What was counted up to one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// Puts, refused ones included.
    pub puts: u64,
    /// Puts answered with 500.
    pub failed_puts: u64,
    /// Bytes of bodies that were handed to the store.
    pub put_bytes: u64,
    /// From a put's being read to its answer's being queued; of those that were handed to the store.
    pub put_time: HistogramSnapshot,
    /// Gets, refused ones included.
    pub gets: u64,
    /// Gets that found nothing at their offset.
    pub missed_gets: u64,
    /// Bytes of messages that went out.
    pub get_bytes: u64,
    /// From the answer's being decided to the client's having taken its last byte, of gets that brought messages. The wait
    /// of a long poll does not count.
    pub get_time: HistogramSnapshot,
    /// Offset queries, and gets that were told an offset.
    pub offset_queries: u64,
    /// Connections that are open.
    pub open_connections: u64,
    /// Connections that got a place.
    pub accepted_connections: u64,
    /// Connections closed at once because there were as many as there may be.
    pub refused_connections: u64,
    /// Answers that are no success, by status.
    pub refusals: Vec<(Status, u64)>,
    /// Connections that the broker closed of its own accord, by reason: `malformed`, `silent`, `late`, `disk` or
    /// `unsent`.
    pub cut_connections: Vec<(&'static str, u64)>,
}

/// An open connection, counted until it is dropped.
#[derive(Debug)]
pub(super) struct OpenConnection(Arc<Counters>);

impl Counters {
    pub(super) fn connection_opened(self: &Arc<Self>) -> OpenConnection {
        self.accepted_connections.add_one();
        self.open_connections.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(self))
    }

    pub(super) fn open_connections(&self) -> u64 {
        self.open_connections.load(Ordering::Relaxed)
    }

    /// Counts gets whose messages went out together.
    pub(super) fn count_answered_gets(&self, took: Duration, count: u64, bytes: u64) {
        self.get_time.record_many(took, count);
        self.get_bytes.add(bytes);
    }

    /// Counts puts that came back from the store together.
    pub(super) fn count_answered_puts(&self, took: Duration, count: u64, body_bytes: u64) {
        self.put_time.record_many(took, count);
        self.put_bytes.add(body_bytes);
    }

    /// Counts an answer that is no success.
    pub(super) fn refused(&self, status: Status) {
        let place = REFUSALS.iter().position(|&known| known == status);
        if let Some(count) = place.and_then(|place| self.refusals.get(place)) {
            count.add_one();
        }
    }

    /// Counts a connection that is closed because of something that the client or a disk did.
    pub(super) fn cut(&self, why: Cut) {
        if let Some(count) = self.cuts.get(why as usize) {
            count.add_one();
        }
    }

    /// What was counted so far.
    pub(super) fn snapshot(&self) -> Traffic {
        Traffic {
            puts: self.puts.get(),
            failed_puts: self.failed_puts.get(),
            put_bytes: self.put_bytes.get(),
            put_time: self.put_time.snapshot(),
            gets: self.gets.get(),
            missed_gets: self.missed_gets.get(),
            get_bytes: self.get_bytes.get(),
            get_time: self.get_time.snapshot(),
            offset_queries: self.offset_queries.get(),
            open_connections: self.open_connections(),
            accepted_connections: self.accepted_connections.get(),
            refused_connections: self.refused_connections.get(),
            refusals: REFUSALS.into_iter().zip(&self.refusals).map(|(status, count)| (status, count.get())).collect(),
            cut_connections: Cut::ALL.into_iter().map(Cut::name).zip(self.cuts.iter().map(Count::get)).collect(),
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open_connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_found_under_its_name() {
        let counters = Counters::default();
        REFUSALS.iter().for_each(|&status| counters.refused(status));
        counters.refused(Status::FORBIDDEN);
        counters.refused(Status::SUCCESS);
        Cut::ALL.iter().for_each(|&why| counters.cut(why));
        counters.cut(Cut::Late);
        let traffic = counters.snapshot();
        let counts: Vec<_> = traffic.refusals.iter().map(|(status, count)| (status.code(), *count)).collect();
        assert_eq!(counts, [(301, 1), (400, 1), (403, 2), (404, 1), (500, 1), (503, 1)]);
        assert_eq!(traffic.cut_connections, [("malformed", 1), ("silent", 1), ("late", 2), ("disk", 1), ("unsent", 1)]);
    }
}
