//! One segment file and the immutable list of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::fs::DataFile;
use crate::id::Offset;

/// An open segment file. It stays readable for whoever holds it, also after it was removed from the disk.
#[derive(Debug)]
pub struct Segment {
    start: u64,
    path: PathBuf,
    file: Arc<dyn DataFile>,
}

impl Segment {
    pub(super) fn new(start: u64, path: PathBuf, file: Arc<dyn DataFile>) -> Self {
        Self { start, path, file }
    }

    /// Offset of its first byte.
    pub fn start(&self) -> Offset {
        Offset::new(self.start.cast_signed())
    }

    pub(super) fn start_position(&self) -> u64 {
        self.start
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file.
    pub fn file(&self) -> &dyn DataFile {
        &*self.file
    }
}

/// The segments of a partition in ascending order, without gaps. Never changed: a roll or a removal makes a new list.
#[derive(Debug, Default)]
pub(super) struct SegmentList(Vec<Arc<Segment>>);

impl SegmentList {
    /// Takes segments that are already in order.
    pub(super) fn new(segments: Vec<Arc<Segment>>) -> Self {
        debug_assert!(segments.is_sorted_by_key(|segment| segment.start));
        Self(segments)
    }

    /// The list with one more segment at its end.
    pub(super) fn with(&self, segment: Arc<Segment>) -> Self {
        Self::new(self.0.iter().cloned().chain([segment]).collect())
    }

    /// The list without its oldest segment.
    pub(super) fn without_first(&self) -> Self {
        Self(self.0.iter().skip(1).cloned().collect())
    }

    pub(super) fn first(&self) -> Option<&Arc<Segment>> {
        self.0.first()
    }

    pub(super) fn last(&self) -> Option<&Arc<Segment>> {
        self.0.last()
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Segment>> {
        self.0.iter()
    }

    /// The segment that holds an offset and where it ends; the last one has no end of its own.
    pub(super) fn containing(&self, offset: u64) -> Option<(&Arc<Segment>, Option<u64>)> {
        let after = self.0.partition_point(|segment| segment.start <= offset);
        let segment = self.0.get(after.checked_sub(1)?)?;
        Some((segment, self.0.get(after).map(|next| next.start)))
    }
}
