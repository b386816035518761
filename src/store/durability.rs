//! The seam for what makes appended records durable.

use super::partition::PartitionLog;

/// Makes what partitions were given durable before it is answered.
///
/// Contract: when [`make_durable`](Self::make_durable) returns, the visible mark of each partition covers everything
/// that was written to it before the call, or the partition is poisoned.
pub(super) trait Durability: Send {
    fn make_durable(&mut self, partitions: &[&PartitionLog]);
}

/// Durability by a sync of each segment file that was written to.
#[derive(Debug, Default)]
pub(super) struct SegmentSync;

impl Durability for SegmentSync {
    fn make_durable(&mut self, partitions: &[&PartitionLog]) {
        for partition in partitions {
            // A failure is recorded in the partition, where it is logged and answered from.
            let _poisoned = partition.sync();
        }
    }
}
