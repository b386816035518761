//! The segments of one partition, as replay finds and fills them.

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::error::StoreError;
use super::super::format::segment_file_name;
use super::super::fs::{
    Access, DataFile, FileSystem, Kind, is_device_error, is_full, is_out_of_resources, write_all_at,
};
use super::super::load::{SegmentFile, find_segments};

/// Why a partition's frames cannot be applied.
#[derive(Debug)]
pub(super) enum Failure {
    /// Its files fail: what is not applied is set aside, and the other partitions go on.
    Partition(String),
    /// The start is refused.
    Start(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Start(error)
    }
}

/// Tells the failure of one partition's files from what stands in the way of all.
fn failure(action: &'static str, path: &Path, error: io::Error) -> Failure {
    if is_full(&error) {
        Failure::Start(StoreError::NoSpaceForRecovery(path.to_path_buf()))
    } else if is_device_error(&error) {
        Failure::Partition(format!("could not {action} {}: {error}", path.display()))
    } else {
        Failure::Start(StoreError::Io { action, path: path.to_path_buf(), source: error })
    }
}

/// A failed sync fails the partition, whatever the system says.
fn sync_failure(path: &Path, error: io::Error) -> Failure {
    if is_out_of_resources(&error) {
        return failure("sync", path, error);
    }
    Failure::Partition(format!("sync of {} failed: {error}", path.display()))
}

/// See the module.
#[derive(Debug)]
pub(super) struct Target<'a> {
    fs: &'a dyn FileSystem,
    dir: PathBuf,
    segments: Vec<TargetSegment>,
}

#[derive(Debug)]
pub(super) struct TargetSegment {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) path: PathBuf,
    file: Option<Arc<dyn DataFile>>,
    dirty: bool,
}

impl TargetSegment {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }
}

/// Where a frame's records belong.
#[derive(Debug)]
pub(super) enum Place {
    /// Below the first segment: removed by retention.
    Removed,
    /// In the segment of this number.
    Segment(usize),
    /// Nowhere: the text says why.
    None(String),
}

impl<'a> Target<'a> {
    /// Looks at a partition's directory, which may be missing.
    ///
    /// # Errors
    /// When a segment's name is no offset, or two segments overlap.
    pub(super) fn open(fs: &'a dyn FileSystem, dir: PathBuf) -> Result<Self, StoreError> {
        let unreadable = |source| StoreError::Unreadable { path: dir.clone(), source };
        let files = match fs.kind(&dir).map_err(unreadable)? {
            None => Vec::new(),
            Some(_) => find_segments(fs, &dir)?,
        };
        for pair in files.windows(2) {
            let [first, second] = pair else { continue };
            if first.end() > second.start || first.start == second.start {
                let (first, second) = (first.path.clone(), second.path.clone());
                return Err(StoreError::Discontinuous { first, second });
            }
        }
        let segment = |SegmentFile { start, len, path }| TargetSegment { start, len, path, file: None, dirty: false };
        Ok(Self { fs, dir, segments: files.into_iter().map(segment).collect() })
    }

    pub(super) fn segment(&self, number: usize) -> Option<&TargetSegment> {
        self.segments.get(number)
    }

    /// Offset at which the segment behind this one begins.
    pub(super) fn next_start(&self, number: usize) -> Option<u64> {
        self.segments.get(number + 1).map(|segment| segment.start)
    }

    /// Makes what the system holds of a segment the same as what the disk holds. Nothing happens without a file.
    pub(super) fn settle(&mut self, start: u64) -> Result<(), Failure> {
        let Ok(number) = self.segments.binary_search_by_key(&start, |segment| segment.start) else { return Ok(()) };
        let path = self.segments.get(number).map(|segment| segment.path.clone()).unwrap_or_default();
        let file = self.file(number)?;
        file.sync_data().map_err(|error| sync_failure(&path, error))?;
        file.drop_cached().map_err(|error| failure("drop the cached pages of", &path, error))
    }

    /// Opens the file of a segment, or returns it.
    pub(super) fn file(&mut self, number: usize) -> Result<Arc<dyn DataFile>, Failure> {
        let Some(segment) = self.segments.get_mut(number) else {
            return Err(failure("find the segment in", &self.dir, io::ErrorKind::NotFound.into()));
        };
        if let Some(file) = &segment.file {
            return Ok(Arc::clone(file));
        }
        let opened = self.fs.open(&segment.path, Access::ReadWrite);
        let file = opened.map_err(|error| failure("open the segment", &segment.path, error))?;
        segment.file = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Finds where records belong, and makes the segment if it is the next one that is missing.
    pub(super) fn place(&mut self, segment: u64, offset: u64) -> Result<Place, Failure> {
        let number = match self.segments.binary_search_by_key(&segment, |segment| segment.start) {
            Ok(number) => number,
            Err(0) if !self.segments.is_empty() => return Ok(Place::Removed),
            Err(number) => {
                if let Some(before) = number.checked_sub(1).and_then(|before| self.segments.get(before)) {
                    let (path, end) = (before.path.display(), before.end());
                    if end > segment {
                        let text = format!("segment {segment} does not exist: {path} holds its offsets, up to {end}");
                        return Ok(Place::None(text));
                    }
                    if end < segment {
                        let text =
                            format!("messages are missing between offset {end}, the end of {path}, and {offset}");
                        return Ok(Place::None(text));
                    }
                }
                if offset != segment {
                    let dir = self.dir.display();
                    let text = format!("the segment file in {dir} is missing that begins at offset {segment}");
                    return Ok(Place::None(text));
                }
                self.create(number, segment)?;
                number
            }
        };
        Ok(Place::Segment(number))
    }

    /// Creates a segment; its entry is durable on return, so no successor's ever is without it.
    fn create(&mut self, number: usize, start: u64) -> Result<(), Failure> {
        let dir = self.dir.clone();
        if self.fs.kind(&dir).map_err(|error| failure("look at", &dir, error))?.is_none() {
            self.fs.create_dir(&dir).map_err(|error| failure("create", &dir, error))?;
            self.sync_parent()?;
        }
        let path = dir.join(segment_file_name(start));
        let file = self.fs.create(&path).map_err(|error| failure("create the segment", &path, error))?;
        self.fs.sync_dir(&dir).map_err(|error| sync_failure(&dir, error))?;
        self.segments.insert(number, TargetSegment { start, len: 0, path, file: Some(file), dirty: false });
        Ok(())
    }

    /// Writes into a segment at a position within it or at its end.
    pub(super) fn write(&mut self, number: usize, position: u64, bytes: &[u8]) -> Result<(), Failure> {
        let file = self.file(number)?;
        let Some(segment) = self.segments.get_mut(number) else { return Ok(()) };
        segment.dirty = true;
        let written = write_all_at(&*file, &mut [IoSlice::new(bytes)], position);
        written.map_err(|error| failure("write to the segment", &segment.path, error))?;
        segment.len = segment.len.max(position.saturating_add(bytes.len() as u64));
        Ok(())
    }

    /// Makes durable what was written, and the entries of the partition's files and of its directory.
    pub(super) fn sync(&mut self) -> Result<(), Failure> {
        for segment in &mut self.segments {
            if let Some(file) = segment.file.as_ref().filter(|_| segment.dirty) {
                file.sync_data().map_err(|error| sync_failure(&segment.path, error))?;
                segment.dirty = false;
            }
        }
        if matches!(self.fs.kind(&self.dir), Ok(Some(Kind::Directory))) {
            self.fs.sync_dir(&self.dir).map_err(|error| sync_failure(&self.dir, error))?;
            self.sync_parent()?;
        }
        Ok(())
    }

    fn sync_parent(&self) -> Result<(), Failure> {
        let Some(parent) = self.dir.parent() else { return Ok(()) };
        self.fs.sync_dir(parent).map_err(|error| sync_failure(parent, error))
    }
}
