//! Directories: names on the disk and in the cache, and the changes between them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

/// Number of a file or directory.
pub(super) type Ino = u64;

/// Names in a directory.
pub(super) type Names = BTreeMap<OsString, Ino>;

/// One directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    /// As the system shows it.
    pub(super) names: Names,
    /// As it is on the disk.
    pub(super) durable: Names,
}

/// One name that an operation changes.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    pub(super) dir: Ino,
    pub(super) name: OsString,
    /// What the name stands for afterwards.
    pub(super) to: Option<Ino>,
}

impl Edit {
    fn key(&self) -> (Ino, OsString) {
        (self.dir, self.name.clone())
    }
}

/// The edits of one create, remove or rename: on the disk all or none of them.
pub(super) type Operation = Vec<Edit>;

/// Operations on names that are not on the disk, oldest first. An operation needs all earlier ones on its names.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal(Vec<Operation>);

impl Journal {
    pub(super) fn push(&mut self, operation: Operation) {
        self.0.push(operation);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Files and directories that an operation may bring back.
    pub(super) fn mentioned(&self) -> impl Iterator<Item = Ino> {
        self.0.iter().flatten().filter_map(|edit| edit.to)
    }

    /// Takes out what a sync of a directory makes durable: operations in it, and those that they need elsewhere.
    pub(super) fn take_for(&mut self, dir: Ino) -> Vec<Operation> {
        let mut needed = BTreeSet::new();
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for operation in self.0.drain(..).rev() {
            if operation.iter().any(|edit| edit.dir == dir || needed.contains(&edit.key())) {
                needed.extend(operation.iter().map(Edit::key));
                taken.push(operation);
            } else {
                left.push(operation);
            }
        }
        taken.reverse();
        left.reverse();
        self.0 = left;
        taken
    }

    /// Operations that reached the disk by themselves, out of those that `is_kept` picks: one whose names were changed
    /// by an operation that was lost is lost as well.
    pub(super) fn survivors(&self, mut is_kept: impl FnMut(&Operation) -> bool) -> Vec<&Operation> {
        let mut lost = BTreeSet::new();
        let survives = |operation: &&Operation| {
            let kept = is_kept(operation) && !operation.iter().any(|edit| lost.contains(&edit.key()));
            if !kept {
                lost.extend(operation.iter().map(Edit::key));
            }
            kept
        };
        self.0.iter().filter(survives).collect()
    }
}

/// Applies an edit to the names of its directory.
pub(super) fn apply(names: &mut Names, edit: &Edit) {
    match edit.to {
        Some(ino) => names.insert(edit.name.clone(), ino),
        None => names.remove(&edit.name),
    };
}
