//! What a recovery did, as a plain value.

use std::path::PathBuf;

use serde::Serialize;

use crate::id::{PartitionIndex, TopicName};

/// What a recovery did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecoveryReport {
    /// Files of the commit log.
    pub log_files: usize,
    /// Frames in them.
    pub frames: u64,
    /// Where the log ended: file and position.
    pub log_end: Option<(PathBuf, u64)>,
    /// The broker before was stopped cleanly.
    pub clean_stop: bool,
    /// The partitions of which the log held messages.
    pub partitions: Vec<PartitionRecovery>,
}

/// What was done with the messages of a partition that the log held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionRecovery {
    /// Its topic.
    pub topic: TopicName,
    /// Its number.
    pub partition: PartitionIndex,
    /// What became of them.
    pub outcome: RecoveryOutcome,
    /// Bytes that were missing in the segments and were written.
    pub written_bytes: u64,
    /// Bytes that were there already.
    pub present_bytes: u64,
    /// Bytes of segments that retention had removed.
    pub removed_bytes: u64,
    /// Why some or all were not written.
    pub reason: Option<String>,
}

/// What became of the messages of a partition that the log held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RecoveryOutcome {
    /// All are in the segments.
    Applied,
    /// Some are set aside until an operator decides.
    Quarantined,
    /// All are set aside until the next start, for a file failed.
    Pending,
}
