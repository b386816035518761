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

/// State of a store. Healthy when everything is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Health {
    /// Partitions that refuse puts until a restart (a sync, a write or its undoing failed).
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
    /// Whether there is nothing to report.
    pub fn is_healthy(&self) -> bool {
        *self == Self::default()
    }
}
