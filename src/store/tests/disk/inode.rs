//! Files and directories by number, and the names that lead to them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use super::content::Content;
use super::directory::{Directory, Edit, Ino, Journal, Names, apply};

pub(super) const ROOT: Ino = 1;

#[derive(Clone, Debug)]
pub(super) enum Node {
    File(Content),
    Directory(Directory),
}

#[derive(Clone, Debug)]
pub(super) struct Inode {
    pub(super) node: Node,
    /// Where the system shows it, or showed it last.
    pub(super) path: PathBuf,
    /// Whether the system shows it.
    pub(super) linked: bool,
    pub(super) handles: usize,
}

impl Inode {
    pub(super) fn new(node: Node, path: PathBuf) -> Self {
        Self { node, path, linked: true, handles: 0 }
    }
}

/// Files and directories by number, and the changes of names that are not on the disk.
#[derive(Clone, Debug)]
pub(super) struct Inodes {
    pub(super) table: BTreeMap<Ino, Inode>,
    pub(super) journal: Journal,
    next: Ino,
}

impl Inodes {
    /// The root directory alone.
    pub(super) fn new() -> Self {
        let root = Inode::new(Node::Directory(Directory::default()), PathBuf::from("/"));
        Self { table: BTreeMap::from([(ROOT, root)]), journal: Journal::default(), next: ROOT + 1 }
    }

    /// What the next process finds of `table` and `journal`, where nothing is open.
    pub(super) fn reopened(&self, table: BTreeMap<Ino, Inode>, journal: Journal) -> Self {
        let mut inodes = Self { table, journal, next: self.next };
        inodes.table.values_mut().for_each(|inode| inode.handles = 0);
        inodes.purge();
        inodes
    }

    pub(super) fn names(&self, ino: Ino) -> io::Result<&Names> {
        match self.table.get(&ino).map(|inode| &inode.node) {
            Some(Node::Directory(directory)) => Ok(&directory.names),
            Some(Node::File(_)) => Err(Errno::NOTDIR.into()),
            None => Err(Errno::NOENT.into()),
        }
    }

    pub(super) fn resolve(&self, path: &Path) -> io::Result<Ino> {
        let mut way = vec![ROOT];
        for component in path.components() {
            let here = way.last().copied().unwrap_or(ROOT);
            match component {
                Component::Normal(name) => way.push(*self.names(here)?.get(name).ok_or(Errno::NOENT)?),
                Component::ParentDir if way.len() > 1 => drop(way.pop()),
                _ => {}
            }
        }
        Ok(way.last().copied().unwrap_or(ROOT))
    }

    /// The directory of a path, and the name in it.
    pub(super) fn parent(&self, path: &Path) -> io::Result<(Ino, OsString)> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let parent = self.resolve(path.parent().unwrap_or(Path::new("/")))?;
        self.names(parent)?;
        Ok((parent, name.to_os_string()))
    }

    pub(super) fn content(&mut self, ino: Ino) -> io::Result<&mut Content> {
        match self.table.get_mut(&ino).map(|inode| &mut inode.node) {
            Some(Node::File(content)) => Ok(content),
            Some(Node::Directory(_)) => Err(Errno::ISDIR.into()),
            None => Err(Errno::NOENT.into()),
        }
    }

    pub(super) fn add(&mut self, dir: Ino, name: OsString, node: Node) -> io::Result<Ino> {
        let ino = self.next;
        self.next += 1;
        let path = self.table.get(&dir).ok_or(Errno::NOENT)?.path.join(&name);
        self.table.insert(ino, Inode::new(node, path));
        self.change(vec![Edit { dir, name, to: Some(ino) }]);
        Ok(ino)
    }

    /// Changes names in the cache, as one operation.
    pub(super) fn change(&mut self, edits: Vec<Edit>) {
        for edit in &edits {
            let Some(Node::Directory(directory)) = self.table.get_mut(&edit.dir).map(|inode| &mut inode.node) else {
                continue;
            };
            let before = directory.names.get(&edit.name).copied();
            apply(&mut directory.names, edit);
            let path = self.table.get(&edit.dir).map(|dir| dir.path.join(&edit.name));
            if let Some(before) = before.and_then(|before| self.table.get_mut(&before)) {
                before.linked = false;
            }
            if let Some((inode, path)) = edit.to.and_then(|ino| self.table.get_mut(&ino)).zip(path) {
                inode.linked = true;
                inode.path = path;
            }
        }
        self.journal.push(edits);
        self.purge();
    }

    pub(super) fn sync_dir(&mut self, dir: Ino) {
        for edit in self.journal.take_for(dir).iter().flatten() {
            if let Some(Node::Directory(directory)) = self.table.get_mut(&edit.dir).map(|inode| &mut inode.node) {
                apply(&mut directory.durable, edit);
            }
        }
        self.purge();
    }

    /// Bytes of all files that are shown or open.
    pub(super) fn used(&self) -> u64 {
        let len = |inode: &Inode| match &inode.node {
            Node::File(content) if inode.linked || inode.handles > 0 => content.len,
            _ => 0,
        };
        self.table.values().map(len).sum()
    }

    /// Frees what neither the system nor the disk nor an open file leads to any more.
    pub(super) fn purge(&mut self) {
        let mut found = vec![ROOT];
        found.extend(self.journal.mentioned());
        found.extend(self.table.iter().filter(|(_, inode)| inode.handles > 0).map(|(&ino, _)| ino));
        let mut reached = BTreeSet::new();
        while let Some(ino) = found.pop() {
            if !reached.insert(ino) {
                continue;
            }
            if let Some(Node::Directory(directory)) = self.table.get(&ino).map(|inode| &inode.node) {
                found.extend(directory.names.values().chain(directory.durable.values()));
            }
        }
        self.table.retain(|ino, _| reached.contains(ino));
    }
}
