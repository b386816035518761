//! One broker for each data directory (02 §17): the directories themselves are locked, no lock file is left in them.

use std::path::{Path, PathBuf};

use tracing::warn;

use super::error::StoreError;
use super::fs::{DirIdentity, DirLock, FileSystem, Kind};

/// The directories that a store holds; all are given free when this is dropped.
#[derive(Debug, Default)]
pub(super) struct LockedDirs(Vec<Locked>);

#[derive(Debug)]
struct Locked {
    identity: DirIdentity,
    path: PathBuf,
    _lock: Box<dyn DirLock>,
}

impl LockedDirs {
    /// Locks a directory, made if it is missing. False if it is locked already under whatever path.
    pub(super) fn lock(&mut self, fs: &dyn FileSystem, path: &Path) -> Result<bool, StoreError> {
        if self.has(path) {
            return Ok(false);
        }
        make_dir(fs, path)?;
        let unreadable = |_| StoreError::NotADirectory(path.to_path_buf());
        let identity = fs.identity(path).map_err(unreadable)?;
        if self.0.iter().any(|locked| locked.identity == identity) {
            return Ok(false);
        }
        let lock = fs.lock_dir(path).map_err(|source| io("lock", path, source))?;
        let lock = lock.ok_or_else(|| StoreError::InUse(path.to_path_buf()))?;
        self.0.push(Locked { identity, path: path.to_path_buf(), _lock: lock });
        Ok(true)
    }

    /// Whether a directory is locked under this path.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.0.iter().any(|locked| locked.path == path)
    }

    /// Gives one directory free, under the path that it was locked by.
    pub(super) fn release(&mut self, path: &Path) {
        self.0.retain(|locked| locked.path != path);
    }
}

fn io(action: &'static str, path: &Path, source: std::io::Error) -> StoreError {
    StoreError::Io { action, path: path.to_path_buf(), source }
}

/// Makes a single directory durably unless it is there; its parent must exist, as the reference demands (02 §1). One that
/// is there may have been made by a broker that was killed before its name was durable.
pub(super) fn make_dir(fs: &dyn FileSystem, path: &Path) -> Result<(), StoreError> {
    match fs.kind(path) {
        Ok(Some(Kind::Directory)) => {}
        Ok(None) => {
            let failed = |source| StoreError::CreateDataPath { path: path.to_path_buf(), source };
            fs.create_dir(path).map_err(failed)?;
        }
        _ => return Err(StoreError::NotADirectory(path.to_path_buf())),
    }
    // `/x` has the parent `/`, a bare `x` the empty path, which stands for the working directory.
    let synced = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => fs.sync_dir(Path::new(".")),
        Some(parent) => fs.sync_dir(parent),
        None => Ok(()),
    };
    match synced {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            warn!(
                path = %path.display(),
                "the directory that holds it cannot be read, so its name cannot be made durable: if it was made just now, \
                 a power cut may take it away"
            );
            Ok(())
        }
        synced => synced.map_err(|source| io("sync the directory that holds", path, source)),
    }
}
