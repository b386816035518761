//! A file system that stops: after a number of changes every further one fails, as if the process had been killed. And
//! one whose chosen files fail to sync.

use std::fs::File;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;

use super::super::fs::{Access, DataFile, DirIdentity, DirLock, Entry, FileSystem, Kind, OsFileSystem, Stamp};

/// What stops and fails.
#[derive(Debug, Default)]
pub(super) struct Stops {
    /// Changes that still succeed; all of them if `None`.
    pub(super) left: Mutex<Option<usize>>,
    /// Changes so far.
    pub(super) changes: AtomicUsize,
    /// Files and directories whose path ends like this fail to sync.
    pub(super) no_sync: Mutex<Option<String>>,
    /// Files whose path ends like this find the disk full.
    pub(super) no_space: Mutex<Option<String>>,
}

impl Stops {
    fn change(&self) -> io::Result<()> {
        self.changes.fetch_add(1, Ordering::SeqCst);
        match &mut *self.left.lock().unwrap() {
            None => Ok(()),
            Some(0) => Err(io::Error::other("stopped")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.change()?;
        match &*self.no_sync.lock().unwrap() {
            Some(end) if path.ends_with(end) => Err(Errno::IO.into()),
            _ => Ok(()),
        }
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        self.change()?;
        match &*self.no_space.lock().unwrap() {
            Some(end) if path.ends_with(end) => Err(Errno::NOSPC.into()),
            _ => Ok(()),
        }
    }
}

#[derive(Debug, Default, Clone)]
pub(super) struct StoppingFs {
    os: OsFileSystem,
    pub(super) stops: Arc<Stops>,
}

#[derive(Debug)]
struct StoppingFile {
    file: Arc<dyn DataFile>,
    path: PathBuf,
    stops: Arc<Stops>,
}

impl DataFile for StoppingFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buf, position)
    }

    fn write_at(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        self.stops.write(&self.path)?;
        // Torn if it is the last one.
        let all: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        let len = if *self.stops.left.lock().unwrap() == Some(0) { all.len().div_ceil(2) } else { all.len() };
        self.file.write_at(&[IoSlice::new(&all[..len])], position)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.stops.sync(&self.path)?;
        self.file.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.stops.change()?;
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

impl StoppingFs {
    fn wrap(&self, path: &Path, file: Arc<dyn DataFile>) -> Arc<dyn DataFile> {
        Arc::new(StoppingFile { file, path: path.to_path_buf(), stops: Arc::clone(&self.stops) })
    }
}

impl FileSystem for StoppingFs {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DataFile>> {
        Ok(self.wrap(path, self.os.open(path, access)?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DataFile>> {
        self.stops.write(path)?;
        Ok(self.wrap(path, self.os.create(path)?))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.os.list(dir)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.os.kind(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.stops.write(path)?;
        self.os.create_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.stops.sync(path)?;
        self.os.sync_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.stops.change()?;
        self.os.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.stops.change()?;
        self.os.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.stops.change()?;
        self.os.remove_dir(path)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.os.free_space(path)
    }

    fn identity(&self, dir: &Path) -> io::Result<DirIdentity> {
        self.os.identity(dir)
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<Option<Box<dyn DirLock>>> {
        self.os.lock_dir(dir)
    }
}
