//! What can go wrong, one enum a concern: opening a store, appending to it, reading from it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::commit_log::error::CommitLogError;
use crate::id::{InvalidTopicName, Offset, PartitionIndex, TopicName};

/// Why a store, or a further data directory of it, cannot be opened. Nothing on disk was changed beyond the creation of
/// missing directories.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A data directory is missing and cannot be made; its parent must exist (02 §1).
    #[error(
        "Could not make data directory {}: {source}; create its parent directory or correct dataPath",
        path.display()
    )]
    CreateDataPath {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The data path leads to something else.
    #[error("Data path {} is not a readable directory", .0.display())]
    NotADirectory(PathBuf),
    /// Another broker works on the directory.
    #[error(
        "the directory {} is in use by another broker (of this or another process): stop that one, or give this broker \
         a dataPath and dataLogPath of its own",
        .0.display()
    )]
    InUse(PathBuf),
    /// A directory with a dash in its name that is no `<topic>-<partition>` (02 §10).
    #[error(
        "the directory {} is not named <topic>-<partition>: {reason}; move it out of the data path",
        path.display()
    )]
    DirectoryName {
        /// The directory.
        path: PathBuf,
        /// What is wrong with its name.
        reason: InvalidDirectoryName,
    },
    /// A segment file whose name is no offset.
    #[error(
        "the segment file {} is not named by the offset of its first byte (20 digits and .meta): move it out of the \
         partition's directory",
        .0.display()
    )]
    SegmentName(PathBuf),
    /// A segment file whose name is a negative offset.
    #[error(
        "the segment file {} begins at a negative offset, which no client can ask for: move it out of the partition's \
         directory",
        .0.display()
    )]
    NegativeSegment(PathBuf),
    /// A segment that ends beyond the largest offset.
    #[error("the segment file {} ends beyond the largest offset, 2^63-1: its name must be wrong", .0.display())]
    SegmentTooFar(PathBuf),
    /// Two neighbours that overlap, leave a gap or begin at the same offset (02 §10).
    #[error(
        "The following segments don't validate: {}, {} (the second must begin where the first ends): bring back what is \
         missing between them or the full length of the first, or move the second and all behind it away",
        first.display(),
        second.display()
    )]
    Discontinuous {
        /// The earlier one.
        first: PathBuf,
        /// The later one.
        second: PathBuf,
    },
    /// The same partition lies in two places.
    #[error(
        "partition {topic}-{index} lies in two places, {} and {}: keep one and move the other out of the data paths",
        first.display(),
        second.display()
    )]
    TwoPlaces {
        /// Its topic.
        topic: TopicName,
        /// Its number.
        index: PartitionIndex,
        /// Where it was found first.
        first: PathBuf,
        /// Where it was found again.
        second: PathBuf,
    },
    /// A file cannot be opened or read.
    #[error("Could not read file {}: {source}", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The commit log cannot be replayed.
    #[error(transparent)]
    CommitLog(#[from] CommitLogError),
    /// What only the commit log holds does not fit the disk.
    #[error(
        "no space left for {}, to which messages of the commit log have to be written: free space on its file system \
         (archived and old segments, files of others) and start again; nothing is lost, the log is kept",
        .0.display()
    )]
    NoSpaceForRecovery(PathBuf),
    /// Not even the first file of the commit log fits the disk.
    #[error(
        "no space left for the commit log in {}: free space on its file system, move dataLogPath to another one, or lower \
         commitLogFileBytes={file_bytes}, of which at least two are needed; nothing is lost",
        path.display()
    )]
    NoSpaceForLog {
        /// Its directory.
        path: PathBuf,
        /// Bytes of one file.
        file_bytes: u64,
    },
    /// There is nothing to resolve.
    #[error("{} does not exist: no messages of this partition are in quarantine", .0.display())]
    NothingInQuarantine(PathBuf),
    /// Messages must be brought in before others are appended behind them.
    #[error(
        "{} still holds messages, for a segment file of the partition failed at this start: mend the disk, run `metaq \
         log recover`, then try again",
        .0.display()
    )]
    StillPending(PathBuf),
    /// Any other refusal of the system.
    #[error("could not {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Partitions are numbered from 0.
    #[error("topic {topic} cannot have a partition {index}: partitions are numbered from 0")]
    NegativePartition {
        /// The topic.
        topic: TopicName,
        /// The number asked for.
        index: PartitionIndex,
    },
    /// A partition's data cannot be removed.
    #[error("could not remove data of partition {partition}: {source}")]
    NotRemoved {
        /// `<topic>-<partition>`.
        partition: Arc<str>,
        /// What stands in the way.
        source: AppendError,
    },
    /// An expired segment cannot be archived.
    #[error(
        "no space left for the archive {}: its segment stays for now; free space, or have the topic's old segments deleted \
         (deletePolicy)",
        .0.display()
    )]
    NoSpaceForArchive(PathBuf),
    /// Archives of a segment's name, from earlier lives of its partition.
    #[error("there are too many archives of the name of {}: move them elsewhere", .0.display())]
    TooManyArchives(PathBuf),
    /// Messages in quarantine must be decided about before their partition is deleted.
    #[error(
        "{} holds messages of the partition: stop the broker and decide with `metaq log resolve` before it is deleted",
        .0.display()
    )]
    Quarantined(PathBuf),
    /// Messages that could not be made durable at the close.
    #[error("messages of these poisoned partitions were not made durable and may be lost: {0}")]
    NotDurable(String),
    /// The commit log failed while the store was open.
    #[error("the commit log failed ({0}): its files are kept, and the next start finds out what the disk really holds")]
    LogFailed(Arc<str>),
    /// A thread cannot be started.
    #[error("could not start a thread of the store: {0}")]
    Thread(io::Error),
    /// The store was closed.
    #[error("Closed MessageStore.")]
    Closed,
}

/// Why a directory with a dash in its name is no partition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDirectoryName {
    /// What follows the last dash is no 32-bit decimal.
    #[error("'{0}' is not a partition number")]
    Partition(String),
    /// What precedes it cannot name a topic.
    #[error(transparent)]
    Topic(#[from] InvalidTopicName),
    /// Bytes that are not UTF-8.
    #[error("the name is not valid UTF-8")]
    Encoding,
}

/// Why a message was not stored. Nothing of it is on disk, or at least nothing that a reader will see before a restart.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// The store is closed or closing (02 §6).
    #[error("Closed MessageStore.")]
    Closed,
    /// Messages of the partition are in quarantine.
    #[error("partition {partition} takes no more messages: {reason}")]
    Quarantined {
        /// `<topic>-<partition>`.
        partition: Arc<str>,
        /// What is set aside where, and how to decide about it.
        reason: Arc<str>,
    },
    /// An earlier failure of the disk ended writing to this partition.
    #[error("partition {partition} takes no more messages until the broker is restarted: {reason}")]
    Poisoned {
        /// `<topic>-<partition>`.
        partition: Arc<str>,
        /// The failure.
        reason: Arc<str>,
    },
    /// The commit log failed, through which every message goes.
    #[error("no messages are taken until the broker is restarted: {0}")]
    LogFailed(Arc<str>),
    /// The partition's data were deleted; the next put makes it anew.
    #[error("partition {0} was deleted just now: send the message again")]
    Deleted(Arc<str>),
    /// The file system is full; nothing is lost and the next put may succeed.
    #[error("no space left on {}: free space and the broker accepts puts again", .0.display())]
    NoSpace(PathBuf),
    /// The partition's directory cannot be made.
    #[error("Create directory failed:{}: {source}", path.display())]
    CreateDirectory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// Something else has the partition's name.
    #[error("Path is not a directory:{}", .0.display())]
    NotADirectory(PathBuf),
    /// Segment files appeared behind the broker's back.
    #[error(
        "the directory {} got segment files while the broker was running: restart the broker to load them",
        .0.display()
    )]
    ForeignSegments(PathBuf),
    /// Any other refusal of the system.
    #[error("could not {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The length of a body is a signed 32-bit number.
    #[error("a message has at most 2147483647 bytes, this one has {0}")]
    BodyTooLong(usize),
    /// The partition reached the largest offset.
    #[error("partition {0} has no offsets left")]
    OffsetsExhausted(Arc<str>),
}

/// Why a record cannot be read at an offset.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file failed, or ended where the store knows that it goes on.
    #[error("could not read {}: {source}", path.display())]
    Io {
        /// The segment file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No record begins at this offset, or it is damaged.
    #[error("no intact record begins at offset {offset} in {}", path.display())]
    NoRecord {
        /// The offset asked for.
        offset: Offset,
        /// The segment file.
        path: PathBuf,
    },
}

/// A range of partitions that cannot be closed (02 §14).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("partitions {start} to {end} cannot be closed: the first must be at least 0 and not after the last")]
pub struct InvalidPartitionRange {
    /// First partition.
    pub start: i32,
    /// Last partition, inclusive.
    pub end: i32,
}

/// Why data paths were not added: one of them cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct RefusedDataPath {
    /// That one, as it was given.
    pub path: PathBuf,
    /// What is wrong with it.
    pub source: StoreError,
}
