//! Frames of one partition that are set aside in a file of their own, in the directory `transactions` (08 §5).
//!
//! * `pending.<topic>-<partition>`: could not be applied, since a segment failed. The next start applies them before
//!   those of the log.
//! * `quarantine.<topic>-<partition>`: must not be applied, since others' messages stand at their place, or nothing
//!   before it. The partition takes no messages while the file exists; `metaq log resolve` ends that.
//!
//! A file holds frames of records as the log does, without a header, with sequences from 1. It is replaced as a whole,
//! never changed: what is in it is never half written.

use std::collections::HashSet;
use std::fmt;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::commit_log::format::{Body, DecodedFrame, FRAME_HEAD_LEN, Seed, begin_records, decode_frame};
use super::format::{directory_name, parse_directory_name};
use super::fs::{Access, DataFile, FileSystem, Kind as EntryKind, read_exact_at, write_all_at};
use crate::id::{PartitionIndex, TopicName};

/// Why frames are set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// They will be applied at the next start.
    Pending,
    /// An operator must decide.
    Quarantine,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "pending",
            Self::Quarantine => "quarantine",
        })
    }
}

/// Where the frames of a partition are set aside.
pub(super) fn path(dir: &Path, kind: Kind, topic: &TopicName, partition: PartitionIndex) -> PathBuf {
    dir.join(format!("{kind}.{}", directory_name(topic, partition)))
}

/// All partitions of which frames are set aside, in the order of their names.
///
/// # Errors
/// When the directory cannot be read.
pub(super) fn list(fs: &dyn FileSystem, dir: &Path, kind: Kind) -> io::Result<Vec<(TopicName, PartitionIndex)>> {
    let prefix = format!("{kind}.");
    let mut found = Vec::new();
    for entry in fs.list(dir)? {
        let partition = entry.name.to_str().and_then(|name| name.strip_prefix(&prefix));
        if let Some(Ok(Some(partition))) = partition.map(parse_directory_name)
            && matches!(entry.kind, EntryKind::File(_))
        {
            found.push(partition);
        }
    }
    found.sort_by(|a, b| (a.0.as_str(), a.1).cmp(&(b.0.as_str(), b.1)));
    Ok(found)
}

/// A frame in a file of this kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SetAsideFrame<'a> {
    pub(super) segment: u64,
    pub(super) offset: u64,
    pub(super) records: &'a [u8],
    /// Where the records begin in the file.
    pub(super) position: u64,
}

/// Frames of a partition to be set aside: segment, offset, records.
pub(super) type Frames<'a> = dyn Iterator<Item = io::Result<(u64, u64, Bytes)>> + 'a;

fn seed() -> Seed {
    Seed::new(0, 0)
}

/// Shows the frames in a file, in their order. Returns false if there is no such file.
///
/// # Errors
/// When it cannot be read, or is damaged anywhere.
pub(super) fn read(
    fs: &dyn FileSystem,
    path: &Path,
    visit: &mut dyn FnMut(SetAsideFrame<'_>) -> io::Result<()>,
) -> io::Result<bool> {
    let Some(EntryKind::File(len)) = fs.kind(path)? else { return Ok(false) };
    let file = fs.open(path, Access::Read)?;
    let (mut position, mut sequence, mut buffer) = (0, 1, Vec::new());
    while position < len {
        let damaged = || {
            let text = format!(
                "{} is damaged at byte {position}: it holds messages that are in no other place, bring it back from a \
                 copy of the disk or move it away and keep it",
                path.display()
            );
            io::Error::new(io::ErrorKind::InvalidData, text)
        };
        let rest = usize::try_from(len - position).unwrap_or(usize::MAX);
        let mut want = FRAME_HEAD_LEN;
        loop {
            if want > rest {
                return Err(damaged());
            }
            buffer.resize(want, 0);
            read_exact_at(&*file, &mut buffer, position)?;
            match decode_frame(&buffer, seed()) {
                DecodedFrame::Needs(more) => want = more,
                DecodedFrame::Invalid => return Err(damaged()),
                DecodedFrame::Valid(frame) => {
                    let Body::Records { segment, offset, records, .. } = frame.body else { return Err(damaged()) };
                    if frame.sequence != sequence {
                        return Err(damaged());
                    }
                    let records_at = position + (frame.len - records.len()) as u64;
                    visit(SetAsideFrame { segment, offset, records, position: records_at })?;
                    sequence += 1;
                    position += frame.len as u64;
                    break;
                }
            }
        }
    }
    Ok(true)
}

/// Adds frames to what is set aside of a partition; those that are in it already are left out. Durable on return.
///
/// # Errors
/// When the file cannot be written, or one that exists is damaged. Then that one is as it was.
pub(super) fn append(
    fs: &dyn FileSystem,
    dir: &Path,
    kind: Kind,
    topic: &TopicName,
    partition: PartitionIndex,
    frames: &mut Frames<'_>,
) -> io::Result<()> {
    let path = path(dir, kind, topic, partition);
    let temporary = dir.join(format!("{kind}.{}.tmp", directory_name(topic, partition)));
    if fs.kind(&temporary)?.is_some() {
        fs.remove_file(&temporary)?;
    }
    let file = fs.create(&temporary)?;
    let mut writer =
        Writer { file: &*file, topic, partition, position: 0, sequence: 1, seen: HashSet::new(), buffer: Vec::new() };
    read(fs, &path, &mut |frame| writer.write(frame.segment, frame.offset, frame.records))?;
    for frame in frames {
        let (segment, offset, records) = frame?;
        writer.write(segment, offset, &records)?;
    }
    writer.flush()?;
    file.sync_data()?;
    fs.rename(&temporary, &path)?;
    fs.sync_dir(dir)
}

/// Bytes of frames that are written at once.
const WRITE_BYTES: usize = 1 << 20;

struct Writer<'a> {
    file: &'a dyn DataFile,
    topic: &'a TopicName,
    partition: PartitionIndex,
    position: u64,
    sequence: u64,
    /// Offset, length and checksum of the records written so far.
    seen: HashSet<(u64, usize, u32)>,
    buffer: Vec<u8>,
}

impl Writer<'_> {
    fn write(&mut self, segment: u64, offset: u64, records: &[u8]) -> io::Result<()> {
        if !self.seen.insert((offset, records.len(), crc32fast::hash(records))) {
            return Ok(());
        }
        let begun = begin_records(&mut self.buffer, self.topic, self.partition, segment, offset);
        self.buffer.extend_from_slice(records);
        begun.finish(&mut self.buffer, seed(), self.sequence, 0);
        self.sequence += 1;
        if self.buffer.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        write_all_at(self.file, &mut [IoSlice::new(&self.buffer)], self.position)?;
        self.position += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Removes what is set aside of a partition, durably. Nothing happens if there is nothing.
///
/// # Errors
/// When the file cannot be removed.
pub(super) fn remove(
    fs: &dyn FileSystem,
    dir: &Path,
    kind: Kind,
    topic: &TopicName,
    partition: PartitionIndex,
) -> io::Result<()> {
    let path = path(dir, kind, topic, partition);
    if fs.kind(&path)?.is_none() {
        return Ok(());
    }
    fs.remove_file(&path)?;
    fs.sync_dir(dir)
}

#[cfg(test)]
mod tests {
    use super::super::fs::OsFileSystem;
    use super::*;

    fn add(dir: &Path, kind: Kind, frames: &[(u64, u64, &'static [u8])]) -> io::Result<()> {
        let (topic, partition) = (TopicName::new("a.b-c").unwrap(), PartitionIndex::new(3));
        let mut frames = frames.iter().map(|&(segment, offset, records)| Ok((segment, offset, records.into())));
        append(&OsFileSystem, dir, kind, &topic, partition, &mut frames)
    }

    fn content(path: &Path) -> io::Result<Vec<(u64, u64, Vec<u8>)>> {
        let mut frames = Vec::new();
        read(&OsFileSystem, path, &mut |frame| {
            frames.push((frame.segment, frame.offset, frame.records.to_vec()));
            let mut at_position = vec![0; frame.records.len()];
            let file = OsFileSystem.open(path, Access::Read)?;
            read_exact_at(&*file, &mut at_position, frame.position)?;
            assert_eq!(at_position, frame.records);
            Ok(())
        })?;
        Ok(frames)
    }

    #[test]
    fn frames_are_added_once_and_found_again_by_kind() {
        let dir = tempfile::tempdir().unwrap();
        add(dir.path(), Kind::Pending, &[(0, 0, b"one"), (0, 3, b"two")]).unwrap();
        std::fs::write(dir.path().join("pending.a.b-c-3.tmp"), b"what a crash left").unwrap();
        add(dir.path(), Kind::Pending, &[(0, 3, b"two"), (6, 6, b"three")]).unwrap();
        add(dir.path(), Kind::Quarantine, &[(9, 9, b"other")]).unwrap();
        std::fs::write(dir.path().join("pending.a.b-c-4.tmp"), b"").unwrap();
        std::fs::write(dir.path().join("quarantine.a.b-c-4.resolved"), b"").unwrap();
        let frame = |segment, offset, records: &[u8]| (segment, offset, records.to_vec());
        let expected = [frame(0, 0, b"one"), frame(0, 3, b"two"), frame(6, 6, b"three")];
        let path = dir.path().join("pending.a.b-c-3");
        assert_eq!(content(&path).unwrap(), expected);
        let partition = (TopicName::new("a.b-c").unwrap(), PartitionIndex::new(3));
        for kind in [Kind::Pending, Kind::Quarantine] {
            assert_eq!(list(&OsFileSystem, dir.path(), kind).unwrap(), std::slice::from_ref(&partition));
        }
        remove(&OsFileSystem, dir.path(), Kind::Pending, &partition.0, partition.1).unwrap();
        remove(&OsFileSystem, dir.path(), Kind::Pending, &partition.0, partition.1).unwrap();
        assert_eq!(list(&OsFileSystem, dir.path(), Kind::Pending).unwrap(), []);
        assert_eq!(content(&path).unwrap(), []);
    }

    #[test]
    fn a_damaged_file_is_refused_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        add(dir.path(), Kind::Pending, &[(0, 0, b"one"), (0, 3, b"two")]).unwrap();
        let path = dir.path().join("pending.a.b-c-3");
        let whole = std::fs::read(&path).unwrap();
        let mut flipped = whole.clone();
        flipped[30] ^= 1;
        for damaged in [&whole[..whole.len() - 1], &whole[..10], &[&whole[..], b"x"].concat(), &flipped] {
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(content(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
            assert_eq!(
                add(dir.path(), Kind::Pending, &[(0, 6, b"three")]).unwrap_err().kind(),
                io::ErrorKind::InvalidData
            );
            assert_eq!(std::fs::read(&path).unwrap(), damaged);
        }
    }

    #[test]
    fn a_frame_that_cannot_be_read_leaves_what_was_set_aside_before() {
        let dir = tempfile::tempdir().unwrap();
        add(dir.path(), Kind::Pending, &[(0, 0, b"one")]).unwrap();
        let (topic, partition) = (TopicName::new("a.b-c").unwrap(), PartitionIndex::new(3));
        let mut frames = [Ok((0, 3, Bytes::from_static(b"two"))), Err(io::Error::other("gone"))].into_iter();
        append(&OsFileSystem, dir.path(), Kind::Pending, &topic, partition, &mut frames).unwrap_err();
        assert_eq!(content(&dir.path().join("pending.a.b-c-3")).unwrap(), [(0, 0, b"one".to_vec())]);
    }
}
