//! Replay of one partition (08 §5).

use std::io;
use std::path::Path;

use bytes::Bytes;

use super::super::set_aside::{self, Kind};
use super::compare::compare;
use super::frames::{FrameRef, Frames, Key};
use super::target::{Failure, Place, Target};
use crate::message::{HEADER_LEN, RecordHeader};

/// Bytes of neighbouring frames that are compared and written at once.
const RUN_BYTES: usize = 1 << 20;

/// What was done with the frames of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Applied {
    /// Bytes of records that were missing in the segments.
    pub(super) written: u64,
    /// Bytes of records that were there.
    pub(super) present: u64,
    /// Bytes of records whose segments were removed by retention.
    pub(super) removed: u64,
    /// Why some must not be applied, and from which offset on.
    pub(super) stopped: Option<Stop>,
}

/// Where the frames of a partition cannot be applied any further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stop {
    pub(super) offset: u64,
    pub(super) reason: String,
}

/// Applies the frames of a partition to its segments and makes it all durable. Frames from `limit` on are quarantined
/// already.
///
/// # Errors
/// When a file fails; what was applied until then does no harm.
pub(super) fn apply(
    frames: &Frames,
    list: &[FrameRef],
    target: &mut Target<'_>,
    limit: Option<u64>,
) -> Result<Applied, Failure> {
    let mut settled = None;
    for frame in list {
        if settled != Some(frame.segment) {
            target.settle(frame.segment)?;
            settled = Some(frame.segment);
        }
    }
    let mut applied = Applied::default();
    let mut run = Run::default();
    for frame in list {
        let end = limit.map_or(frame.end(), |limit| limit.min(frame.end()));
        if applied.stopped.is_some() || end <= frame.offset {
            // The same reason as when it was quarantined; the file says which.
            continue;
        }
        if !run.continues_with(frame) {
            run.apply(target, &mut applied)?;
            run.begin(frame);
        }
        let read = frames.read(frame, &mut run.records);
        read.map_err(|(path, error)| unreadable(&path, error))?;
        let cut = usize::try_from(frame.end() - end).unwrap_or(usize::MAX);
        run.records.truncate(run.records.len().saturating_sub(cut));
    }
    run.apply(target, &mut applied)?;
    target.sync()?;
    Ok(applied)
}

fn unreadable(path: &Path, source: io::Error) -> Failure {
    Failure::Start(super::super::error::StoreError::Unreadable { path: path.to_path_buf(), source })
}

/// Neighbouring frames of one segment.
#[derive(Debug, Default)]
struct Run {
    segment: u64,
    offset: u64,
    records: Vec<u8>,
}

impl Run {
    fn continues_with(&self, frame: &FrameRef) -> bool {
        self.segment == frame.segment
            && self.offset.checked_add(self.records.len() as u64) == Some(frame.offset)
            && self.records.len() < RUN_BYTES
    }

    fn begin(&mut self, frame: &FrameRef) {
        (self.segment, self.offset) = (frame.segment, frame.offset);
        self.records.clear();
    }

    /// Applies the records, unless an earlier run was stopped.
    fn apply(&self, target: &mut Target<'_>, applied: &mut Applied) -> Result<(), Failure> {
        let len = self.records.len() as u64;
        if len == 0 || applied.stopped.is_some() {
            return Ok(());
        }
        let stop = |offset, reason| Some(Stop { offset, reason });
        let number = match target.place(self.segment, self.offset)? {
            Place::Segment(number) => number,
            Place::Removed => {
                applied.removed += len;
                return Ok(());
            }
            Place::None(reason) => {
                applied.stopped = stop(self.offset, reason);
                return Ok(());
            }
        };
        let Some(segment) = target.segment(number) else { return Ok(()) };
        let (held, path) = (segment.len, segment.path.display().to_string());
        let Some(position) = self.offset.checked_sub(self.segment).filter(|&position| position <= held) else {
            let end = self.segment.saturating_add(held);
            let reason = format!("messages are missing between offset {end}, the end of {path}, and {}", self.offset);
            applied.stopped = stop(self.offset, reason);
            return Ok(());
        };
        if let Some(next) = target.next_start(number).filter(|&next| next < self.offset.saturating_add(len)) {
            let reason = format!("they reach beyond offset {next}, where the segment behind {path} begins");
            applied.stopped = stop(self.offset, reason);
            return Ok(());
        }
        let file = target.file(number)?;
        let verdict = compare(&self.records, &*file, held, position);
        let verdict = verdict.map_err(|error| Failure::Partition(format!("could not read {path}: {error}")))?;
        if let Some((at, other)) = verdict.foreign {
            let offset = self.offset.saturating_add(at as u64);
            let reason = format!(
                "at offset {offset} {path} holds another message ({}) than the commit log ({}): was it written by another broker \
                 in the meantime?",
                describe(&other),
                self.records
                    .get(at..)
                    .and_then(|rest| rest.first_chunk::<HEADER_LEN>())
                    .map_or_else(|| "nothing".to_owned(), |header| describe(&RecordHeader::decode(header)))
            );
            applied.stopped = stop(offset, reason);
        }
        if let Some(bytes) = self.records.get(verdict.write.clone()).filter(|bytes| !bytes.is_empty()) {
            target.write(number, position.saturating_add(verdict.write.start as u64), bytes)?;
        }
        let stopped_at = verdict.foreign.map_or(self.records.len(), |(at, _)| at);
        applied.written += verdict.write.len() as u64;
        applied.present += stopped_at.saturating_sub(verdict.write.len()) as u64;
        Ok(())
    }
}

fn describe(header: &RecordHeader) -> String {
    format!("id {}, {} bytes, checksum {}", header.id, header.length, header.checksum)
}

/// Sets the records of frames aside from an offset on.
///
/// # Errors
/// When they cannot be read, or the file cannot be written.
pub(super) fn set_aside(
    fs: &dyn super::super::fs::FileSystem,
    dir: &Path,
    kind: Kind,
    key: &Key,
    frames: &Frames,
    list: &[FrameRef],
    from: u64,
) -> io::Result<()> {
    let mut records = list.iter().filter(|frame| frame.end() > from).map(|frame| {
        let mut records = Vec::new();
        frames.read(frame, &mut records).map_err(|(_, error)| error)?;
        let skip = from.saturating_sub(frame.offset);
        let records = Bytes::from(records).split_off(usize::try_from(skip).map_err(io::Error::other)?);
        Ok((frame.segment, frame.offset.max(from), records))
    });
    set_aside::append(fs, dir, kind, &key.0, key.1, &mut records)
}
