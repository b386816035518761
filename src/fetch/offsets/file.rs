//! Offsets in a local file, which Java consumers read and write as well (05 §11).

mod json;

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, Weak};
use std::time::SystemTime;

use futures_core::future::BoxFuture;
use tokio::sync::OwnedMutexGuard;
use tracing::warn;

use crate::common::guard::lock;
use crate::id::{GroupName, TopicPartition};
use crate::zk::format::StoredOffset;

use super::{CommitError, OffsetCommit, OffsetStorage, StorageError};
use json::Groups;

/// The file's name in the user's home directory.
const DEFAULT_NAME: &str = ".meta_offsets";

/// Copies of damaged files that are kept at most.
const COPIES: u64 = 100;

/// Instances of this process, by the file's path.
static INSTANCES: LazyLock<Mutex<HashMap<PathBuf, Weak<Shared>>>> = LazyLock::new(Mutex::default);

/// Why offsets in a file were not read or written.
#[derive(Debug, thiserror::Error)]
pub enum OffsetFileError {
    /// The system refused.
    #[error("cannot {action} {path}: {source}; correct the path or its permissions")]
    Io {
        /// What was to be done.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// One entry cannot be read.
    #[error("the offset of {of} in {path} is {text}, which is no offset; correct it, or remove its entry")]
    Entry {
        /// The partition.
        of: TopicPartition,
        /// The file.
        path: PathBuf,
        /// What stands there.
        text: String,
    },
    /// A damaged file could not be kept.
    #[error(
        "there are {COPIES} copies of damaged offset files beside {path}: look at what damages it, and remove them"
    )]
    Copies {
        /// The file.
        path: PathBuf,
    },
    /// No default path.
    #[error("the user has no home directory: name the file of offsets")]
    NoHome,
    /// The runtime is going down.
    #[error("the work on the file of offsets was broken off")]
    BrokenOff,
}

/// Keeps the offsets of any number of groups in one file: for a group with one consumer only, since nothing tells several
/// apart.
///
/// Instances of one process share what they know of a file, by its path with symbolic links resolved, and write one after the
/// other. Another process may use the same file for other groups; if both write in the same moment, one write is lost. All
/// work on the file is done by threads that may wait.
#[derive(Debug)]
pub struct FileOffsets {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    known: Arc<tokio::sync::Mutex<Known>>,
}

/// What is known of the file.
#[derive(Debug, Default)]
struct Known {
    /// The file's content, and how the file looked then.
    content: Option<(Stamp, Groups)>,
    /// Temporary files written so far.
    written: u64,
}

/// Tells whether a file has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
    #[cfg(unix)]
    inode: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            length: metadata.len(),
            modified: metadata.modified().ok(),
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(metadata),
        }
    }
}

impl FileOffsets {
    /// Offsets in this file, which need not exist yet. Nothing is read before the first offset is asked for.
    ///
    /// Cancellation-safe.
    ///
    /// # Errors
    /// [`OffsetFileError::Io`] if the path cannot be resolved, because its directory does not exist for example.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, OffsetFileError> {
        let path = path.into();
        let path = blocking(move || resolved(&path)).await?;
        let mut instances = lock(&INSTANCES);
        instances.retain(|_, instance| instance.strong_count() > 0);
        if let Some(shared) = instances.get(&path).and_then(Weak::upgrade) {
            return Ok(Self { shared });
        }
        let shared = Arc::new(Shared { path: path.clone(), known: Arc::default() });
        instances.insert(path, Arc::downgrade(&shared));
        Ok(Self { shared })
    }

    /// `~/.meta_offsets`, as the reference has it.
    ///
    /// # Errors
    /// [`OffsetFileError::NoHome`].
    pub fn default_path() -> Result<PathBuf, OffsetFileError> {
        let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
        home.map(|home| home.join(DEFAULT_NAME)).ok_or(OffsetFileError::NoHome)
    }
}

impl OffsetStorage for FileOffsets {
    fn load<'a>(
        &'a self,
        group: &'a GroupName,
        of: &'a TopicPartition,
    ) -> BoxFuture<'a, Result<Option<StoredOffset>, StorageError>> {
        let (group, of) = (group.clone(), of.clone());
        Box::pin(async move { Ok(self.with_file(move |path, known| load(path, known, &group, &of)).await?) })
    }

    fn commit<'a>(
        &'a self,
        group: &'a GroupName,
        commits: &'a [OffsetCommit],
    ) -> BoxFuture<'a, Vec<Result<(), CommitError>>> {
        let (group, entries) = (group.clone(), commits.to_vec());
        Box::pin(async move {
            match self.with_file(move |path, known| commit(path, known, &group, &entries)).await {
                Ok(()) => commits.iter().map(|_| Ok(())).collect(),
                Err(error) => {
                    let error = error.to_string();
                    commits.iter().map(|_| Err(CommitError::Failed(error.clone().into()))).collect()
                }
            }
        })
    }
}

impl FileOffsets {
    /// Works on the file, one caller after the other.
    async fn with_file<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Path, &mut Known) -> Result<T, OffsetFileError> + Send + 'static,
    ) -> Result<T, OffsetFileError> {
        let mut known: OwnedMutexGuard<Known> = Arc::clone(&self.shared.known).lock_owned().await;
        let path = self.shared.path.clone();
        blocking(move || work(&path, &mut known)).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OffsetFileError> + Send + 'static,
) -> Result<T, OffsetFileError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(OffsetFileError::BrokenOff))
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OffsetFileError {
    let path = path.to_owned();
    move |source| OffsetFileError::Io { action, path, source }
}

/// The path without symbolic links, so that it is the same for everybody.
fn resolved(path: &Path) -> Result<PathBuf, OffsetFileError> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let absolute = std::path::absolute(path).map_err(io_error("resolve", path))?;
            let (Some(directory), Some(name)) = (absolute.parent(), absolute.file_name()) else { return Ok(absolute) };
            Ok(fs::canonicalize(directory).map_err(io_error("resolve", directory))?.join(name))
        }
        resolved => resolved.map_err(io_error("resolve", path)),
    }
}

fn load(
    path: &Path,
    known: &mut Known,
    group: &GroupName,
    of: &TopicPartition,
) -> Result<Option<StoredOffset>, OffsetFileError> {
    let offset = read(path, known)?.offset(group, of);
    let offset = offset.map_err(|text| OffsetFileError::Entry { of: of.clone(), path: path.to_owned(), text })?;
    Ok(offset.map(|offset| StoredOffset { offset, message_id: None }))
}

fn commit(path: &Path, known: &mut Known, group: &GroupName, commits: &[OffsetCommit]) -> Result<(), OffsetFileError> {
    let mut groups = read(path, known)?.clone();
    groups.set(group, commits);
    let (temporary, file) = temporary(path, known)?;
    let stamp = replace(path, &temporary, file, groups.to_json().as_bytes()).inspect_err(|_| {
        // What is left of it is only in the way; the error itself is told.
        let _may_not_exist = fs::remove_file(&temporary);
    })?;
    known.content = Some((stamp, groups));
    Ok(())
}

/// A new file `<file>.tmp.<n>`, which no other process writes.
fn temporary(path: &Path, known: &mut Known) -> Result<(PathBuf, File), OffsetFileError> {
    loop {
        known.written += 1;
        let temporary = beside(path, "tmp", known.written);
        match File::create_new(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io_error("create", &temporary)(error)),
        }
    }
}

/// `<file>.<kind>.<number>`.
fn beside(path: &Path, kind: &str, number: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{kind}.{number}"));
    PathBuf::from(name)
}

/// Replaces the file as a whole; a crash leaves the old or the new one.
fn replace(path: &Path, temporary: &Path, mut file: File, json: &[u8]) -> Result<Stamp, OffsetFileError> {
    file.write_all(json).and_then(|()| file.sync_all()).map_err(io_error("write", temporary))?;
    let metadata = file.metadata().map_err(io_error("look at", temporary))?;
    fs::rename(temporary, path).map_err(io_error("replace", path))?;
    #[cfg(unix)]
    if let Some(directory) = path.parent() {
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(io_error("sync", directory))?;
    }
    Ok(Stamp::of(&metadata))
}

/// The file's content. A damaged file is kept under another name, and counts as empty.
fn read<'a>(path: &Path, known: &'a mut Known) -> Result<&'a Groups, OffsetFileError> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(io_error("look at", path)(error)),
    };
    let nothing = Stamp {
        length: 0,
        modified: None,
        #[cfg(unix)]
        inode: 0,
    };
    let stamp = metadata.as_ref().map_or(nothing, Stamp::of);
    let is_known = known.content.as_ref().is_some_and(|(known, _)| *known == stamp);
    if !is_known {
        let bytes = if metadata.is_some() { fs::read(path).map_err(io_error("read", path))? } else { Vec::new() };
        let groups = match Groups::parse(&bytes) {
            Ok(groups) => groups,
            Err(reason) => {
                let copy = keep(path)?;
                warn!(
                    path = %path.display(), copy = %copy.display(), reason,
                    "the file of offsets is damaged, beginning with an empty one; put what is right in its copy back"
                );
                Groups::default()
            }
        };
        known.content = Some((stamp, groups));
    }
    known.content.as_ref().map(|(_, groups)| groups).ok_or(OffsetFileError::BrokenOff)
}

/// Gives a damaged file another name: `<file>.bad.<n>`.
fn keep(path: &Path) -> Result<PathBuf, OffsetFileError> {
    for number in 1..=COPIES {
        let copy = beside(path, "bad", number);
        if !copy.try_exists().map_err(io_error("look at", &copy))? {
            fs::rename(path, &copy).map_err(io_error("rename", path))?;
            return Ok(copy);
        }
    }
    Err(OffsetFileError::Copies { path: path.to_owned() })
}

#[cfg(test)]
mod tests;
