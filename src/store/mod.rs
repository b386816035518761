//! The message store: segment files, append, group commit and periodic flush, load and recovery (02).
//!
//! A synchronous room: standard threads, no sockets. [`Store`] is its face; a [`PartitionLog`] is read by anyone
//! without a lock, and appended to through the [`Committer`] only.
//!
//! * What is on disk is exactly what the reference writes: no extra bytes, no preallocation, the same names. State of
//!   our own lies in `<dataLogPath>/transactions/`.
//! * The *visible mark* of a partition is what a crash cannot take back; no read passes it.
//! * A failed sync, a device error, or a write that cannot be undone poisons the partition until a restart. A full disk
//!   does not: the write is undone and the next put is tried.
//! * Locks are taken in this order: the store's `locks`, a partition's `append`, a partition's `sync`.

mod append;
mod closed;
mod committer;
mod durability;
mod error;
mod flush;
mod format;
mod fs;
mod gather;
mod guard;
mod health;
mod housekeeping;
mod id_file;
mod ids;
mod journal;
mod load;
mod lock;
mod message_store;
mod options;
mod partition;
mod read;
mod recovery;
mod round;
mod segment;
mod topics;
mod waiters;
mod write;

#[cfg(test)]
mod tests;

pub use append::{Append, AppendGroup, Appended, Done};
pub use closed::ClosedPartitions;
pub use committer::Committer;
pub use error::{AppendError, InvalidDirectoryName, InvalidPartitionRange, ReadError, StoreError};
pub use fs::{
    Access, DataFile, DirIdentity, DirLock, Entry, FileSystem, Kind, OsFileSystem, Stamp, read_exact_at, write_all_at,
};
pub use health::{FailedPartition, Health, LowSpace};
pub use ids::IdGenerator;
pub use message_store::Store;
pub use options::{StoreOptions, TopicSettings, TopicSettingsOf};
pub use partition::PartitionLog;
pub use read::{ReadOutcome, Region};
pub use segment::Segment;
pub use waiters::Waiter;
