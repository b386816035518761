//! Syncs of the commit log: one covers every partition (08 §3).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tracing::{error, info};

use super::pool::LogFile;
use crate::common::guard::lock;
use crate::store::partition::{PartitionLog, Shared, Unsynced};
use crate::store::times::StoreTimes;

/// What a sync makes durable: frames that are written, and how far each partition reaches with them.
#[derive(Debug)]
pub(in crate::store) struct Covered {
    pub(in crate::store) file: LogFile,
    /// Of the last frame.
    pub(in crate::store) sequence: u64,
    pub(in crate::store) partitions: Vec<(Arc<PartitionLog>, Unsynced)>,
}

/// See the module.
#[derive(Debug)]
pub(in crate::store) struct Syncs {
    shared: Arc<Shared>,
    /// The highest sequence that is durable.
    durable: AtomicU64,
    /// For the line at the stop, finer than the buckets that are always counted.
    times: Mutex<Option<Histogram<u32>>>,
    /// How long a sync usually takes, in nanoseconds.
    usual_ns: AtomicU64,
}

/// A sync counts for this fraction in what is usual.
const USUAL_SHARE: u64 = 32;

/// Which opening of the file a sync uses. The kernel reports a failed write-back to one of several concurrent syncs of an
/// opening only, so nobody shares one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Lane {
    /// One for each committer, by its number; behind those the flusher's, and that of whoever commits on its own thread.
    Committer(usize),
    /// Of whoever holds the round.
    Writer,
}

/// A log's sequences begin at this number at most, and never come to their end.
const MAX_BEFORE_FIRST: u64 = 1 << 62;

/// A time of the syncs' histogram in microseconds.
const LONGEST_SYNC_US: u64 = 60_000_000;

impl Syncs {
    pub(in crate::store) fn new(shared: Arc<Shared>) -> Self {
        let times = Histogram::new_with_max(LONGEST_SYNC_US, 2).ok();
        // At random, so that no payload holds numbers that look like the log's sequences: a start would have to look twice
        // at each.
        let before_first = fastrand::u64(..MAX_BEFORE_FIRST);
        Self { shared, durable: AtomicU64::new(before_first), times: Mutex::new(times), usual_ns: AtomicU64::new(0) }
    }

    /// The highest sequence that is durable; before there is one, the number before the first.
    pub(in crate::store) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// How long the disks take.
    pub(in crate::store) fn times(&self) -> &StoreTimes {
        &self.shared.times
    }

    /// Whether the log has failed.
    pub(in crate::store) fn failed(&self) -> bool {
        self.shared.log_poison.get().is_some()
    }

    /// Makes frames durable; [`mark`](Self::mark) then moves the visible marks.
    ///
    /// A failure poisons the log: which of its pages are on the disk is unknown from then on. The sync is never tried
    /// again.
    pub(in crate::store) fn sync(&self, covered: &Covered, lane: Lane) {
        let Covered { file, sequence, .. } = covered;
        // Another sync that began later may have covered it.
        if self.failed() || self.durable() >= *sequence {
            return;
        }
        let opening = match lane {
            Lane::Writer => &file.file,
            Lane::Committer(lane) => file.lanes.get(lane).unwrap_or(&file.file),
        };
        let start = Instant::now();
        let result = opening.sync_data();
        let took = start.elapsed();
        self.shared.times.log_sync.record(took);
        self.note(took);
        match result {
            Ok(()) => {
                self.durable.fetch_max(*sequence, Ordering::AcqRel);
            }
            Err(error) => {
                poison(&self.shared, &format!("sync of the commit log {} failed: {error}", file.path.display()));
            }
        }
    }

    fn note(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if let Some(times) = lock(&self.times).as_mut() {
            times.saturating_record(ns / 1000);
        }
        let usual = self.usual_ns.load(Ordering::Relaxed);
        let usual = match usual {
            0 => ns,
            // One that takes very long is an exception, not what is usual.
            usual => usual - usual / USUAL_SHARE + ns.min(usual.saturating_mul(2)) / USUAL_SHARE,
        };
        self.usual_ns.store(usual, Ordering::Relaxed);
    }

    /// How long a sync usually takes; zero before the first one.
    pub(in crate::store) fn usual(&self) -> Duration {
        Duration::from_nanos(self.usual_ns.load(Ordering::Relaxed))
    }

    /// Takes note of what a sync made durable, unless the log has failed meanwhile. Gives back the emptied list.
    pub(in crate::store) fn mark(&self, covered: Covered) -> Vec<(Arc<PartitionLog>, Unsynced)> {
        let Covered { mut partitions, .. } = covered;
        if !self.failed() {
            partitions.iter().for_each(|(partition, unsynced)| partition.synced(*unsynced));
        }
        partitions.clear();
        partitions
    }

    /// Says how long syncs took.
    pub(in crate::store) fn log_times(&self) {
        let times = lock(&self.times);
        if let Some(times) = times.as_ref().filter(|times| !times.is_empty()) {
            info!(
                syncs = times.len(),
                p50_us = times.value_at_quantile(0.5),
                p99_us = times.value_at_quantile(0.99),
                max_us = times.max(),
                "syncs of the commit log"
            );
        }
    }
}

/// Ends writing to every partition until a restart.
pub(in crate::store) fn poison(shared: &Shared, reason: &str) {
    if shared.log_poison.set(reason.into()).is_ok() {
        error!(
            reason,
            "the commit log failed: all partitions serve what is durable and take no more messages until the broker is \
             restarted, which finds out what the disk really holds; check the disk first"
        );
    }
}
