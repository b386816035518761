//! How long the store's disks take.

use super::histogram::Histogram;

/// Durations of what the store does with its disks, since it was opened.
#[derive(Debug, Default)]
pub struct StoreTimes {
    /// Writes to the commit log, each with the frames of a round.
    pub log_write: Histogram,
    /// Syncs of the commit log, each for all partitions.
    pub log_sync: Histogram,
    /// Syncs of single segment files at checkpoints (08 §4).
    pub segment_sync: Histogram,
    /// Periodic flushes and those that a reader waits for, from the request to the moved marks (02 §9).
    pub flush: Histogram,
}
