//! The message store: segment files, append, group commit and periodic flush, load and recovery (02).
//!
//! A synchronous room: standard threads, no sockets. [`Store`] is its face; a [`PartitionLog`] is read by anyone
//! without a lock, and appended to through the [`Committer`] only. Messages go to the commit log first (`commit_log`, 08),
//! and to their segments a little later.
//!
//! * What is on disk is exactly what the reference writes: no extra bytes, no preallocation, the same names. State of
//!   our own lies in `<dataLogPath>/transactions/`.
//! * The *visible mark* of a partition is what a crash cannot take back; no read passes it.
//! * A failed sync, a device error, or a write that cannot be undone poisons the partition until a restart, or all of them
//!   if it meets the commit log. A full disk does not: the write is undone and tried again.
//! * The order of locks is in `ARCHITECTURE.md`.

mod append;
mod archive;
mod checkpoint;
mod clean_stop;
mod closed;
mod commit_log;
mod committer;
mod data_paths;
mod error;
mod filing;
mod flush;
mod format;
mod fs;
mod health;
mod histogram;
mod housekeeping;
mod id_file;
mod ids;
mod journal;
mod load;
mod load_hints;
mod lock;
mod log_dump;
mod message_store;
mod options;
mod partition;
mod read;
mod recover;
mod recovery;
mod recovery_report;
mod removal;
mod replay;
mod resolve;
mod retention;
mod round;
mod segment;
mod set_aside;
mod stage;
mod tail;
mod times;
mod topics;
mod volume;
mod waiters;
mod write;
mod zip;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use tests::disk as sim_disk;

pub use append::{AppendGroup, AppendSink, Appended, LARGE_RECORD_BYTES};
pub use closed::ClosedPartitions;
pub use commit_log::error::CommitLogError;
pub use committer::Committer;
pub use error::{AppendError, InvalidDirectoryName, InvalidPartitionRange, ReadError, RefusedDataPath, StoreError};
pub use fs::{
    Access, DataFile, DirIdentity, DirLock, Entry, FileSystem, Kind, OsFileSystem, Stamp, read_exact_at, write_all_at,
};
pub use health::{DataPath, FailedPartition, Health, LogFileCounts, LowSpace};
pub use histogram::{Histogram, HistogramSnapshot};
pub use ids::IdGenerator;
pub use log_dump::{DumpError, FrameContent, LogItem, dump_log};
pub use message_store::Store;
pub use options::{StoreOptions, TopicSettings, TopicSettingsOf};
pub use partition::PartitionLog;
pub use read::{ReadOutcome, Region};
pub use recovery_report::{PartitionRecovery, RecoveryOutcome, RecoveryReport};
pub use resolve::{Resolution, Resolved, resolve_quarantine};
pub use retention::{Disposal, Expired, RetentionPolicy};
pub use segment::Segment;
pub use times::StoreTimes;
pub use waiters::Waiter;
