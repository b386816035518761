//! A file system that fails on request. Faults meet segment files, files of the commit log and the directories of
//! partitions, not the state file of ids.

use std::fs::File;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use rustix::io::Errno;

use super::super::fs::{Access, DataFile, DirIdentity, DirLock, Entry, FileSystem, Kind, OsFileSystem, Stamp};

/// What goes wrong, and what was seen.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// The next sync of a segment fails.
    pub(super) fail_sync: AtomicBool,
    /// The next sync of a file of the commit log fails.
    pub(super) fail_log_sync: AtomicBool,
    /// The next write to a file of the commit log takes some bytes, then the device fails.
    pub(super) fail_log_write: AtomicBool,
    /// The next sync of a directory fails.
    pub(super) fail_dir_sync: AtomicBool,
    /// No directory can be opened to sync it.
    pub(super) no_descriptors: AtomicBool,
    /// No file of the commit log can be opened once more.
    pub(super) fail_log_open: AtomicBool,
    /// The next write of a segment takes some bytes, then the device fails.
    pub(super) fail_write: AtomicBool,
    /// The next cut fails.
    pub(super) fail_cut: AtomicBool,
    /// Every write takes at most this many bytes; 0 is no limit.
    pub(super) short_writes: AtomicUsize,
    /// Bytes left on the disk.
    pub(super) space: Mutex<Option<u64>>,
    /// What free space is told, if not the truth; 0 is the truth.
    pub(super) free_space: AtomicU64,
    /// Syncs of segments, failed ones included.
    pub(super) syncs: AtomicUsize,
    /// Syncs of the commit log, failed ones included.
    pub(super) log_syncs: AtomicUsize,
    /// What was made and synced, in order, each with the name of the file or directory.
    events: Mutex<Vec<String>>,
    /// Syncs of segments, and of the commit log, wait while this is held down.
    held: Mutex<(bool, bool)>,
    released: Condvar,
}

impl Faults {
    /// Holds up syncs of the commit log.
    pub(super) fn hold_log_syncs(&self, hold: bool) {
        self.held.lock().unwrap().1 = hold;
        self.released.notify_all();
    }

    /// Holds up syncs of segments.
    pub(super) fn hold_syncs(&self, hold: bool) {
        self.held.lock().unwrap().0 = hold;
        self.released.notify_all();
    }

    /// What happened since the last call.
    pub(super) fn take_events(&self) -> Vec<String> {
        std::mem::take(&mut self.events.lock().unwrap())
    }

    fn note(&self, event: &str, path: &Path) {
        let name = path.file_name().unwrap().to_str().unwrap();
        self.events.lock().unwrap().push(format!("{event} {name}"));
    }

    fn wait_for_release(&self, is_held: impl Fn(&(bool, bool)) -> bool) {
        let held = self.held.lock().unwrap();
        // A test that failed meanwhile must come to its end.
        drop(self.released.wait_timeout_while(held, super::kit::DEADLINE / 2, |held| is_held(held)).unwrap());
    }
}

/// A directory of this name passes for another file system, which is never full.
pub(super) const OTHER_VOLUME: &str = "other-volume";

fn is_on_other_volume(path: &Path) -> bool {
    path.ancestors().any(|dir| dir.ends_with(OTHER_VOLUME))
}

fn eio() -> io::Error {
    Errno::IO.into()
}

#[derive(Debug, Default, Clone)]
pub(super) struct FaultyFs {
    os: OsFileSystem,
    pub(super) faults: Arc<Faults>,
}

#[derive(Debug)]
struct FaultyFile {
    file: Arc<dyn DataFile>,
    path: PathBuf,
    faults: Arc<Faults>,
}

impl FaultyFile {
    fn is_segment(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "meta")
    }

    fn is_log(&self) -> bool {
        self.path.file_name().is_some_and(|name| name.to_str().unwrap().starts_with("commitlog."))
    }

    fn len(&self) -> u64 {
        self.path.metadata().unwrap().len()
    }

    fn write_at_most(&self, bufs: &[IoSlice<'_>], position: u64, limit: usize) -> io::Result<usize> {
        let all: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        self.file.write_at(&[IoSlice::new(&all[..all.len().min(limit)])], position)
    }
}

impl DataFile for FaultyFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buf, position)
    }

    fn write_at(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        let faults = &self.faults;
        if self.is_log() && faults.fail_log_write.swap(false, Ordering::SeqCst) {
            self.write_at_most(bufs, position, 13)?;
            return Err(eio());
        }
        if !self.is_segment() {
            return self.file.write_at(bufs, position);
        }
        if faults.fail_write.swap(false, Ordering::SeqCst) {
            self.write_at_most(bufs, position, 13)?;
            return Err(eio());
        }
        if let Some(space) = faults.space.lock().unwrap().as_mut().filter(|_| !is_on_other_volume(&self.path)) {
            if *space == 0 {
                return Err(Errno::NOSPC.into());
            }
            let written = self.write_at_most(bufs, position, usize::try_from(*space).unwrap())?;
            *space -= written as u64;
            return Ok(written);
        }
        match faults.short_writes.load(Ordering::SeqCst) {
            0 => self.file.write_at(bufs, position),
            limit => self.write_at_most(bufs, position, limit),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.is_log() {
            self.faults.wait_for_release(|held| held.1);
            self.faults.log_syncs.fetch_add(1, Ordering::SeqCst);
            if self.faults.fail_log_sync.swap(false, Ordering::SeqCst) {
                return Err(eio());
            }
        }
        if self.is_segment() {
            self.faults.wait_for_release(|held| held.0);
            self.faults.syncs.fetch_add(1, Ordering::SeqCst);
            self.faults.note("sync", &self.path);
            if self.faults.fail_sync.swap(false, Ordering::SeqCst) {
                return Err(eio());
            }
        }
        self.file.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.faults.fail_cut.swap(false, Ordering::SeqCst) {
            return Err(eio());
        }
        if let Some(space) = &mut *self.faults.space.lock().unwrap() {
            *space += self.len().saturating_sub(len);
        }
        self.file.set_len(len)
    }

    fn stamp(&self) -> io::Result<Stamp> {
        self.file.stamp()
    }

    fn drop_cached(&self) -> io::Result<()> {
        self.file.drop_cached()
    }

    fn as_file(&self) -> Option<&File> {
        self.file.as_file()
    }
}

impl FaultyFs {
    fn wrap(&self, path: &Path, file: Arc<dyn DataFile>) -> Arc<dyn DataFile> {
        Arc::new(FaultyFile { file, path: path.to_path_buf(), faults: Arc::clone(&self.faults) })
    }
}

impl FileSystem for FaultyFs {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DataFile>> {
        let file = self.wrap(path, self.os.open(path, access)?);
        let is_log = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("commitlog."));
        if is_log && self.faults.fail_log_open.load(Ordering::SeqCst) {
            return Err(Errno::MFILE.into());
        }
        Ok(file)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DataFile>> {
        if *self.faults.space.lock().unwrap() == Some(0) && !is_on_other_volume(path) {
            return Err(Errno::NOSPC.into());
        }
        self.faults.note("create", path);
        Ok(self.wrap(path, self.os.create(path)?))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.os.list(dir)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.os.kind(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.faults.note("make", path);
        self.os.create_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        if !path.ends_with("transactions") && self.faults.fail_dir_sync.swap(false, Ordering::SeqCst) {
            return Err(eio());
        }
        if self.faults.no_descriptors.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error()));
        }
        self.faults.note("sync", path);
        self.os.sync_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.os.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.os.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.os.remove_dir(path)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        match self.faults.free_space.load(Ordering::SeqCst) {
            0 => self.os.free_space(path),
            pretended => Ok(pretended),
        }
    }

    fn identity(&self, dir: &Path) -> io::Result<DirIdentity> {
        let identity = self.os.identity(dir)?;
        // A file system of its own.
        let device = identity.0 + u64::from(dir.ends_with(OTHER_VOLUME));
        Ok(DirIdentity(device, identity.1))
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<Option<Box<dyn DirLock>>> {
        self.os.lock_dir(dir)
    }
}
