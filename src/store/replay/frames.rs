//! All frames that have to be applied, by partition: where they are, not what is in them.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::commit_log::error::CommitLogError;
use super::super::commit_log::files::LogFiles;
use super::super::commit_log::format::{Body, records_overhead};
use super::super::commit_log::table::Checkpoint;
use super::super::commit_log::walk::{LogEnd, Met, walk};
use super::super::fs::{Access, DataFile, FileSystem, read_exact_at};
use super::super::set_aside::{self, Kind};
use crate::id::{PartitionIndex, TopicName};

/// A partition's name.
pub(in crate::store) type Key = (TopicName, PartitionIndex);

/// Where the records of a frame are. There may be millions.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameRef {
    source: u32,
    len: u32,
    position: u64,
    pub(super) segment: u64,
    pub(super) offset: u64,
}

impl FrameRef {
    /// Offset behind the last record.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.len.into())
    }
}

/// The frames of a partition, in order of sequence.
#[derive(Debug, Default)]
pub(super) struct PartitionFrames {
    pub(super) frames: Vec<FrameRef>,
    /// Everything before the first frame is void, what is pending included.
    pub(super) forgotten: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Frames {
    sources: Vec<(PathBuf, Arc<dyn DataFile>)>,
    pub(super) partitions: HashMap<Key, PartitionFrames>,
    /// What the log knows to be durable in the segments themselves.
    pub(super) table: HashMap<Key, Checkpoint>,
    /// Where the log ends, `None` without one.
    pub(super) end: Option<LogEnd>,
    /// Frames in the log, of any kind.
    pub(super) count: u64,
}

impl Frames {
    /// Reads what is pending, then the log, and checks it.
    ///
    /// # Errors
    /// When something cannot be read, is damaged or not known to this release.
    pub(super) fn gather(fs: &dyn FileSystem, dir: &Path, log: &LogFiles) -> Result<Self, CommitLogError> {
        let mut frames = Self::default();
        frames.gather_pending(fs, dir).map_err(|source| CommitLogError::Io {
            action: "read the pending messages in",
            path: dir.to_path_buf(),
            source,
        })?;
        let first = frames.sources.len();
        frames.sources.extend(log.used.iter().map(|file| (file.path.clone(), Arc::clone(&file.file))));
        for file in &log.used {
            frames.take_table(file.header.table.clone());
        }
        let end = walk(log, &mut |met: Met<'_>| frames.take(log, first, met))?;
        if let Some(end) = &end {
            end.check()?;
        }
        frames.end = end;
        Ok(frames)
    }

    fn gather_pending(&mut self, fs: &dyn FileSystem, dir: &Path) -> io::Result<()> {
        for key in set_aside::list(fs, dir, Kind::Pending)? {
            let path = set_aside::path(dir, Kind::Pending, &key.0, key.1);
            let source = u32::try_from(self.sources.len()).map_err(io::Error::other)?;
            self.sources.push((path.clone(), fs.open(&path, Access::Read)?));
            let partition = self.partitions.entry(key).or_default();
            set_aside::read(fs, &path, &mut |frame| {
                let len = u32::try_from(frame.records.len()).map_err(io::Error::other)?;
                let (position, segment, offset) = (frame.position, frame.segment, frame.offset);
                partition.frames.push(FrameRef { source, len, position, segment, offset });
                Ok(())
            })?;
        }
        Ok(())
    }

    fn take(&mut self, log: &LogFiles, first: usize, met: Met<'_>) -> Result<(), CommitLogError> {
        self.count += 1;
        match met.frame.body {
            Body::Records { topic, partition, segment, offset, records } => {
                // A frame has at most 1 MiB, and there are few files.
                let (source, len) = (first + met.file, records.len());
                let (source, len) = (u32::try_from(source).unwrap_or(u32::MAX), u32::try_from(len).unwrap_or(u32::MAX));
                let position = met.position + records_overhead(&topic) as u64;
                let frame = FrameRef { source, len, position, segment, offset };
                self.partitions.entry((topic, partition)).or_default().frames.push(frame);
            }
            Body::Forget { topic, partition } => {
                let key = (topic, partition);
                self.table.remove(&key);
                let partition = self.partitions.entry(key).or_default();
                partition.frames.clear();
                partition.forgotten = true;
            }
            Body::Table(table) => self.take_table(table),
            Body::Unknown(kind) => {
                let path = log.used.get(met.file).map(|file| file.path.clone()).unwrap_or_default();
                return Err(CommitLogError::UnknownKind { path, position: met.position, kind });
            }
        }
        Ok(())
    }

    fn take_table(&mut self, table: Vec<Checkpoint>) {
        for entry in table {
            self.table.insert((entry.topic.clone(), entry.partition), entry);
        }
    }

    /// Appends the records of a frame to `out`.
    ///
    /// # Errors
    /// With the path of the file, when it cannot be read.
    pub(super) fn read(&self, frame: &FrameRef, out: &mut Vec<u8>) -> Result<(), (PathBuf, io::Error)> {
        let source = usize::try_from(frame.source).ok().and_then(|source| self.sources.get(source));
        let Some((path, file)) = source else { return Err((PathBuf::new(), io::ErrorKind::NotFound.into())) };
        let start = out.len();
        out.resize(start + frame.len as usize, 0);
        let records = out.get_mut(start..).unwrap_or_default();
        read_exact_at(&**file, records, frame.position).map_err(|error| (path.clone(), error))
    }
}
