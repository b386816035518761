//! Appending to a partition: writing, rolling, and undoing what failed (02 §6–8, §16).

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::warn;

use super::error::AppendError;
use super::format::{FileName, parse_file_name, segment_file_name};
use super::fs::{Kind, is_device_error, is_full, is_out_of_resources};
use super::gather::{Gather, Outgoing};
use super::guard::lock;
use super::partition::{PartitionLog, offset};
use super::segment::Segment;
use crate::id::Offset;

impl PartitionLog {
    /// Appends records in their order and reports each one's offset by its number. After a failure none that follows
    /// is written. What is reported as written is not yet durable.
    pub(super) fn append(
        &self,
        records: &[Outgoing<'_>],
        gather: &mut Gather,
        report: &mut dyn FnMut(usize, Result<Offset, AppendError>),
    ) {
        let _writer = lock(&self.append);
        let mut done = 0;
        while done < records.len() {
            match self.append_chunk(&records[done..], gather) {
                Ok((count, mut start)) => {
                    for (i, record) in records.iter().enumerate().skip(done).take(count) {
                        report(i, Ok(offset(start)));
                        start += record.record_len();
                    }
                    done += count;
                }
                Err(error) => {
                    (done..records.len()).for_each(|i| report(i, Err(error.clone())));
                    return;
                }
            }
        }
    }

    /// Writes the first records, as many as fit one write and the segment: their number and the offset of the first.
    fn append_chunk(&self, records: &[Outgoing<'_>], gather: &mut Gather) -> Result<(usize, u64), AppendError> {
        let segment = self.writable_segment()?;
        let start = self.written.load(Ordering::Acquire);
        let segment_full = |end: u64| end - segment.start_position() >= self.shared.max_segment_size;
        let (mut count, mut end) = (0, start);
        gather.clear();
        for record in records {
            let Some(next) = end.checked_add(record.record_len()).filter(|&next| i64::try_from(next).is_ok()) else {
                break;
            };
            gather.push(record);
            (count, end) = (count + 1, next);
            if segment_full(end) || gather.is_full() {
                break;
            }
        }
        if count == 0 {
            return Err(AppendError::OffsetsExhausted(Arc::clone(self.name())));
        }
        let position = start - segment.start_position();
        if let Err(error) = gather.write(records, segment.file(), position) {
            return Err(self.undo_write(&segment, position, error));
        }
        self.note_full(false);
        self.messages.fetch_add(count as u64, Ordering::Relaxed);
        self.unflushed.fetch_add(count as u64, Ordering::Relaxed);
        self.written.store(end, Ordering::Release);
        if segment_full(end)
            && let Err(error) = self.roll()
            && self.poison().is_none()
        {
            // These records are stored; the next append tries again and answers with what still stands in the way.
            warn!(partition = %self.name(), %error, "could not begin a new segment");
        }
        Ok((count, start))
    }

    /// The segment that the next record goes to: makes the first one, or the one that a full disk prevented.
    fn writable_segment(&self) -> Result<Arc<Segment>, AppendError> {
        if self.poison().is_some() {
            return Err(self.poison_error());
        }
        let written = self.written.load(Ordering::Acquire);
        let last = self.segment_list().last().cloned();
        match last {
            None => {
                self.make_directory()?;
                self.begin_segment(written)
            }
            Some(last) if written - last.start_position() >= self.shared.max_segment_size => self.roll(),
            Some(last) => Ok(last),
        }
    }

    /// Syncs the last segment and begins the next one behind it (02 §8).
    fn roll(&self) -> Result<Arc<Segment>, AppendError> {
        self.sync()?;
        self.begin_segment(self.written.load(Ordering::Acquire))
    }

    /// Creates an empty segment whose directory entry is durable, and publishes it.
    fn begin_segment(&self, start: u64) -> Result<Arc<Segment>, AppendError> {
        let path = self.dir().join(segment_file_name(start));
        let fs = &self.shared.fs;
        let file = fs.create(&path).map_err(|error| self.io_error("create the segment", &path, error))?;
        if let Err(error) = self.sync_entries(self.dir()) {
            // Unless it is poisoned, the next append begins the segment anew.
            if self.poison().is_none()
                && let Err(removal) = fs.remove_file(&path)
            {
                return Err(self.poison_with(&format!("{} could not be taken back: {removal}", path.display())));
            }
            return Err(error);
        }
        let segment = Arc::new(Segment::new(start, path, file));
        self.segments.store(Arc::new(self.segment_list().with(Arc::clone(&segment))));
        Ok(segment)
    }

    /// Makes the partition's directory, durably. An empty one that is there already is taken.
    fn make_directory(&self) -> Result<(), AppendError> {
        let (fs, dir) = (&self.shared.fs, self.dir());
        match fs.kind(dir).map_err(|error| self.io_error("look at", dir, error))? {
            None => fs.create_dir(dir).map_err(|error| match self.io_error("create", dir, error) {
                AppendError::Io { path, source, .. } => AppendError::CreateDirectory { path, source },
                full_or_poisoned => full_or_poisoned,
            })?,
            Some(Kind::Directory) => {
                let entries = fs.list(dir).map_err(|error| self.io_error("list", dir, error))?;
                let is_segment = |name: &str| parse_file_name(name) != FileName::Foreign;
                if entries.iter().any(|entry| is_segment(&entry.name.to_string_lossy())) {
                    return Err(AppendError::ForeignSegments(dir.to_path_buf()));
                }
            }
            Some(_) => return Err(AppendError::NotADirectory(dir.to_path_buf())),
        }
        dir.parent().map_or(Ok(()), |parent| self.sync_entries(parent))
    }

    fn sync_entries(&self, dir: &Path) -> Result<(), AppendError> {
        self.shared.fs.sync_dir(dir).map_err(|error| {
            if is_out_of_resources(&error) {
                return self.io_error("open the directory", dir, error);
            }
            self.poison_with(&format!("sync of the directory {} failed: {error}", dir.display()))
        })
    }

    /// Takes a failed write back, so that bytes of it never shift later offsets.
    fn undo_write(&self, segment: &Segment, position: u64, error: io::Error) -> AppendError {
        let path = segment.path();
        if let Err(undo) = segment.file().set_len(position) {
            let path = path.display();
            return self.poison_with(&format!("write to {path} failed ({error}) and could not be undone: {undo}"));
        }
        self.io_error("write to", path, error)
    }

    fn io_error(&self, action: &'static str, path: &Path, error: io::Error) -> AppendError {
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
