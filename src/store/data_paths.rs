//! Data paths that are added while the store is open, and the way from a path to the partitions in it: nothing of a path
//! that turns out to be unusable stays, neither its lock nor a partition that is served, and puts do not wait for the
//! loading.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tracing::info;

use super::error::{RefusedDataPath, StoreError};
use super::fs::FileSystem;
use super::load::{Inspected, find_partitions, inspect_all};
use super::load_hints::LoadHints;
use super::lock::LockedDirs;
use super::message_store::{Store, absolute};
use super::options::TopicSettingsOf;
use super::partition::{PartitionLog, Shared};
use super::topics::Topics;
use crate::common::guard::lock;
use crate::id::MessageId;

impl Store {
    /// Makes data paths known, as [`get_or_create`](Self::get_or_create) does it for a new partition: they are locked, and
    /// what is in them is loaded. Nothing happens to those that are known. Meanwhile partitions are made in those that are.
    ///
    /// # Errors
    /// When one of them cannot be used, or the store is closed. None is added then: what was locked is free again, and
    /// nothing that lies there is served.
    pub fn add_data_paths(&self, paths: &[&Path]) -> Result<(), RefusedDataPath> {
        let closed = || RefusedDataPath { path: PathBuf::new(), source: StoreError::Closed };
        let _turn = lock(&self.adding);
        if self.is_closed() {
            return Err(closed());
        }
        let mut new = NewDataPaths { locks: &self.locks, locked: Vec::new() };
        let fs = &*self.shared.fs;
        let hints = LoadHints { closed: lock(&self.hints).closed.clone(), ..LoadHints::default() };
        let mut inspected = Vec::new();
        for &given in paths {
            let refused = |source| RefusedDataPath { path: given.to_path_buf(), source };
            let path = absolute(given).map_err(refused)?;
            if new.lock(fs, &path).map_err(refused)? {
                // With those before it, so that no partition is in two of them.
                let mut found = find_partitions(fs, &new.locked, &self.topics.all()).map_err(refused)?;
                found.retain(|partition| partition.dir.parent() == Some(&path));
                inspected.push((given, inspect_all(fs, &found, &hints).map_err(refused)?));
            }
        }
        let mut loaded = Loaded::default();
        for (given, partitions) in inspected {
            let refused = |source| RefusedDataPath { path: given.to_path_buf(), source };
            loaded.open(&self.shared, &self.options.topic_settings, partitions).map_err(refused)?;
            sync_data_path(fs, given).map_err(refused)?;
        }
        if let Some(largest_id) = loaded.largest_id {
            self.ids.raise_above(largest_id);
        }
        {
            let _locks = lock(&self.locks);
            loaded.serve(&self.topics)?;
        }
        for path in new.keep() {
            info!(path = %path.display(), "data path added");
            self.free_space.watch(path);
        }
        Ok(())
    }
}

/// Data paths that are being added. Unless they are [kept](Self::keep), their locks are given back.
#[derive(Debug)]
struct NewDataPaths<'a> {
    locks: &'a Mutex<LockedDirs>,
    /// Those that were locked so far.
    locked: Vec<PathBuf>,
}

impl NewDataPaths<'_> {
    /// Locks one. False if it is locked already.
    fn lock(&mut self, fs: &dyn FileSystem, path: &Path) -> Result<bool, StoreError> {
        let is_new = lock(self.locks).lock(fs, path)?;
        if is_new {
            self.locked.push(path.to_path_buf());
        }
        Ok(is_new)
    }

    /// They stay locked.
    fn keep(mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.locked)
    }
}

impl Drop for NewDataPaths<'_> {
    fn drop(&mut self) {
        self.locked.iter().for_each(|path| lock(self.locks).release(path));
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

    /// From now on they are served, unless one of them was made elsewhere meanwhile. The caller keeps others from making
    /// any.
    pub(super) fn serve(self, topics: &Topics) -> Result<(), RefusedDataPath> {
        for partition in &self.partitions {
            if let Some(made) = topics.get(partition.topic().as_str(), partition.index()) {
                let path = partition.dir().parent().unwrap_or(partition.dir()).to_path_buf();
                let source = StoreError::TwoPlaces {
                    topic: partition.topic().clone(),
                    index: partition.index(),
                    first: made.dir().to_path_buf(),
                    second: partition.dir().to_path_buf(),
                };
                return Err(RefusedDataPath { path, source });
            }
        }
        for partition in self.partitions {
            topics.get_or_insert(partition);
        }
        Ok(())
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
