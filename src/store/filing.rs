//! From the tail to the segment files, and what is durable there (08 §3–4).

use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use bytes::Bytes;

use super::commit_log::table::Checkpoint;
use super::error::AppendError;
use super::fs::{is_device_error, is_full, is_out_of_resources, write_all_at};
use super::partition::{Entries, PartitionLog};
use super::segment::Segment;
use crate::common::guard::lock;

impl PartitionLog {
    /// Takes records that have their offsets into the tail; `true` if the caller has to file it.
    pub(super) fn add_to_tail(self: &Arc<Self>, records: &[u8]) -> bool {
        let mut tail = lock(&self.tail);
        let before = tail.len();
        if tail.capacity() == 0 {
            *tail = self.shared.tails.take_buffer();
        }
        tail.extend_from_slice(records);
        let after = tail.len();
        // Only the holder of the round moves it.
        let written = self.written.load(Ordering::Relaxed);
        self.written.store(written + records.len() as u64, Ordering::Release);
        drop(tail);
        self.shared.tails.grew(self, before, after)
    }

    /// Writes the tail to the last segment.
    ///
    /// # Errors
    /// When the disk is full or failed. The tail stays in memory then, and readers are served from it.
    pub(super) fn file_tail(&self) -> Result<(), AppendError> {
        let filing = lock(&self.filing);
        self.file_tail_holding(&filing)
    }

    /// The same for a holder of `filing`.
    pub(super) fn file_tail_holding(&self, _filing: &MutexGuard<'_, ()>) -> Result<(), AppendError> {
        if self.is_poisoned_itself() {
            // Space is not what it waits for any more: the others must not be refused for its sake.
            self.note_tail_failed(false);
            return if lock(&self.tail).is_empty() { Ok(()) } else { Err(self.poison_error()) };
        }
        // Swapped out: no put waits while it is written.
        let bytes = std::mem::take(&mut *lock(&self.tail));
        if bytes.is_empty() {
            return Ok(());
        }
        match self.write_to_last_segment(&mut [IoSlice::new(&bytes)], bytes.len() as u64) {
            Ok(()) => {
                self.note_full(false);
                self.note_tail_failed(false);
                self.shared.tails.written(bytes);
                Ok(())
            }
            Err(error) => {
                let mut tail = lock(&self.tail);
                let newer = std::mem::replace(&mut *tail, bytes);
                tail.extend_from_slice(&newer);
                drop(tail);
                self.note_tail_failed(!self.is_poisoned_itself());
                Err(error)
            }
        }
    }

    /// Appends to the last segment file; a failed write is taken back.
    pub(super) fn write_to_last_segment(&self, slices: &mut [IoSlice<'_>], len: u64) -> Result<(), AppendError> {
        let filed = self.filed.load(Ordering::Acquire);
        // A tail exists only behind a first segment, and never across two.
        let segments = self.segment_list();
        let Some(segment) = segments.last() else { return Err(self.poison_with("it has no segment to write to")) };
        let position = filed - segment.start_position();
        if let Err(error) = write_all_at(segment.file(), slices, position) {
            return Err(self.undo_write(segment, position, error));
        }
        self.filed.store(filed + len, Ordering::Release);
        Ok(())
    }

    /// Bytes from `start` to `end` that are still in the tail, for a holder of `filing`.
    pub(super) fn tail_bytes(&self, start: u64, end: u64, _filing: &MutexGuard<'_, ()>) -> Option<Bytes> {
        let filed = self.filed.load(Ordering::Acquire);
        let tail = lock(&self.tail);
        let from = usize::try_from(start.checked_sub(filed)?).ok()?;
        let to = usize::try_from(end.checked_sub(filed)?).ok()?;
        Some(Bytes::copy_from_slice(tail.get(from..to)?))
    }

    /// Makes everything written so far durable in the segment files, entries included.
    ///
    /// # Errors
    /// When the disk is full, or the partition is or becomes poisoned.
    pub(super) fn make_checkpoint(&self) -> Result<(), AppendError> {
        let mut entries = lock(&self.sync);
        if entries.discarded {
            return Ok(());
        }
        if self.is_poisoned_itself() {
            return Err(self.poison_error());
        }
        self.file_tail()?;
        let end = self.filed.load(Ordering::Acquire);
        let from = self.checkpointed.load(Ordering::Acquire);
        if end > from {
            for segment in self.segments_from(from) {
                let start = Instant::now();
                let synced = segment.file().sync_data();
                self.shared.times.segment_sync.record(start.elapsed());
                if let Err(error) = synced {
                    let path = segment.path().display();
                    return Err(self.poison_with(&format!("sync of {path} failed: {error}")));
                }
            }
        }
        self.sync_entries(&mut entries)?;
        self.checkpointed.fetch_max(end, Ordering::AcqRel);
        let last = self.segment_list().last().cloned();
        // Without a stamp the segment is scanned at the next start, nothing else.
        *lock(&self.checkpoint) = last.and_then(|last| {
            let stamp = last.file().stamp().ok()?;
            let is_whole = last.start_position() + stamp.len == end;
            is_whole.then(|| Checkpoint {
                topic: self.topic().clone(),
                partition: self.index(),
                segment: last.start_position(),
                stamp,
            })
        });
        Ok(())
    }

    /// The segments that hold what lies behind a position, or begin there.
    fn segments_from(&self, position: u64) -> Vec<Arc<Segment>> {
        let segments = self.segments();
        let first = segments.partition_point(|segment| segment.start_position() <= position).saturating_sub(1);
        segments.into_iter().skip(first).collect()
    }

    /// Makes the directory entries of all segments durable.
    pub(super) fn sync_entries(&self, entries: &mut Entries) -> Result<(), AppendError> {
        let Some(last) = self.segment_list().last().map(|last| last.start_position()) else { return Ok(()) };
        if !entries.directory {
            if let Some(parent) = self.dir().parent() {
                self.sync_dir(parent)?;
            }
            entries.directory = true;
        }
        if entries.unsettled_removal || entries.segments_up_to.is_none_or(|up_to| up_to < last) {
            self.sync_dir(self.dir())?;
            entries.segments_up_to = Some(last);
            entries.unsettled_removal = false;
        }
        Ok(())
    }

    pub(super) fn sync_dir(&self, dir: &Path) -> Result<(), AppendError> {
        self.shared.fs.sync_dir(dir).map_err(|error| {
            if is_out_of_resources(&error) {
                return self.io_error("open the directory", dir, error);
            }
            self.poison_with(&format!("sync of the directory {} failed: {error}", dir.display()))
        })
    }

    /// Takes a failed write back, so that bytes of it never shift later offsets.
    pub(super) fn undo_write(&self, segment: &Segment, position: u64, error: io::Error) -> AppendError {
        let path = segment.path();
        if let Err(undo) = segment.file().set_len(position) {
            let path = path.display();
            return self.poison_with(&format!("write to {path} failed ({error}) and could not be undone: {undo}"));
        }
        self.io_error("write to", path, error)
    }

    pub(super) fn io_error(&self, action: &'static str, path: &Path, error: io::Error) -> AppendError {
        if is_full(&error) {
            self.note_full(true);
            AppendError::NoSpace(path.to_path_buf())
        } else if is_device_error(&error) {
            self.poison_with(&format!("could not {action} {}: {error}", path.display()))
        } else {
            AppendError::Io { action, path: path.to_path_buf(), source: Arc::new(error) }
        }
    }
}
