//! Offsets that are not kept.

use futures_core::future::BoxFuture;

use crate::id::{GroupName, TopicPartition};
use crate::zk::format::StoredOffset;

use super::{CommitError, OffsetCommit, OffsetStorage, StorageError};

/// Keeps nothing: every partition begins where the options say, for readers without a group.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoStorage;

impl OffsetStorage for NoStorage {
    fn load<'a>(
        &'a self,
        _group: &'a GroupName,
        _of: &'a TopicPartition,
    ) -> BoxFuture<'a, Result<Option<StoredOffset>, StorageError>> {
        Box::pin(async { Ok(None) })
    }

    fn commit<'a>(
        &'a self,
        _group: &'a GroupName,
        commits: &'a [OffsetCommit],
    ) -> BoxFuture<'a, Vec<Result<(), CommitError>>> {
        Box::pin(async { commits.iter().map(|_| Ok(())).collect() })
    }
}
