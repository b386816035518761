//! Why a commit log cannot be read.

use std::io;
use std::path::PathBuf;

/// Why the commit log cannot be replayed. Nothing on disk was changed.
#[derive(Debug, thiserror::Error)]
pub enum CommitLogError {
    /// A file or the directory cannot be read.
    #[error("could not {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file failed to sync: what the system shows of it may not be what the disk holds.
    #[error(
        "the commit log file {} could not be synced ({source}): check the disk before the next start, which uses what \
         the disk really holds; messages that were answered before they were durable may be missing then",
        path.display()
    )]
    Sync {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something that is no file has the name of a log file.
    #[error("{} has the name of a commit log file but is none: move it away", .0.display())]
    NotAFile(PathBuf),
    /// A file was written by a later release.
    #[error(
        "the commit log file {} has version {version}, which this release does not know: start the release that wrote \
         it and stop it cleanly first",
        path.display()
    )]
    UnknownVersion {
        /// The file.
        path: PathBuf,
        /// What its header says.
        version: u32,
    },
    /// A frame was written by a later release.
    #[error(
        "the commit log file {} holds a frame of kind {kind} at byte {position}, which this release does not know: start \
         the release that wrote it and stop it cleanly first",
        path.display()
    )]
    UnknownKind {
        /// The file.
        path: PathBuf,
        /// Where the frame begins.
        position: u64,
        /// What it says.
        kind: u8,
    },
    /// Files of two logs.
    #[error(
        "{} and {} belong to two different commit logs: move away those that do not belong to this data directory",
        first.display(),
        second.display()
    )]
    TwoLogs {
        /// A file of one.
        first: PathBuf,
        /// A file of the other.
        second: PathBuf,
    },
    /// Two files with the same number.
    #[error(
        "{} and {} are both file {number} of the commit log: move the copy away",
        first.display(),
        second.display()
    )]
    SameNumber {
        /// One of them.
        first: PathBuf,
        /// The other.
        second: PathBuf,
        /// The number in both headers.
        number: u64,
    },
    /// Frames are missing that were durable once: messages that were answered are damaged.
    #[error(
        "the commit log is damaged: frame {sequence} is missing at byte {position} of {}, but {witness_path} shows at \
         byte {witness_position} that it was durable. Messages that were answered would be lost: bring the file back \
         from a copy of the disk; `metaq log dump` shows what can be read. To go on without them, move all commitlog \
         files away and keep them",
        path.display(),
        witness_path = witness.display()
    )]
    Damaged {
        /// The first frame that is missing.
        sequence: u64,
        /// The file in which it should be.
        path: PathBuf,
        /// Where it should begin.
        position: u64,
        /// The file that proves that it was there.
        witness: PathBuf,
        /// Where in it.
        witness_position: u64,
    },
}
