//! The seam to whoever reads the partitions that a member owns.

use std::fmt;

use futures_core::future::BoxFuture;

use crate::id::TopicPartition;

/// What the driver of a member tells of the partitions of its member. Calls come one at a time, in this order for
/// each partition: assigned, then released or lost.
pub trait Assignee: fmt::Debug + Send + Sync {
    /// The member owns these partitions now: load their offsets, then read them.
    fn assigned(&self, partitions: &[TopicPartition]);

    /// The member is about to give these up: stop reading them, let running listeners end within the drain time-out,
    /// then cancel them, commit. Others may read them once this has returned.
    fn release<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()>;

    /// The member does not own these any more: stop at once, commit nothing.
    fn lost(&self, partitions: &[TopicPartition]);

    /// While fenced, nothing is delivered and nothing committed: the session may be over without our knowing.
    fn fence(&self, fenced: bool);
}
