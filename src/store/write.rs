//! Where the next record of a partition goes: its directory, its segments, and rolling (02 §6–8, 08 §3–4).

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::append::LargeBody;
use super::error::AppendError;
use super::format::{FileName, parse_file_name, segment_file_name};
use super::fs::Kind;
use super::partition::{NO_SEGMENT, PartitionLog};
use super::segment::Segment;
use crate::common::guard::lock;
use crate::id::MessageId;
use crate::message::{HEADER_LEN, RecordHeader};

impl PartitionLog {
    /// Whether it takes messages at all, now.
    pub(super) fn admit(&self) -> Result<(), AppendError> {
        if self.deleted.load(Ordering::Relaxed) {
            return Err(AppendError::Deleted(Arc::clone(self.name())));
        }
        if self.poison().is_some() {
            return Err(self.poison_error());
        }
        if self.volume.is_full() {
            // There may be space again. One that failed at a roll or a get is not known to the others yet.
            if self.tail_failed()
                && let Err(error) = self.file_tail()
                && !matches!(error, AppendError::NoSpace(_))
            {
                return Err(error);
            }
            self.shared.tails.retry_failed();
            if self.volume.is_full() {
                return Err(AppendError::NoSpace(self.dir().to_path_buf()));
            }
        }
        Ok(())
    }

    /// Whether so many bytes can be appended without anything to be done for it on a disk but writing.
    pub(super) fn is_ready_for(&self, bytes: usize) -> bool {
        let start = self.last_segment.load(Ordering::Relaxed);
        let used = self.written.load(Ordering::Relaxed).wrapping_sub(start);
        start != NO_SEGMENT
            && used.saturating_add(bytes as u64) < self.shared.max_segment_size
            && !self.volume.is_full()
    }

    /// Whether its last segment is full.
    pub(super) fn is_about_to_roll(&self) -> bool {
        let last = self.last_segment.load(Ordering::Relaxed);
        last != NO_SEGMENT && self.room_in_segment(last) == 0
    }

    /// The start of the segment that the next record goes to: makes the first one, or the successor of a full one.
    pub(super) fn segment_for_next(&self) -> Result<u64, AppendError> {
        let written = self.written.load(Ordering::Acquire);
        match Some(self.last_segment.load(Ordering::Relaxed)).filter(|&start| start != NO_SEGMENT) {
            None => {
                self.make_directory()?;
                self.begin_segment(written)
            }
            Some(_) if self.is_about_to_roll() => self.roll(),
            Some(last) => Ok(last),
        }
    }

    /// Bytes that fit the segment before it is full.
    pub(super) fn room_in_segment(&self, segment: u64) -> u64 {
        let used = self.written.load(Ordering::Acquire).saturating_sub(segment);
        self.shared.max_segment_size.saturating_sub(used)
    }

    /// Fills the last segment up to what has an offset and begins the next one behind it (02 §8).
    fn roll(&self) -> Result<u64, AppendError> {
        // Its entry is durable before the next one exists: a missing segment below another was removed on purpose.
        self.sync_entries(&mut lock(&self.sync))?;
        let filing = lock(&self.filing);
        self.file_tail_holding(&filing)?;
        let start = self.begin_segment(self.written.load(Ordering::Acquire))?;
        drop(filing);
        Ok(start)
    }

    /// Creates an empty segment and publishes it. Its entry becomes durable with the next checkpoint.
    fn begin_segment(&self, start: u64) -> Result<u64, AppendError> {
        let path = self.dir().join(segment_file_name(start));
        let file = self.shared.fs.create(&path).map_err(|error| self.io_error("create the segment", &path, error))?;
        let segment = Arc::new(Segment::new(start, path, file));
        self.segments.store(Arc::new(self.segment_list().with(segment)));
        self.last_segment.store(start, Ordering::Relaxed);
        self.note_full(false);
        Ok(start)
    }

    /// Makes the partition's directory. An empty one that is there already is taken.
    fn make_directory(&self) -> Result<(), AppendError> {
        let (fs, dir) = (&self.shared.fs, self.dir());
        match fs.kind(dir).map_err(|error| self.io_error("look at", dir, error))? {
            None => fs.create_dir(dir).map_err(|error| match self.io_error("create", dir, error) {
                AppendError::Io { path, source, .. } => AppendError::CreateDirectory { path, source },
                full_or_poisoned => full_or_poisoned,
            }),
            Some(Kind::Directory) => {
                let entries = fs.list(dir).map_err(|error| self.io_error("list", dir, error))?;
                let is_segment = |name: &str| parse_file_name(name) != FileName::Foreign;
                if entries.iter().any(|entry| is_segment(&entry.name.to_string_lossy())) {
                    return Err(AppendError::ForeignSegments(dir.to_path_buf()));
                }
                // Segments of a deleted partition may have gone from it, and not durably: beside them the first segment
                // would look like one that was removed.
                self.sync_dir(dir)
            }
            Some(_) => Err(AppendError::NotADirectory(dir.to_path_buf())),
        }
    }

    /// Writes a large record straight to its segment and makes it durable there, with everything before it (08 §3).
    ///
    /// # Errors
    /// When the disk is full or failed; the next record gets the same offset, unless the partition is poisoned.
    pub(super) fn write_large(&self, id: MessageId, large: &LargeBody) -> Result<(), AppendError> {
        let LargeBody { flag, checksum, body } = large;
        let length = i32::try_from(body.len()).map_err(|_| AppendError::BodyTooLong(body.len()))?;
        let mut header = Vec::with_capacity(HEADER_LEN);
        RecordHeader { length, checksum: *checksum, id, flag: *flag }.encode(&mut header);
        let len = (header.len() + body.len()) as u64;
        {
            let filing = lock(&self.filing);
            self.file_tail_holding(&filing)?;
            self.write_to_last_segment(&mut [IoSlice::new(&header), IoSlice::new(body)], len)?;
            self.written.fetch_add(len, Ordering::AcqRel);
        }
        self.make_checkpoint().inspect_err(|_| self.take_back(len))?;
        self.mark_visible(self.written.load(Ordering::Acquire));
        Ok(())
    }

    /// Takes the last bytes back, which are in the segment but nowhere visible.
    fn take_back(&self, len: u64) {
        // A checkpoint of somebody else may have succeeded meanwhile: what comes in this place is not durable by it.
        let _sync = lock(&self.sync);
        let _filing = lock(&self.filing);
        self.written.fetch_sub(len, Ordering::AcqRel);
        let filed = self.filed.fetch_sub(len, Ordering::AcqRel) - len;
        self.checkpointed.fetch_min(filed, Ordering::AcqRel);
        *lock(&self.checkpoint) = None;
        let segments = self.segment_list();
        let Some(last) = segments.last() else { return };
        // Durably: they might come to light in the place of the next message.
        let cut = last.file().set_len(filed.saturating_sub(last.start_position()));
        let cut = if self.is_poisoned_itself() { cut } else { cut.and_then(|()| last.file().sync_data()) };
        if let Err(error) = cut {
            self.poison_with(&format!("{} could not be cut back: {error}", last.path().display()));
        }
    }
}
