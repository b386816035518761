//! Taking segments out of a partition, the oldest first, and removing a whole partition by command (08 §4).

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::Ordering;

use tracing::{debug, warn};

use super::error::{AppendError, StoreError};
use super::partition::{Entries, PartitionLog};
use super::segment::Segment;
use crate::common::guard::lock;

impl PartitionLog {
    /// Removes segments from the oldest on while `is_due` says so, never the last one and none that ends behind
    /// `limit`; returns how many.
    ///
    /// A crash at any time leaves segments without gaps: the entry of the next segment is durable before one is removed,
    /// and the removal before the next one is.
    pub(super) fn remove_oldest(
        &self,
        limit: u64,
        is_due: &mut dyn FnMut(&Segment) -> bool,
    ) -> Result<usize, StoreError> {
        self.take_out_oldest(limit, is_due, &|segment| remove_file(self, segment.path()))
    }

    /// The same, but they are renamed.
    pub(super) fn archive_oldest(
        &self,
        limit: u64,
        is_due: &mut dyn FnMut(&Segment) -> bool,
    ) -> Result<usize, StoreError> {
        self.take_out_oldest(limit, is_due, &|segment| self.rename_to_archive(segment))
    }

    fn take_out_oldest(
        &self,
        limit: u64,
        is_due: &mut dyn FnMut(&Segment) -> bool,
        take_out: &dyn Fn(&Segment) -> Result<(), StoreError>,
    ) -> Result<usize, StoreError> {
        let mut entries = lock(&self.sync);
        let mut removed = 0;
        loop {
            self.settle_removal(&mut entries)?;
            let segments = self.segments();
            let [oldest, next, ..] = &segments[..] else { return Ok(removed) };
            if next.start_position() > limit || !is_due(oldest) {
                return Ok(removed);
            }
            if entries.segments_up_to.is_none_or(|up_to| up_to < next.start_position()) {
                if self.is_poisoned_itself() {
                    return Ok(removed);
                }
                self.sync_entries(&mut entries).map_err(|source| self.not_removed(source))?;
            }
            self.remove_unfinished_archive(oldest)?;
            take_out(oldest)?;
            entries.unsettled_removal = true;
            {
                let _filing = lock(&self.filing);
                self.segments.store(self.segment_list().without_first().into());
            }
            removed += 1;
        }
    }

    /// Makes the last removal durable.
    fn settle_removal(&self, entries: &mut Entries) -> Result<(), StoreError> {
        if entries.unsettled_removal {
            sync_dir(self, self.dir())?;
            entries.unsettled_removal = false;
        }
        Ok(())
    }

    /// Removes what is left of a partition whose frames are void: its tail, its segments, its directory.
    pub(super) fn discard(&self) -> Result<(), StoreError> {
        let mut entries = lock(&self.sync);
        entries.discarded = true;
        {
            let _filing = lock(&self.filing);
            let tail = std::mem::take(&mut *lock(&self.tail));
            self.shared.tails.dropped(tail.len());
            self.note_tail_failed(false);
            self.note_full(false);
        }
        self.settle_removal(&mut entries)?;
        for segment in self.segments() {
            remove_file(self, segment.path())?;
            sync_dir(self, self.dir())?;
        }
        let dir = self.dir();
        match self.shared.fs.remove_dir(dir) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                // Archived segments, for one.
                warn!(dir = %dir.display(), %error, "the directory of a deleted partition stays: remove what is left in it");
                return Ok(());
            }
        }
        match dir.parent() {
            Some(parent) => sync_dir(self, parent),
            None => Ok(()),
        }
    }

    /// Takes no more messages from now on. The caller holds the round.
    pub(super) fn mark_deleted(&self, deleted: bool) {
        self.deleted.store(deleted, Ordering::Relaxed);
    }

    pub(super) fn not_removed(&self, source: AppendError) -> StoreError {
        StoreError::NotRemoved { partition: self.name().clone(), source }
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_path_buf();
    move |source| StoreError::Io { action, path, source }
}

fn remove_file(partition: &PartitionLog, path: &Path) -> Result<(), StoreError> {
    match partition.shared.fs.remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("remove the segment", path)(error)),
        _ => {
            debug!(path = %path.display(), "segment removed");
            Ok(())
        }
    }
}

fn sync_dir(partition: &PartitionLog, dir: &Path) -> Result<(), StoreError> {
    partition.shared.fs.sync_dir(dir).map_err(failed("sync the directory", dir))
}
