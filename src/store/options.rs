//! What a store is opened with.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::id::{BrokerId, TopicName};

/// Settings of a topic that matter to its partitions. They may change while the broker runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicSettings {
    /// 0 or less: group commit, every answer waits for a sync (02 §7). Above: a sync follows when more than this many
    /// messages are unflushed (02 §6).
    pub unflush_threshold: i32,
    /// Milliseconds after which unflushed messages are synced; 0 or less: at every append. Of no meaning in group
    /// commit.
    pub unflush_interval_ms: i32,
    /// Where a new partition of this topic is made instead of the system's data path. A partition that exists stays
    /// where it is.
    pub data_path: Option<PathBuf>,
}

/// Tells the settings of a topic; asked for each topic found on disk.
pub type TopicSettingsOf = Arc<dyn Fn(&TopicName) -> TopicSettings + Send + Sync>;

/// What a store is opened with.
#[derive(Clone)]
pub struct StoreOptions {
    /// The system's `dataPath`; created if missing, its parent must exist.
    pub data_path: PathBuf,
    /// The `dataPath` of each topic that has one; scanned as well.
    pub topic_data_paths: Vec<PathBuf>,
    /// Holds the directory `transactions`; created if missing, its parent must exist.
    pub data_log_path: PathBuf,
    /// Goes into message ids.
    pub broker_id: BrokerId,
    /// A segment of at least this many bytes gets a successor; at least 1.
    pub max_segment_size: u64,
    /// Most bytes that one read returns.
    pub max_transfer_size: u32,
    /// Free bytes of a data directory's file system below which the broker warns; 0 never warns.
    pub free_space_warning_bytes: u64,
    /// Bytes of one file of the commit log, between 1 MiB and 1 GiB.
    pub commit_log_file_bytes: u64,
    /// Most files of the commit log, at least 2. When all are full and none is checkpointed, puts wait.
    pub commit_log_files: usize,
    /// Settings of the topics found on disk.
    pub topic_settings: TopicSettingsOf,
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("data_path", &self.data_path)
            .field("topic_data_paths", &self.topic_data_paths)
            .field("data_log_path", &self.data_log_path)
            .field("broker_id", &self.broker_id)
            .field("max_segment_size", &self.max_segment_size)
            .field("max_transfer_size", &self.max_transfer_size)
            .field("free_space_warning_bytes", &self.free_space_warning_bytes)
            .field("commit_log_file_bytes", &self.commit_log_file_bytes)
            .field("commit_log_files", &self.commit_log_files)
            .finish_non_exhaustive()
    }
}
