//! What is done on the way from a data path to the partitions in it, so that nothing of a path that turns out to be
//! unusable stays: neither its lock nor a partition that is served.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::StoreError;
use super::fs::FileSystem;
use super::load::Inspected;
use super::lock::LockedDirs;
use super::options::TopicSettingsOf;
use super::partition::{PartitionLog, Shared};
use super::topics::Topics;
use crate::id::MessageId;

/// Data paths that are being added. Unless they are [kept](Self::keep), their locks are given back.
#[derive(Debug)]
pub(super) struct NewDataPaths<'a> {
    pub(super) locks: &'a mut LockedDirs,
    /// Those that were locked so far.
    pub(super) locked: Vec<PathBuf>,
}

impl NewDataPaths<'_> {
    /// Locks one. False if it is locked already.
    pub(super) fn lock(&mut self, fs: &dyn FileSystem, path: &Path) -> Result<bool, StoreError> {
        let is_new = self.locks.lock(fs, path)?;
        if is_new {
            self.locked.push(path.to_path_buf());
        }
        Ok(is_new)
    }

    /// They stay locked.
    pub(super) fn keep(mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.locked)
    }
}

impl Drop for NewDataPaths<'_> {
    fn drop(&mut self) {
        self.locked.iter().for_each(|path| self.locks.release(path));
    }
}

/// Partitions that are open and not served yet.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    partitions: Vec<PartitionLog>,
    /// The largest message id in them.
    pub(super) largest_id: Option<MessageId>,
}

impl Loaded {
    /// Opens partitions that passed all checks.
    pub(super) fn open(
        &mut self,
        shared: &Arc<Shared>,
        settings: &TopicSettingsOf,
        inspected: Vec<Inspected>,
    ) -> Result<(), StoreError> {
        for partition in inspected {
            self.largest_id = self.largest_id.max(partition.scan.largest_id);
            self.partitions.push(partition.open(shared, settings)?);
        }
        Ok(())
    }

    /// From now on they are served.
    pub(super) fn serve(self, topics: &Topics) {
        for partition in self.partitions {
            topics.get_or_insert(partition);
        }
    }
}

/// The directories of partitions, made by a broker that was killed, may have names that are not durable.
pub(super) fn sync_data_path(fs: &dyn FileSystem, path: &Path) -> Result<(), StoreError> {
    fs.sync_dir(path).map_err(|source| StoreError::Io {
        action: "sync the data path",
        path: path.to_path_buf(),
        source,
    })
}
