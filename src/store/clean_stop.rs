//! `<dataLogPath>/transactions/clean.stop`: what the segments looked like when the broker was stopped cleanly, so that
//! the next start need not read them (08 §6).
//!
//! Big-endian: magic `MQCS`, version (4 bytes), number of the next log file (8), largest message id (8), partitions (4);
//! for each topic (1 + n), number (4), directory (2 + n), visible end (8), messages (8), segments (4), and for each of
//! those base, length, time (8 each); CRC-32 of all that (4).

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Buf, BufMut};
use tracing::warn;

use super::fs::{Access, FileSystem, Kind, Stamp, read_exact_at, write_all_at};
use super::partition::PartitionLog;
use super::replay::Key;
use crate::id::{MessageId, PartitionIndex, TopicName};

const FILE_NAME: &str = "clean.stop";
const TEMPORARY_NAME: &str = "clean.stop.tmp";
const MAGIC: &[u8; 4] = b"MQCS";
const VERSION: u32 = 1;

/// A longer file is none of ours.
const MAX_LEN: u64 = 1 << 30;

/// What a clean stop left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct CleanStop {
    /// Numbers of log files ascend over clean stops too.
    pub(super) next_file_number: u64,
    /// New message ids lie behind this one.
    pub(super) largest_id: MessageId,
    pub(super) partitions: HashMap<Key, CleanPartition>,
}

/// A partition at a clean stop: everything was intact and durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CleanPartition {
    pub(super) dir: PathBuf,
    /// The visible end, which is the end of the last segment.
    pub(super) end: u64,
    /// Its message count.
    pub(super) messages: u64,
    /// Base and stamp of each segment, in order.
    pub(super) segments: Vec<(u64, Stamp)>,
}

impl CleanPartition {
    /// How a partition lies on the disk, `None` unless everything in it is durable and in its place.
    fn of(partition: &PartitionLog) -> io::Result<Option<Self>> {
        let position = |offset: crate::id::Offset| u64::try_from(offset.get()).unwrap_or(0);
        let end = position(partition.max_offset());
        let mut segments = Vec::new();
        let mut expected = None;
        for segment in partition.segments() {
            let (base, stamp) = (position(segment.start()), segment.file().stamp()?);
            if expected.is_some_and(|expected| expected != base) {
                return Ok(None);
            }
            expected = base.checked_add(stamp.len);
            segments.push((base, stamp));
        }
        let checkpointed = partition.checkpointed.load(Ordering::Acquire);
        let is_sound = partition.poison().is_none() && checkpointed == end;
        let complete = is_sound && expected.unwrap_or(end) == end && position(partition.written_offset()) == end;
        let (dir, messages) = (partition.dir().to_path_buf(), partition.message_count());
        Ok(complete.then_some(Self { dir, end, messages, segments }))
    }
}

/// Records a clean stop. Everything must be durable and no log file be left. Partitions that are not wholly durable are
/// left out.
///
/// # Errors
/// When it cannot be written: then the next start reads all last segments.
pub(super) fn write(
    fs: &dyn FileSystem,
    dir: &Path,
    partitions: &[Arc<PartitionLog>],
    largest_id: MessageId,
    next_file_number: u64,
) -> io::Result<()> {
    let mut clean = CleanStop { next_file_number, largest_id, ..CleanStop::default() };
    for partition in partitions {
        if let Some(entry) = CleanPartition::of(partition)? {
            clean.partitions.insert((partition.topic().clone(), partition.index()), entry);
        }
    }
    let temporary = dir.join(TEMPORARY_NAME);
    if fs.kind(&temporary)?.is_some() {
        fs.remove_file(&temporary)?;
    }
    let file = fs.create(&temporary)?;
    write_all_at(&*file, &mut [IoSlice::new(&encode(&clean))], 0)?;
    file.sync_data()?;
    fs.rename(&temporary, &dir.join(FILE_NAME))?;
    fs.sync_dir(dir)
}

/// What the last clean stop left, `None` without one. A damaged file, or one of a later release, counts as none: the
/// segments are read then.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn read(fs: &dyn FileSystem, dir: &Path) -> io::Result<Option<CleanStop>> {
    let path = dir.join(FILE_NAME);
    let Some(Kind::File(len)) = fs.kind(&path)? else { return Ok(None) };
    let mut bytes = vec![0; usize::try_from(len.min(MAX_LEN)).unwrap_or(0)];
    read_exact_at(&*fs.open(&path, Access::Read)?, &mut bytes, 0)?;
    let clean = decode(&bytes);
    if clean.is_none() {
        warn!(path = %path.display(), "damaged or of another release, not used: last segments are read in full");
    }
    Ok(clean)
}

/// Removes the record of the last clean stop, durably; from now on segments may change.
///
/// # Errors
/// When it cannot be removed.
pub(super) fn remove(fs: &dyn FileSystem, dir: &Path) -> io::Result<()> {
    let path = dir.join(FILE_NAME);
    if fs.kind(&path)?.is_none() {
        return Ok(());
    }
    fs.remove_file(&path)?;
    fs.sync_dir(dir)
}

fn encode(clean: &CleanStop) -> Vec<u8> {
    let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
    let mut out = Vec::new();
    out.put_slice(MAGIC);
    out.put_u32(VERSION);
    out.put_u64(clean.next_file_number);
    out.put_i64(clean.largest_id.get());
    out.put_u32(count(clean.partitions.len()));
    for ((topic, index), partition) in &clean.partitions {
        let dir = partition.dir.as_os_str().as_bytes();
        // A topic has at most 200 bytes, a path of Linux 4 096.
        out.put_u8(u8::try_from(topic.as_str().len()).unwrap_or(u8::MAX));
        out.put_slice(topic.as_str().as_bytes());
        out.put_i32(index.get());
        out.put_u16(u16::try_from(dir.len()).unwrap_or(u16::MAX));
        out.put_slice(dir);
        out.put_u64(partition.end);
        out.put_u64(partition.messages);
        out.put_u32(count(partition.segments.len()));
        for (base, stamp) in &partition.segments {
            out.put_u64(*base);
            out.put_u64(stamp.len);
            out.put_i64(stamp.modified_ns);
        }
    }
    let crc = crc32fast::hash(&out);
    out.put_u32(crc);
    out
}

fn decode(bytes: &[u8]) -> Option<CleanStop> {
    let (content, mut crc) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    if crc.get_u32() != crc32fast::hash(content) {
        return None;
    }
    let mut fields = content.strip_prefix(MAGIC)?;
    if fields.try_get_u32().ok()? != VERSION {
        return None;
    }
    let next_file_number = fields.try_get_u64().ok()?;
    let largest_id = MessageId::new(fields.try_get_i64().ok()?);
    let mut clean = CleanStop { next_file_number, largest_id, ..CleanStop::default() };
    for _ in 0..fields.try_get_u32().ok()? {
        let topic_len = usize::from(fields.try_get_u8().ok()?);
        let topic = TopicName::new(std::str::from_utf8(take(&mut fields, topic_len)?).ok()?).ok()?;
        let index = PartitionIndex::new(fields.try_get_i32().ok()?);
        let dir_len = usize::from(fields.try_get_u16().ok()?);
        let dir = PathBuf::from(OsStr::from_bytes(take(&mut fields, dir_len)?));
        let (end, messages) = (fields.try_get_u64().ok()?, fields.try_get_u64().ok()?);
        let mut segments = Vec::new();
        for _ in 0..fields.try_get_u32().ok()? {
            let base = fields.try_get_u64().ok()?;
            let (len, modified_ns) = (fields.try_get_u64().ok()?, fields.try_get_i64().ok()?);
            segments.push((base, Stamp { len, modified_ns }));
        }
        clean.partitions.insert((topic, index), CleanPartition { dir, end, messages, segments });
    }
    fields.is_empty().then_some(clean)
}

fn take<'a>(fields: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = fields.split_at_checked(len)?;
    *fields = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::super::fs::OsFileSystem;
    use super::*;

    fn sample() -> CleanStop {
        let stamp = |len| Stamp { len, modified_ns: -7 };
        let partition = |dir: &str, segments: Vec<(u64, Stamp)>| CleanPartition {
            dir: dir.into(),
            end: 125,
            messages: 3,
            segments,
        };
        let key = |topic, index| (TopicName::new(topic).unwrap(), PartitionIndex::new(index));
        let partitions = HashMap::from([
            (key("a", 0), partition("/data/a-0", vec![(0, stamp(100)), (100, stamp(25))])),
            (key("b-c", 7), partition("/data/b-c-7", vec![])),
        ]);
        CleanStop { next_file_number: 42, largest_id: MessageId::new(1 << 50), partitions }
    }

    #[test]
    fn it_is_read_back_and_nothing_damaged_is() {
        let bytes = encode(&sample());
        assert_eq!(decode(&bytes), Some(sample()));
        for i in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[i] ^= 1;
            assert_eq!(decode(&damaged), None, "byte {i}");
            assert_eq!(decode(&bytes[..i]), None, "cut at {i}");
        }
    }

    #[test]
    fn a_damaged_file_and_none_are_the_same_and_removal_is_repeatable() {
        let dir = tempfile::tempdir().unwrap();
        for content in [&b""[..], b"MQCS", &[0; 200]] {
            std::fs::write(dir.path().join(FILE_NAME), content).unwrap();
            assert_eq!(read(&OsFileSystem, dir.path()).unwrap(), None);
        }
        for _ in 0..2 {
            remove(&OsFileSystem, dir.path()).unwrap();
            assert_eq!(read(&OsFileSystem, dir.path()).unwrap(), None);
        }
        write(&OsFileSystem, dir.path(), &[], MessageId::new(5), 9).unwrap();
        let clean = CleanStop { next_file_number: 9, largest_id: MessageId::new(5), ..CleanStop::default() };
        assert_eq!(read(&OsFileSystem, dir.path()).unwrap(), Some(clean));
    }
}
