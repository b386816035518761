//! Where offsets are kept (05 §11).

mod file;
mod none;
mod zookeeper;

use std::fmt;

use futures_core::future::BoxFuture;

use crate::id::{GroupName, TopicPartition};
use crate::zk::format::StoredOffset;

pub use file::{FileOffsets, OffsetFileError};
pub use none::NoStorage;
pub use zookeeper::{ZooKeeperOffsetError, ZooKeeperOffsets};

/// Keeps the offsets of groups. One consumer has one commit under way at a time; it loads several partitions at the same
/// time, but none whose offset it is committing.
///
/// A future that takes longer than [`storage_timeout`](super::FetchOptions::storage_timeout) is **dropped** and counts as
/// failed: the partitions may belong to another member then, which stores its own offsets. Nothing of a dropped commit may be
/// written over what a later call stored, be it of this member or of another one. So either nothing is written any more once
/// the future is dropped, or what was sent already takes effect only if nobody has written since: by a condition on what was
/// there before, as [`ZooKeeperOffsets`] do it, or because writes are carried out in the order of the calls, as
/// [`FileOffsets`] do it. Whether a dropped commit is stored does not matter: it is repeated, or its messages are delivered
/// again.
///
/// A call must not block its thread. One that does cannot be dropped: no other commit of the consumer begins before it has
/// ended, and what waits for one counts as failed after the time-out. A panic counts as a failure.
pub trait OffsetStorage: fmt::Debug + Send + Sync {
    /// Where the group stands in a partition, `None` if it never was there.
    ///
    /// # Errors
    /// The partition is not read before this has succeeded: an error never counts as "nothing stored".
    fn load<'a>(
        &'a self,
        group: &'a GroupName,
        of: &'a TopicPartition,
    ) -> BoxFuture<'a, Result<Option<StoredOffset>, StorageError>>;

    /// Stores where the group stands in several partitions; one result each, in their order. What becomes of it when the
    /// future is dropped is said [above](Self).
    ///
    /// # Errors
    /// What failed is tried again with the next commit, except after [`CommitError::NotOwner`].
    fn commit<'a>(
        &'a self,
        group: &'a GroupName,
        commits: &'a [OffsetCommit],
    ) -> BoxFuture<'a, Vec<Result<(), CommitError>>>;

    /// Forgets what it remembers of a partition that is given up.
    fn released(&self, _group: &GroupName, _of: &TopicPartition) {}
}

/// One offset to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetCommit {
    /// The partition.
    pub of: TopicPartition,
    /// Where the group stands.
    pub offset: StoredOffset,
}

/// Why offsets cannot be read.
pub type StorageError = Box<dyn std::error::Error + Send + Sync>;

/// Why an offset was not stored.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Another member owns the partition: this consumer must stop reading it.
    #[error("another member owns the partition")]
    NotOwner,
    /// Anything else.
    #[error("{0}")]
    Failed(#[source] StorageError),
}
