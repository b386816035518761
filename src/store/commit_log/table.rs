//! The checkpoint table: what is known to be durable in the segment files themselves.

use crate::id::{PartitionIndex, TopicName};
use crate::store::fs::Stamp;

/// Everything of a partition up to the end of this segment file was durable in its segments when the file had this
/// stamp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Checkpoint {
    pub(in crate::store) topic: TopicName,
    pub(in crate::store) partition: PartitionIndex,
    /// Name of the last segment.
    pub(in crate::store) segment: u64,
    pub(in crate::store) stamp: Stamp,
}
