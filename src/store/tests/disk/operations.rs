//! What the operations do.

use std::io::{self, IoSlice};
use std::path::Path;

use rustix::io::Errno;

use super::content::to_usize;
use super::directory::{Edit, Ino};
use super::faults::Failing;
use super::inode::Node;
use super::state::{Gate, State};

impl State {
    pub(super) fn strike(&mut self, failing: Failing, path: &Path) -> io::Result<()> {
        if self.faults.strike(failing, path) { Err(Errno::IO.into()) } else { Ok(()) }
    }

    fn strike_file(&mut self, failing: Failing, ino: Ino) -> bool {
        self.inodes.table.get(&ino).is_some_and(|inode| self.faults.strike(failing, &inode.path))
    }

    /// Writes what there is space for, and of that what the limit for short writes allows.
    pub(super) fn write(&mut self, ino: Ino, bufs: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        let gate = self.begin()?;
        let all: usize = bufs.iter().map(|buf| buf.len()).sum();
        let fails = self.strike_file(Failing::Write, ino);
        let end = self.inodes.content(ino)?.len.saturating_add(self.free());
        let mut count = all.min(to_usize(end.saturating_sub(position)));
        if count == 0 && all > 0 {
            return Err(Errno::NOSPC.into());
        }
        count = count.min(self.faults.short_writes.unwrap_or(count));
        let interrupted = gate == Gate::Interrupted;
        if interrupted || fails {
            count = self.rng.usize(0..count.max(1));
        }
        let now = self.tick();
        self.inodes.content(ino)?.write(bufs, count, position, now);
        if interrupted || fails { Err(Errno::IO.into()) } else { Ok(count) }
    }

    pub(super) fn sync(&mut self, ino: Ino) -> io::Result<()> {
        let whole = self.strike_file(Failing::Sync, ino);
        if whole || self.strike_file(Failing::PartialSync, ino) {
            let Self { inodes, rng, .. } = self;
            inodes.content(ino)?.fail_sync((!whole).then_some(rng));
            return Err(Errno::IO.into());
        }
        self.inodes.content(ino)?.sync();
        Ok(())
    }

    pub(super) fn set_len(&mut self, ino: Ino, len: u64) -> io::Result<()> {
        if self.strike_file(Failing::SetLen, ino) {
            return Err(Errno::IO.into());
        }
        if len.saturating_sub(self.inodes.content(ino)?.len) > self.free() {
            return Err(Errno::NOSPC.into());
        }
        let now = self.tick();
        self.inodes.content(ino)?.set_len(len, now);
        Ok(())
    }

    pub(super) fn add(&mut self, path: &Path, node: impl FnOnce(i64) -> Node) -> io::Result<Ino> {
        self.strike(Failing::Create, path)?;
        let (dir, name) = self.inodes.parent(path)?;
        if self.inodes.names(dir)?.contains_key(&name) {
            return Err(Errno::EXIST.into());
        }
        if self.free() == 0 {
            return Err(Errno::NOSPC.into());
        }
        let now = self.tick();
        self.inodes.add(dir, name, node(now))
    }

    /// Removes a name if `is_fit` for what it stands for.
    pub(super) fn remove(&mut self, path: &Path, is_fit: impl FnOnce(&Node) -> Result<(), Errno>) -> io::Result<()> {
        self.strike(Failing::Remove, path)?;
        let (dir, name) = self.inodes.parent(path)?;
        let ino = self.inodes.names(dir)?.get(&name).ok_or(Errno::NOENT)?;
        is_fit(&self.inodes.table.get(ino).ok_or(Errno::NOENT)?.node)?;
        self.inodes.change(vec![Edit { dir, name, to: None }]);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.strike(Failing::Rename, from)?;
        let ((old_dir, old), (new_dir, new)) = (self.inodes.parent(from)?, self.inodes.parent(to)?);
        let ino = *self.inodes.names(old_dir)?.get(&old).ok_or(Errno::NOENT)?;
        let replaced = self.inodes.names(new_dir)?.get(&new).copied();
        // Directories stay where they are, so that no lost operation can tie one into itself.
        let is_dir = |ino| self.inodes.names(ino).is_ok();
        if is_dir(ino) || replaced.is_some_and(is_dir) {
            return Err(Errno::OPNOTSUPP.into());
        }
        if replaced != Some(ino) {
            let gone = Edit { dir: old_dir, name: old, to: None };
            self.inodes.change(vec![gone, Edit { dir: new_dir, name: new, to: Some(ino) }]);
        }
        Ok(())
    }
}
