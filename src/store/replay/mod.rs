//! Replay: brings what only the commit log holds into the segments (08 §5).
//!
//! Every step may be interrupted and done again: frames are compared before they are written, what is set aside is not
//! added twice, and nothing is removed here.

mod compare;
mod frames;
mod partition;
mod target;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::error;

use self::frames::{FrameRef, Frames, PartitionFrames};
use self::partition::{Applied, Stop, apply};
use self::target::{Failure, Target};
use super::commit_log::error::CommitLogError;
use super::commit_log::files::LogFiles;
use super::commit_log::table::Checkpoint;
use super::commit_log::walk::LogEnd;
use super::error::StoreError;
use super::format::directory_name;
use super::fs::{FileSystem, is_full};
use super::recovery_report::{PartitionRecovery, RecoveryOutcome};
use super::set_aside::{self, Kind};
pub(super) use compare::record_end;
pub(super) use frames::Key;

/// Why a partition takes no messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) reason: Arc<str>,
    /// Its files failed: nothing that is not known to be durable is shown, and nothing is changed.
    pub(super) failed: bool,
}

/// Where the frames of a partition belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Framed {
    /// Of the oldest one.
    pub(super) segment: u64,
    /// Of the oldest one.
    pub(super) offset: u64,
    /// Offset behind all of them.
    pub(super) end: u64,
}

/// What a replay did, and what it learnt about the partitions.
#[derive(Debug, Default)]
pub(super) struct Replayed {
    pub(super) closed: HashMap<Key, Closed>,
    /// Of the partitions whose frames were applied.
    pub(super) framed: HashMap<Key, Framed>,
    pub(super) table: HashMap<Key, Checkpoint>,
    /// Partitions of which nothing is pending any more, though the file is still there.
    pub(super) done_pending: Vec<Key>,
    pub(super) end: Option<LogEnd>,
    pub(super) frames: u64,
    pub(super) partitions: Vec<PartitionRecovery>,
}

/// The text that partitions are closed with whose frames are in quarantine.
fn quarantine_text(dir: &Path, (topic, index): &Key, stop: Option<&Stop>) -> String {
    let path = set_aside::path(dir, Kind::Quarantine, topic, *index);
    let because = stop.map(|stop| format!(" ({})", stop.reason)).unwrap_or_default();
    format!(
        "messages of it are set aside in {} since their place in its segments is taken or cannot be reached{because}: \
         stop the broker and decide with `metaq log resolve -f server.ini {topic} {index}`",
        path.display()
    )
}

/// A partition whose frames are to be applied.
struct Work<'a> {
    key: Key,
    frames: PartitionFrames,
    target: Target<'a>,
    /// Frames from this offset on are in quarantine already.
    limit: Option<u64>,
}

/// Applies the frames of `log`, which is checked and settled, and what is pending in `dir`. `dir_of` tells where a
/// partition lies, or would be made.
///
/// # Errors
/// When the log is damaged or a partition's files do not fit together: then nothing was changed. When something stands
/// in the way of all partitions, a full disk above all: then everything is still in the log.
pub(super) fn replay(
    fs: &dyn FileSystem,
    dir: &Path,
    log: &LogFiles,
    dir_of: &dyn Fn(&Key) -> PathBuf,
) -> Result<Replayed, StoreError> {
    let mut frames = Frames::gather(fs, dir, log)?;
    let mut replayed = Replayed {
        table: std::mem::take(&mut frames.table),
        end: frames.end.take(),
        frames: frames.count,
        done_pending: set_aside::list(fs, dir, Kind::Pending).map_err(|error| unreadable(dir, error))?,
        ..Replayed::default()
    };
    let quarantined = find_quarantined(fs, dir)?;
    for key in quarantined.keys() {
        let reason = quarantine_text(dir, key, None).into();
        replayed.closed.insert(key.clone(), Closed { reason, failed: false });
    }
    let mut partitions: Vec<_> = std::mem::take(&mut frames.partitions).into_iter().collect();
    partitions.retain(|(_, partition)| !partition.frames.is_empty());
    partitions.sort_by(|(a, _), (b, _)| (a.0.as_str(), a.1).cmp(&(b.0.as_str(), b.1)));
    let work = |(key, frames)| {
        let target = Target::open(fs, dir_of(&key))?;
        let limit = quarantined.get(&key).copied();
        Ok(Work { key, frames, target, limit })
    };
    // All of them are looked at before the first one is changed.
    let work = partitions.into_iter().map(work).collect::<Result<Vec<_>, StoreError>>()?;
    for work in work {
        replay_partition(fs, dir, &frames, work, &mut replayed)?;
    }
    Ok(replayed)
}

fn replay_partition(
    fs: &dyn FileSystem,
    dir: &Path,
    frames: &Frames,
    work: Work<'_>,
    replayed: &mut Replayed,
) -> Result<(), StoreError> {
    let Work { key, frames: PartitionFrames { frames: list, forgotten }, mut target, limit } = work;
    let report = |outcome, applied: &Applied, reason| PartitionRecovery {
        topic: key.0.clone(),
        partition: key.1,
        outcome,
        written_bytes: applied.written,
        present_bytes: applied.present,
        removed_bytes: applied.removed,
        reason,
    };
    let set_aside = |kind, from| {
        let path = set_aside::path(dir, kind, &key.0, key.1);
        partition::set_aside(fs, dir, kind, &key, frames, &list, from).map_err(|source| match is_full(&source) {
            true => StoreError::NoSpaceForRecovery(path),
            false => StoreError::Io { action: "set messages aside in", path, source },
        })
    };
    match apply(frames, &list, &mut target, limit) {
        Ok(applied) => {
            let from = applied.stopped.as_ref().map(|stop| stop.offset).or(limit);
            if let Some(from) = from.filter(|&from| list.iter().any(|frame| frame.end() > from)) {
                set_aside(Kind::Quarantine, from)?;
                let reason = quarantine_text(dir, &key, applied.stopped.as_ref());
                error!(partition = directory_name(&key.0, key.1), reason, "partition closed for puts");
                replayed.partitions.push(report(RecoveryOutcome::Quarantined, &applied, Some(reason.clone())));
                replayed.closed.insert(key, Closed { reason: reason.into(), failed: false });
            } else {
                replayed.partitions.push(report(RecoveryOutcome::Applied, &applied, None));
                if let Some(framed) = framed(&list) {
                    replayed.framed.insert(key, framed);
                }
            }
        }
        Err(Failure::Partition(reason)) => {
            if forgotten {
                let path = set_aside::path(dir, Kind::Pending, &key.0, key.1);
                let removed = set_aside::remove(fs, dir, Kind::Pending, &key.0, key.1);
                removed.map_err(|source| StoreError::Io { action: "remove", path, source })?;
            }
            set_aside(Kind::Pending, 0)?;
            let reason = format!("{reason}; what its segments lack is kept and brought in at the next start");
            error!(partition = directory_name(&key.0, key.1), reason, "messages could not be recovered");
            replayed.done_pending.retain(|done| *done != key);
            replayed.partitions.push(report(RecoveryOutcome::Pending, &Applied::default(), Some(reason.clone())));
            replayed.closed.insert(key, Closed { reason: reason.into(), failed: true });
        }
        Err(Failure::Start(error)) => return Err(error),
    }
    Ok(())
}

fn framed(list: &[FrameRef]) -> Option<Framed> {
    let oldest = list.iter().min_by_key(|frame| frame.offset)?;
    let end = list.iter().map(FrameRef::end).max()?;
    Some(Framed { segment: oldest.segment, offset: oldest.offset, end })
}

/// The partitions in quarantine, and the lowest offset of what is set aside of each.
fn find_quarantined(fs: &dyn FileSystem, dir: &Path) -> Result<HashMap<Key, u64>, StoreError> {
    let list = set_aside::list(fs, dir, Kind::Quarantine).map_err(|error| unreadable(dir, error))?;
    let mut found = HashMap::new();
    for key in list {
        let path = set_aside::path(dir, Kind::Quarantine, &key.0, key.1);
        let mut lowest = u64::MAX;
        let read = set_aside::read(fs, &path, &mut |frame| {
            lowest = lowest.min(frame.offset);
            Ok(())
        });
        read.map_err(|error| unreadable(&path, error))?;
        found.insert(key, lowest);
    }
    Ok(found)
}

fn unreadable(path: &Path, source: std::io::Error) -> StoreError {
    CommitLogError::Io { action: "read", path: path.to_path_buf(), source }.into()
}
