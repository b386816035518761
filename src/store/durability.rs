//! The seam for what makes appended records durable.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::partition::PartitionLog;

/// Makes what partitions were given durable before it is answered.
///
/// Contract: when [`make_durable`](Self::make_durable) returns, the visible mark of each partition covers everything
/// that was written to it before the call, or the partition is poisoned.
pub(super) trait Durability: Send {
    fn make_durable(&mut self, partitions: &[&PartitionLog]);
}

/// Durability by a sync of each segment file that was written to, several at the same time.
#[derive(Debug, Default)]
pub(super) struct SegmentSync;

/// Syncs that run at the same time: enough for the device to work on several at once.
const SYNC_THREADS: usize = 8;

impl Durability for SegmentSync {
    fn make_durable(&mut self, partitions: &[&PartitionLog]) {
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(partition) = partitions.get(next.fetch_add(1, Ordering::Relaxed)) {
                // A failure is recorded in the partition, where it is logged and answered from.
                let _poisoned = partition.sync();
            }
        };
        // Starting a thread takes a small part of the time of a sync, and most rounds touch few partitions.
        thread::scope(|scope| {
            for _ in 1..partitions.len().min(SYNC_THREADS) {
                // This thread does the work alone if no other can be had.
                if thread::Builder::new().name("metaq-sync".to_owned()).spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
    }
}
