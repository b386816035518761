//! Shows what is in a commit log, without changing anything and whatever state it is in.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::commit_log::error::CommitLogError;
use super::commit_log::files::LogFiles;
use super::commit_log::format::Body;
use super::commit_log::walk::{Met, walk};
use super::error::StoreError;
use super::fs::FileSystem;
use super::message_store::TRANSACTIONS_DIR;
use super::set_aside::{self, Kind};

/// One thing to tell about a commit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LogItem {
    /// A file of the log.
    File {
        /// The file.
        path: PathBuf,
        /// Its number; the header rules, not the name.
        number: u64,
        /// Which log it belongs to.
        log_id: u64,
        /// Sequence of its first frame.
        first_sequence: u64,
        /// Entries of the checkpoint table in its header.
        checkpoints: usize,
        /// Its length in bytes.
        bytes: u64,
    },
    /// A file without a valid header.
    BlankFile {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        bytes: u64,
    },
    /// A frame, in order of sequence.
    Frame {
        /// Its file.
        path: PathBuf,
        /// Where it begins in it.
        position: u64,
        /// Its length in bytes.
        bytes: usize,
        /// Its sequence.
        sequence: u64,
        /// The highest sequence known to be durable when it was made.
        synced: u64,
        /// What is in it.
        content: FrameContent,
    },
    /// Where a log ends.
    End {
        /// Frames in it.
        frames: u64,
        /// The first sequence without a frame.
        next_sequence: u64,
        /// Where that frame would begin.
        path: PathBuf,
        /// Where in it.
        position: u64,
        /// Why that is damage, if it is; otherwise nothing that was durable is missing.
        damage: Option<String>,
    },
    /// Messages that are set aside in a file of their own.
    SetAside {
        /// The file.
        path: PathBuf,
        /// `pending` or `quarantine`.
        kind: String,
        /// Frames in it.
        frames: u64,
        /// Bytes of messages in it.
        bytes: u64,
        /// Offset of the first message.
        first_offset: Option<u64>,
    },
    /// What would refuse a start.
    Problem {
        /// What is wrong, and what to do.
        text: String,
    },
}

/// What is in a frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FrameContent {
    /// Messages.
    Records {
        /// `<topic>-<partition>`.
        partition: String,
        /// Name of the segment that they belong to.
        segment: u64,
        /// Offset of the first one.
        offset: u64,
        /// Bytes of all of them.
        bytes: usize,
    },
    /// Voids all earlier frames of a partition.
    Forget {
        /// `<topic>-<partition>`.
        partition: String,
    },
    /// Part of the checkpoint table.
    Checkpoints {
        /// Its entries.
        entries: usize,
    },
    /// Of a kind that this release does not know.
    Unknown {
        /// The number of the kind.
        number: u8,
    },
}

impl From<&Body<'_>> for FrameContent {
    fn from(body: &Body<'_>) -> Self {
        match body {
            Body::Records { topic, partition, segment, offset, records } => Self::Records {
                partition: super::format::directory_name(topic, *partition),
                segment: *segment,
                offset: *offset,
                bytes: records.len(),
            },
            Body::Forget { topic, partition } => {
                Self::Forget { partition: super::format::directory_name(topic, *partition) }
            }
            Body::Table(table) => Self::Checkpoints { entries: table.len() },
            Body::Unknown(number) => Self::Unknown { number: *number },
        }
    }
}

/// Why a dump ended early.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// Something cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What was found cannot be shown.
    #[error(transparent)]
    Output(#[from] io::Error),
}

impl From<CommitLogError> for DumpError {
    fn from(error: CommitLogError) -> Self {
        Self::Store(error.into())
    }
}

/// Shows the commit log in `<data_log_path>/transactions`, with every frame if `frames`. Nothing is locked or changed; a
/// log that a broker is writing may seem to end early. Returns whether a start would take it as it is.
///
/// # Errors
/// When a file cannot be read, or what `show` returns.
pub fn dump_log(
    fs: &dyn FileSystem,
    data_log_path: &Path,
    frames: bool,
    show: &mut dyn FnMut(LogItem) -> io::Result<()>,
) -> Result<bool, DumpError> {
    let dir = data_log_path.join(TRANSACTIONS_DIR);
    let mut good = true;
    let mut files = LogFiles::open(fs, &dir)?;
    for file in &files.used {
        show(LogItem::File {
            path: file.path.clone(),
            number: file.header.file_number,
            log_id: file.header.log_id,
            first_sequence: file.header.first_sequence,
            checkpoints: file.header.table.len(),
            bytes: file.len,
        })?;
    }
    for file in &files.blank {
        show(LogItem::BlankFile { path: file.path.clone(), bytes: file.len })?;
    }
    if let Err(error) = files.check() {
        good = false;
        show(LogItem::Problem { text: error.to_string() })?;
    }
    while let Some(log) = files.split_off_log() {
        let (mut count, mut unknown) = (0, None);
        let end = walk::<DumpError>(&log, &mut |met: Met<'_>| {
            count += 1;
            let path = || log.used.get(met.file).map(|file| file.path.clone()).unwrap_or_default();
            if let Body::Unknown(kind) = met.frame.body {
                unknown.get_or_insert(CommitLogError::UnknownKind { path: path(), position: met.position, kind });
            }
            if frames {
                let (position, bytes) = (met.position, met.frame.len);
                let (sequence, synced) = (met.frame.sequence, met.frame.synced);
                let content = (&met.frame.body).into();
                show(LogItem::Frame { path: path(), position, bytes, sequence, synced, content })?;
            }
            Ok(())
        })?;
        if let Some(error) = unknown {
            good = false;
            show(LogItem::Problem { text: error.to_string() })?;
        }
        if let Some(end) = end {
            let damage = end.check().err().map(|error| error.to_string());
            good &= damage.is_none();
            let (next_sequence, path, position) = (end.sequence, end.path, end.position);
            show(LogItem::End { frames: count, next_sequence, path, position, damage })?;
        }
    }
    good &= show_set_aside(fs, &dir, show)?;
    Ok(good)
}

fn show_set_aside(
    fs: &dyn FileSystem,
    dir: &Path,
    show: &mut dyn FnMut(LogItem) -> io::Result<()>,
) -> Result<bool, DumpError> {
    let mut good = true;
    for kind in [Kind::Pending, Kind::Quarantine] {
        let unreadable = |source| StoreError::Unreadable { path: dir.to_path_buf(), source };
        for (topic, index) in set_aside::list(fs, dir, kind).map_err(unreadable)? {
            let path = set_aside::path(dir, kind, &topic, index);
            let (mut frames, mut bytes, mut first_offset) = (0, 0, None);
            let read = set_aside::read(fs, &path, &mut |frame| {
                frames += 1;
                bytes += frame.records.len() as u64;
                first_offset.get_or_insert(frame.offset);
                Ok(())
            });
            if let Err(error) = read {
                good = false;
                show(LogItem::Problem { text: error.to_string() })?;
            }
            show(LogItem::SetAside { path, kind: kind.to_string(), frames, bytes, first_offset })?;
        }
    }
    Ok(good)
}
