//! The seam to whoever reads the partitions that a member owns.

use std::fmt;

use futures_core::future::BoxFuture;

use crate::id::TopicPartition;

/// What the driver of a member tells of the partitions of its member: for each partition, assigned, then released or
/// lost.
///
/// Calls come one after the other, except that others may come while [`release`](Self::release) is under way: of other
/// partitions any, also another release; of the same ones only [`lost`](Self::lost) and [`fence`](Self::fence).
pub trait Assignee: fmt::Debug + Send + Sync {
    /// The member owns these partitions now: load their offsets, then read them.
    fn assigned(&self, partitions: &[TopicPartition]);

    /// The member is about to give these up: stop reading them, let running listeners end within the drain time-out,
    /// then cancel them, commit. Others may read them once this has returned.
    fn release<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()>;

    /// The member does not own these any more: stop at once, commit nothing. Of partitions that are being released this
    /// ends the waiting for listeners; they are not assigned again before that release has returned.
    fn lost(&self, partitions: &[TopicPartition]);

    /// While fenced, nothing is delivered and nothing committed: the session may be over without our knowing.
    fn fence(&self, fenced: bool);
}
