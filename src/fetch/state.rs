//! What an engine shows of its partitions.

use std::sync::Arc;

use crate::id::TopicPartition;
use crate::zk::format::StoredOffset;

/// A partition as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionState {
    /// The partition.
    pub of: Arc<TopicPartition>,
    /// What it is doing.
    pub status: PartitionStatus,
    /// The next byte to be handled and the message before it; `None` until the stored offset was read.
    /// [`Offset::LATEST`](crate::id::Offset::LATEST) until the broker has said where the end is.
    pub position: Option<StoredOffset>,
    /// What is stored, as far as this engine knows.
    pub committed: Option<StoredOffset>,
    /// Failed deliveries of the first message, in a row.
    pub retries: u32,
    /// Bytes that a get asks for.
    pub size: i32,
    /// Why the partition cannot be read on.
    pub stuck: Option<String>,
}

/// What a partition is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartitionStatus {
    /// Its stored offset is being read, for ever until that succeeds.
    Loading,
    /// It is asked for messages, or waits until it is asked again.
    Fetching,
    /// The last get failed; it is repeated.
    Failing,
    /// What is at its position cannot be read; it is tried again.
    Stuck,
    /// Messages wait for a listener.
    Ready,
    /// A listener has its messages.
    Delivering,
    /// Paused by the user.
    Paused,
    /// It is being released.
    Leaving,
}

/// What became of partitions that were released.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Released {
    /// Their listeners did not end in time and were cancelled.
    pub cancelled: Vec<Arc<TopicPartition>>,
    /// Their last offsets were not stored: whoever reads them next gets some messages again.
    pub not_committed: Vec<Arc<TopicPartition>>,
}
