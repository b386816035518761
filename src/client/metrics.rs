//! The hook for metrics.

use std::fmt;
use std::sync::{Arc, Once};
use std::time::Duration;

use tracing::error;

use crate::common::panics::caught;
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

    /// Messages came from a broker; `bytes` are those of its answer, a record that is cut at the end included. Those behind
    /// a message that is delivered once more may come, and count, again.
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

/// Whatever the hook does, the tasks that call it go on.
#[derive(Debug)]
pub(super) struct Guarded {
    hook: Arc<dyn ClientMetrics>,
    /// One line tells of it.
    panicked: Once,
}

impl Guarded {
    pub(super) fn new(hook: Arc<dyn ClientMetrics>) -> Self {
        Self { hook, panicked: Once::new() }
    }

    fn call(&self, call: impl FnOnce(&dyn ClientMetrics)) {
        if let Err(panic) = caught(|| call(&*self.hook)) {
            self.panicked.call_once(|| error!(panic, "the metrics hook panicked; what it counts is not reliable"));
        }
    }
}

impl ClientMetrics for Guarded {
    fn sent(&self, topic: &TopicName, partition: Option<Partition>, bytes: usize, elapsed: Duration) {
        self.call(|hook| hook.sent(topic, partition, bytes, elapsed));
    }

    fn send_failed(&self, topic: &TopicName, error: &ClientError) {
        self.call(|hook| hook.send_failed(topic, error));
    }

    fn send_retried(&self, topic: &TopicName, error: &ClientError) {
        self.call(|hook| hook.send_retried(topic, error));
    }

    fn received(&self, from: &TopicPartition, messages: usize, bytes: usize) {
        self.call(|hook| hook.received(from, messages, bytes));
    }

    fn retried(&self, from: &TopicPartition) {
        self.call(|hook| hook.retried(from));
    }

    fn rejected(&self, from: &TopicPartition) {
        self.call(|hook| hook.rejected(from));
    }

    fn committed(&self, group: &GroupName, from: &TopicPartition, offset: Offset) {
        self.call(|hook| hook.committed(group, from, offset));
    }

    fn rebalanced(&self, group: &GroupName, owned: usize) {
        self.call(|hook| hook.rebalanced(group, owned));
    }

    fn lag(&self, from: &TopicPartition, bytes: u64) {
        self.call(|hook| hook.lag(from, bytes));
    }
}

/// Counts nothing.
#[derive(Debug)]
pub(super) struct NoMetrics;

impl ClientMetrics for NoMetrics {}
