//! Archiving expired segments: renaming them, or putting a ZIP archive in their place (02 §13, 08 §4).
//!
//! A crash at any time leaves the segment, or a complete archive, or both; both are one again after the next run.

use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tracing::{debug, warn};

use super::error::StoreError;
use super::fs::{Access, DataFile, FileSystem, is_full, read_exact_at};
use super::partition::PartitionLog;
use super::segment::Segment;
use super::zip::{ZipEntry, ZipError};

/// What the name of a renamed segment ends in.
const RENAMED: &str = "arc";

/// What the name of a compressed segment ends in.
const COMPRESSED: &str = "zip";

/// What the name of an archive ends in that is not complete.
const UNFINISHED: &str = "zip.tmp";

/// Bytes of an archive after which it is synced: few wait for the disk at any time, so that syncs of puts never wait
/// for many.
const SYNC_BYTES: u64 = 8 << 20;

/// After a sync the disk is left to the puts for so many times as long as it took,
const REST_FACTOR: u32 = 2;

/// but no longer than this.
const MAX_REST: Duration = Duration::from_millis(500);

/// Bytes that are compared at a time.
const COMPARE_BYTES: usize = 256 << 10;

/// Archives of one name that may lie beside each other.
const MAX_NAMESAKES: u32 = 1000;

impl PartitionLog {
    /// Has everything up to `end` durable in the segments themselves: an archive must not hold what only the commit log
    /// vouches for.
    pub(super) fn settle_content(&self, end: u64) -> Result<(), StoreError> {
        if self.checkpointed.load(Ordering::Acquire) >= end {
            return Ok(());
        }
        self.make_checkpoint().map_err(|source| self.not_removed(source))
    }

    /// Makes a durable archive of a segment, which stays. Returns the bytes of the archive; `None` if `stop` says so
    /// before it is complete.
    pub(super) fn compress(&self, segment: &Segment, stop: &dyn Fn() -> bool) -> Result<Option<u64>, StoreError> {
        self.remove_unfinished_archive(segment)?;
        let unfinished = named(segment.path(), UNFINISHED);
        let written = self.write_archive(segment, &unfinished, stop).and_then(|archive| match archive {
            Some(len) => self.keep_archive(segment, &unfinished, len).map(|()| Some(len)),
            None => Ok(None),
        });
        if !matches!(written, Ok(Some(_))) {
            // If that fails as well, the next run does it.
            let _stays = self.remove_unfinished_archive(segment);
        }
        written
    }

    /// Removes what an interrupted run left of an archive.
    pub(super) fn remove_unfinished_archive(&self, segment: &Segment) -> Result<(), StoreError> {
        let path = named(segment.path(), UNFINISHED);
        match self.shared.fs.remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(failed("remove", &path, source)),
            _ => Ok(()),
        }
    }

    fn write_archive(
        &self,
        segment: &Segment,
        path: &Path,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<u64>, StoreError> {
        let fs = &*self.shared.fs;
        let entry = entry(segment)?;
        let write_failed = |source| failed("write the archive", path, source);
        let archive = fs.create(path).map_err(write_failed)?;
        let mut synced = 0;
        let mut pace = |written: u64| {
            if stop() {
                return Err(ZipError::Stopped);
            }
            if written - synced >= SYNC_BYTES {
                let started = Instant::now();
                archive.sync_data().map_err(ZipError::Write)?;
                synced = written;
                std::thread::sleep((started.elapsed() * REST_FACTOR).min(MAX_REST));
            }
            Ok(())
        };
        match entry.write(&*archive, &mut pace) {
            Ok(len) => {
                archive.sync_data().map_err(write_failed)?;
                // Nobody reads it soon, and readers need the memory for segments.
                let _stays_cached = archive.drop_cached();
                Ok(Some(len))
            }
            Err(ZipError::Stopped) => Ok(None),
            Err(ZipError::Read(source)) => Err(failed("read", segment.path(), source)),
            Err(ZipError::Write(source)) => Err(write_failed(source)),
        }
    }

    /// Gives a complete archive its name. One of the same content stays in its place: a crash left it beside its segment,
    /// or an operator took the segment out of it. One of other content is left alone, and ours gets a number.
    fn keep_archive(&self, segment: &Segment, unfinished: &Path, len: u64) -> Result<(), StoreError> {
        let fs = &*self.shared.fs;
        let times = entry(segment)?.times(len);
        for path in namesakes(segment.path(), COMPRESSED) {
            let keep_failed = |source| failed("keep the archive as", &path, source);
            match fs.kind(&path).map_err(keep_failed)? {
                None => fs.rename(unfinished, &path).map_err(keep_failed)?,
                Some(_) if is_same_but_for(&times, fs, unfinished, &path).map_err(keep_failed)? => {
                    fs.open(&path, Access::ReadWrite).and_then(|kept| kept.sync_data()).map_err(keep_failed)?;
                    fs.remove_file(unfinished).map_err(keep_failed)?;
                }
                Some(_) => continue,
            }
            fs.sync_dir(self.dir()).map_err(|source| failed("sync the directory", self.dir(), source))?;
            debug!(path = %path.display(), "segment compressed");
            return Ok(());
        }
        Err(StoreError::TooManyArchives(segment.path().to_path_buf()))
    }

    /// Renames a segment so that nobody takes it for one any more.
    pub(super) fn rename_to_archive(&self, segment: &Segment) -> Result<(), StoreError> {
        let fs = &*self.shared.fs;
        for path in namesakes(segment.path(), RENAMED) {
            let rename_failed = |source| failed("rename the segment to", &path, source);
            if fs.kind(&path).map_err(rename_failed)?.is_some() {
                continue;
            }
            return match fs.rename(segment.path(), &path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    warn!(path = %segment.path().display(), "an expired segment is gone: nothing is archived");
                    Ok(())
                }
                renamed => {
                    debug!(path = %path.display(), "segment archived");
                    renamed.map_err(rename_failed)
                }
            };
        }
        Err(StoreError::TooManyArchives(segment.path().to_path_buf()))
    }
}

fn failed(action: &'static str, path: &Path, source: std::io::Error) -> StoreError {
    if is_full(&source) {
        return StoreError::NoSpaceForArchive(path.to_path_buf());
    }
    StoreError::Io { action, path: path.to_path_buf(), source }
}

fn named(segment: &Path, suffix: &str) -> PathBuf {
    let mut name = segment.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// `<segment>.zip`, then `<segment>.1.zip` and so on: a partition that was deleted and made anew comes to the same names.
fn namesakes(segment: &Path, suffix: &str) -> impl Iterator<Item = PathBuf> {
    let numbered = (1..MAX_NAMESAKES).map(move |number| named(segment, &format!("{number}.{suffix}")));
    std::iter::once(named(segment, suffix)).chain(numbered)
}

/// What goes into the archive of a segment.
fn entry(segment: &Segment) -> Result<ZipEntry<'_>, StoreError> {
    let stamp = segment.file().stamp().map_err(|source| failed("look at", segment.path(), source))?;
    let name = segment.path().file_name().unwrap_or_default().to_string_lossy();
    Ok(ZipEntry { name, modified_ns: stamp.modified_ns, source: segment.file(), len: stamp.len })
}

/// Whether two files have the same bytes, those of some places left out.
fn is_same_but_for(places: &[Range<u64>], fs: &dyn FileSystem, a: &Path, b: &Path) -> std::io::Result<bool> {
    let [a, b] = [fs.open(a, Access::Read)?, fs.open(b, Access::Read)?];
    let len = a.stamp()?.len;
    if b.stamp()?.len != len {
        return Ok(false);
    }
    let mut buffers = [vec![0; COMPARE_BYTES], vec![0; COMPARE_BYTES]];
    let mut position = 0;
    while position < len {
        let count = usize::try_from(len - position).unwrap_or(usize::MAX).min(COMPARE_BYTES);
        let [left, right] = buffers.each_mut().map(|buffer| buffer.get_mut(..count).unwrap_or_default());
        read_exact_at(&*a as &dyn DataFile, left, position)?;
        read_exact_at(&*b as &dyn DataFile, right, position)?;
        for bytes in [&mut *left, &mut *right] {
            places.iter().for_each(|place| clear(bytes, position, place));
        }
        if left != right {
            return Ok(false);
        }
        position += count as u64;
    }
    Ok(true)
}

/// Clears what lies in the place, of bytes that begin at a position.
fn clear(bytes: &mut [u8], position: u64, place: &Range<u64>) {
    let within = |at: u64| usize::try_from(at.saturating_sub(position)).unwrap_or(usize::MAX).min(bytes.len());
    let (start, end) = (within(place.start), within(place.end));
    if let Some(bytes) = bytes.get_mut(start..end) {
        bytes.fill(0);
    }
}
