//! The seam between the store and the file system: everything that touches data files goes through it, so that tests
//! can fail, tear and fill the disk.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Advice, FlockOperation};
use rustix::io::Errno;

/// What an opened file is needed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading, writing and cutting.
    ReadWrite,
}

/// What a directory entry is, symbolic links followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A regular file of this many bytes.
    File(u64),
    /// A directory.
    Directory,
    /// Anything else, a dangling link included.
    Other,
}

/// What tells whether a file was changed: its length and the time of its last change.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Stamp {
    /// Bytes.
    pub len: u64,
    /// Nanoseconds since 1970.
    pub modified_ns: i64,
}

/// One entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// What it is.
    pub kind: Kind,
}

/// Identity of a directory whatever path leads to it: device and inode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DirIdentity(pub u64, pub u64);

/// Held while a directory is locked; dropping it gives the directory free.
pub trait DirLock: Send + Sync + fmt::Debug {}

/// An open file. Reads and writes name their position, so a file can be shared without a lock.
pub trait DataFile: Send + Sync + fmt::Debug {
    /// Reads once at a position; 0 at the end of the file.
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize>;
    /// Writes once at a position; may take fewer bytes than given.
    fn write_at(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<usize>;
    /// Makes content and length durable (`fdatasync`). A failure must never be retried: the kernel forgets it.
    fn sync_data(&self) -> io::Result<()>;
    /// Cuts the file, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Length and time of the last change.
    fn stamp(&self) -> io::Result<Stamp>;
    /// Forgets what the system has cached of the file and is on the disk too (`POSIX_FADV_DONTNEED`), so that the next
    /// read tells what the disk really holds.
    fn drop_cached(&self) -> io::Result<()>;
    /// The file of the operating system behind it, for `sendfile`; `None` on a simulated disk.
    fn as_file(&self) -> Option<&File>;
}

/// What the store asks of a file system.
pub trait FileSystem: Send + Sync + fmt::Debug {
    /// Opens an existing file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DataFile>>;
    /// Creates a file for reading and writing that must not exist.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DataFile>>;
    /// Entries of a directory in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>>;
    /// What is at a path, `None` if nothing.
    fn kind(&self, path: &Path) -> io::Result<Option<Kind>>;
    /// Creates one directory; the parent must exist.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Renames within a file system, replacing what is there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Bytes that this process may still write on the file system of `path`.
    fn free_space(&self, path: &Path) -> io::Result<u64>;
    /// Which directory a path leads to.
    fn identity(&self, dir: &Path) -> io::Result<DirIdentity>;
    /// Locks a directory against every other opener, without waiting; `None` if another holds it.
    fn lock_dir(&self, dir: &Path) -> io::Result<Option<Box<dyn DirLock>>>;
}

/// Most slices that one system call takes (`IOV_MAX` of Linux).
const MAX_SLICES: usize = 1024;

/// Writes all of `slices` from a position on. After an error an unknown part is written.
pub fn write_all_at(file: &dyn DataFile, mut slices: &mut [IoSlice<'_>], mut position: u64) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match file.write_at(&slices[..slices.len().min(MAX_SLICES)], position) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => {
                position += n as u64;
                IoSlice::advance_slices(&mut slices, n);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills `buf` from a position on.
///
/// # Errors
/// [`ErrorKind::UnexpectedEof`] when the file ends before.
pub fn read_exact_at(file: &dyn DataFile, mut buf: &mut [u8], mut position: u64) -> io::Result<()> {
    while !buf.is_empty() {
        match file.read_at(buf, position) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                position += n as u64;
                buf = &mut buf[n..];
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether an error says that there is no space or no quota left.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// Whether an error says that the process or the system has run out of descriptors or memory: nothing happened to the
/// disk, and the same may succeed later.
pub(super) fn is_out_of_resources(error: &io::Error) -> bool {
    let is = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    is(Errno::MFILE) || is(Errno::NFILE) || is(Errno::NOMEM)
}

/// Whether an error says that the device failed.
pub(super) fn is_device_error(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::IO.raw_os_error())
}

/// The file system of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsFileSystem;

#[derive(Debug)]
struct OsFile(File);

#[derive(Debug)]
struct OsDirLock(File);

impl DirLock for OsDirLock {}

impl Drop for OsDirLock {
    fn drop(&mut self) {
        // Closing is not enough: a child process that is just being started holds the same open directory.
        let _closed_anyway = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

impl DataFile for OsFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_at(buf, position)
    }

    fn write_at(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        match bufs {
            [one] => self.0.write_at(one, position),
            _ => Ok(rustix::io::pwritev(&self.0, bufs, position)?),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn stamp(&self) -> io::Result<Stamp> {
        let metadata = self.0.metadata()?;
        let modified_ns = metadata.mtime().wrapping_mul(1_000_000_000).wrapping_add(metadata.mtime_nsec());
        Ok(Stamp { len: metadata.len(), modified_ns })
    }

    fn drop_cached(&self) -> io::Result<()> {
        Ok(rustix::fs::fadvise(&self.0, 0, None, Advice::DontNeed)?)
    }

    fn as_file(&self) -> Option<&File> {
        Some(&self.0)
    }
}

fn kind_of(metadata: &fs::Metadata) -> Kind {
    match metadata {
        m if m.is_dir() => Kind::Directory,
        m if m.is_file() => Kind::File(m.len()),
        _ => Kind::Other,
    }
}

impl FileSystem for OsFileSystem {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DataFile>> {
        let file = OpenOptions::new().read(true).write(access == Access::ReadWrite).open(path)?;
        Ok(Arc::new(OsFile(file)))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DataFile>> {
        Ok(Arc::new(OsFile(OpenOptions::new().read(true).write(true).create_new(true).open(path)?)))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let entry = |entry: io::Result<fs::DirEntry>| {
            let entry = entry?;
            let kind = self.kind(&entry.path())?.unwrap_or(Kind::Other);
            Ok(Entry { name: entry.file_name(), kind })
        };
        fs::read_dir(dir)?.map(entry).collect()
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(Some(kind_of(&metadata))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn identity(&self, dir: &Path) -> io::Result<DirIdentity> {
        let metadata = fs::metadata(dir)?;
        Ok(DirIdentity(metadata.dev(), metadata.ino()))
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<Option<Box<dyn DirLock>>> {
        let dir = File::open(dir)?;
        match rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Box::new(OsDirLock(dir)))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_are_told_apart() {
        let error = |errno: Errno| io::Error::from(errno);
        assert!(is_full(&error(Errno::NOSPC)) && is_full(&error(Errno::DQUOT)));
        assert!(is_device_error(&error(Errno::IO)));
        for other in [Errno::ACCESS, Errno::MFILE, Errno::FBIG, Errno::ROFS] {
            assert!(!is_full(&error(other)) && !is_device_error(&error(other)), "{other}");
        }
    }

    #[test]
    fn more_slices_than_one_call_takes_are_written_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = OsFileSystem.create(&dir.path().join("x")).unwrap();
        let chunks: Vec<Vec<u8>> = (0..3000_usize).map(|i| vec![b'a' + u8::try_from(i % 26).unwrap(); i % 5]).collect();
        let mut slices: Vec<_> = chunks.iter().map(|chunk| IoSlice::new(chunk)).collect();
        write_all_at(&*file, &mut slices, 7).unwrap();
        let expected = [vec![0; 7], chunks.concat()].concat();
        let mut read = vec![1; expected.len()];
        read_exact_at(&*file, &mut read, 0).unwrap();
        assert_eq!(read, expected);
        let error = read_exact_at(&*file, &mut read, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
    }
}
