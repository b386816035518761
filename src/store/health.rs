//! What an operator must know about a store, as a plain value.

use std::path::PathBuf;
use std::sync::Arc;

use crate::id::{PartitionIndex, TopicName};

/// A partition that does not take messages at present.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedPartition {
    /// Its topic.
    pub topic: TopicName,
    /// Its number.
    pub index: PartitionIndex,
    /// What happened.
    pub reason: Arc<str>,
}

/// A data directory whose file system runs out of space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LowSpace {
    /// The directory.
    pub path: PathBuf,
    /// Bytes free when it was last looked at.
    pub free_bytes: u64,
}

/// A directory with data, as it is now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataPath {
    /// The directory.
    pub path: PathBuf,
    /// Bytes of messages in the partitions that lie in it.
    pub bytes: u64,
    /// Bytes free on its file system; `None` if that cannot be told.
    pub free_bytes: Option<u64>,
}

/// The files of the commit log; those that are neither free nor full are in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogFileCounts {
    /// All that exist.
    pub all: usize,
    /// Ready to be used next.
    pub free: usize,
    /// Full, and to be used again when everything in them is durable in the segments.
    pub full: usize,
}

/// State of a store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// Why the commit log failed: every put is refused until a restart.
    pub commit_log_failure: Option<Arc<str>>,
    /// A thread that stores messages has ended by a fault of its own: every put is refused until a restart.
    pub committer_failed: bool,
    /// A full disk that keeps the commit log from getting room: puts that need it are refused until there is space.
    pub commit_log_full: Option<PathBuf>,
    /// Times since the start that puts waited because every file of the commit log was full.
    pub commit_log_waits: u64,
    /// Partitions that refuse puts until a restart because their own files failed (a sync, a write or its undoing).
    pub poisoned: Vec<FailedPartition>,
    /// Partitions whose last put found the disk full; the next one is tried.
    pub full: Vec<FailedPartition>,
    /// A transaction journal of another broker that this one does not replay.
    pub journal_warning: Option<String>,
    /// The state file of message ids cannot be written.
    pub ids_warning: Option<String>,
    /// Data directories below the warning level of free space.
    pub low_space: Vec<LowSpace>,
}

impl Health {
    /// Whether there is nothing that an operator has to do.
    pub fn is_healthy(&self) -> bool {
        *self == Self { commit_log_waits: self.commit_log_waits, ..Self::default() }
    }
}
