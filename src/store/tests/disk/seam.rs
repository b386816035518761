//! The disk as the store sees it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;

use super::SimDisk;
use super::content::Content;
use super::directory::{Directory, Ino};
use super::faults::Failing;
use super::inode::Node;
use super::state::State;
use crate::common::guard::lock;
use crate::store::{Access, DataFile, DirIdentity, DirLock, Entry, FileSystem, Kind, Stamp};

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    ino: Ino,
    access: Access,
}

impl SimFile {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.disk.state)
    }

    fn writable(&self) -> io::Result<()> {
        if self.access == Access::ReadWrite { Ok(()) } else { Err(Errno::BADF.into()) }
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.state();
        let Some(inode) = state.inodes.table.get_mut(&self.ino) else { return };
        inode.handles -= 1;
        if !inode.linked && inode.handles == 0 {
            state.inodes.purge();
        }
    }
}

impl DataFile for SimFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let mut state = self.state();
        state.powered()?;
        Ok(state.inodes.content(self.ino)?.read(buf, position))
    }

    fn write_at(&self, bufs: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        self.writable()?;
        self.state().write(self.ino, bufs, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.state().mutate(|state| state.sync(self.ino))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.writable()?;
        self.state().mutate(|state| state.set_len(self.ino, len))
    }

    fn stamp(&self) -> io::Result<Stamp> {
        let mut state = self.state();
        state.powered()?;
        let content = state.inodes.content(self.ino)?;
        Ok(Stamp { len: content.len, modified_ns: content.modified_ns })
    }

    fn drop_cached(&self) -> io::Result<()> {
        let mut state = self.state();
        state.powered()?;
        state.inodes.content(self.ino)?.drop_cached();
        Ok(())
    }

    fn as_file(&self) -> Option<&File> {
        None
    }
}

#[derive(Debug)]
struct SimLock {
    state: Arc<Mutex<State>>,
    ino: Ino,
}

impl DirLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        lock(&self.state).locks.remove(&self.ino);
    }
}

impl SimDisk {
    fn on(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = lock(&self.state);
        state.powered()?;
        Ok(state)
    }

    fn handle(&self, mut state: MutexGuard<'_, State>, ino: Ino, access: Access) -> Arc<dyn DataFile> {
        if let Some(inode) = state.inodes.table.get_mut(&ino) {
            inode.handles += 1;
        }
        drop(state);
        Arc::new(SimFile { disk: self.clone(), ino, access })
    }
}

fn kind_of(node: &Node) -> Kind {
    match node {
        Node::File(content) => Kind::File(content.len),
        Node::Directory(_) => Kind::Directory,
    }
}

impl FileSystem for SimDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DataFile>> {
        let mut state = self.on()?;
        let ino = state.inodes.resolve(path)?;
        state.inodes.content(ino)?;
        Ok(self.handle(state, ino, access))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DataFile>> {
        let mut state = lock(&self.state);
        let ino = state.mutate(|state| state.add(path, |now| Node::File(Content::new(now))))?;
        Ok(self.handle(state, ino, Access::ReadWrite))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let state = self.on()?;
        let names = state.inodes.names(state.inodes.resolve(dir)?)?;
        let entry = |(name, ino)| {
            Some(Entry { name: OsString::clone(name), kind: kind_of(&state.inodes.table.get(ino)?.node) })
        };
        Ok(names.iter().filter_map(entry).collect())
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        let state = self.on()?;
        match state.inodes.resolve(path) {
            Ok(ino) => Ok(state.inodes.table.get(&ino).map(|inode| kind_of(&inode.node))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let directory = |_| Node::Directory(Directory::default());
        lock(&self.state).mutate(|state| state.add(path, directory)).map(drop)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        lock(&self.state).mutate(|state| {
            state.strike(Failing::SyncDir, path)?;
            let dir = state.inodes.resolve(path)?;
            state.inodes.names(dir)?;
            state.inodes.sync_dir(dir);
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        lock(&self.state).mutate(|state| state.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let is_file = |node: &Node| match node {
            Node::File(_) => Ok(()),
            Node::Directory(_) => Err(Errno::ISDIR),
        };
        lock(&self.state).mutate(|state| state.remove(path, is_file))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let is_empty_dir = |node: &Node| match node {
            Node::File(_) => Err(Errno::NOTDIR),
            Node::Directory(directory) if directory.names.is_empty() => Ok(()),
            Node::Directory(_) => Err(Errno::NOTEMPTY),
        };
        lock(&self.state).mutate(|state| state.remove(path, is_empty_dir))
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        let state = self.on()?;
        state.inodes.resolve(path)?;
        Ok(state.free())
    }

    fn identity(&self, dir: &Path) -> io::Result<DirIdentity> {
        Ok(DirIdentity(1, self.on()?.inodes.resolve(dir)?))
    }

    fn lock_dir(&self, dir: &Path) -> io::Result<Option<Box<dyn DirLock>>> {
        let mut state = self.on()?;
        let ino = state.inodes.resolve(dir)?;
        let is_new = state.locks.insert(ino);
        Ok(is_new.then(|| Box::new(SimLock { state: Arc::clone(&self.state), ino }) as Box<dyn DirLock>))
    }
}
