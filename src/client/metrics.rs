//! The hook for metrics.

use std::fmt;
use std::time::Duration;

use crate::id::{GroupName, Offset, Partition, TopicName, TopicPartition};

use super::ClientError;

/// What counts, wherever an application keeps its metrics. Every method does nothing unless it is implemented; they are
/// called on busy paths and must neither block nor panic.
pub trait ClientMetrics: fmt::Debug + Send + Sync {
    /// A message was stored. `partition` is `None` if a broker that is known by its address chose it; `bytes` are those
    /// of attribute and payload; `elapsed` is from the call to the answer.
    fn sent(&self, _topic: &TopicName, _partition: Option<Partition>, _bytes: usize, _elapsed: Duration) {}

    /// A message was not stored, or nobody knows; after the last retry.
    fn send_failed(&self, _topic: &TopicName, _error: &ClientError) {}

    /// A message is sent once more after this error.
    fn send_retried(&self, _topic: &TopicName, _error: &ClientError) {}

    /// Messages came from a broker; `bytes` are those of whole records. Those behind a message that is delivered once more
    /// may come, and count, again.
    fn received(&self, _from: &TopicPartition, _messages: usize, _bytes: usize) {}

    /// A listener did not handle a message, which is delivered once more, or rejected if that was the last attempt.
    fn retried(&self, _from: &TopicPartition) {}

    /// A message was rejected.
    fn rejected(&self, _from: &TopicPartition) {}

    /// An offset was stored.
    fn committed(&self, _group: &GroupName, _from: &TopicPartition, _offset: Offset) {}

    /// A rebalance is done, and the member owns so many partitions now.
    fn rebalanced(&self, _group: &GroupName, _owned: usize) {}

    /// So many bytes of a partition are not read yet.
    fn lag(&self, _from: &TopicPartition, _bytes: u64) {}
}

/// Counts nothing.
#[derive(Debug)]
pub(super) struct NoMetrics;

impl ClientMetrics for NoMetrics {}
