//! A disk in words.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::content::Content;
use super::directory::{Directory, Ino};
use super::inode::{Inodes, Node, ROOT};

/// One line for each name that is shown or on the disk, by path.
pub(super) fn dump(inodes: &Inodes) -> String {
    let mut lines = BTreeMap::new();
    walk(inodes, ROOT, Path::new("/"), &mut lines);
    let mut text = String::new();
    for (path, what) in lines {
        // Writing to a string succeeds.
        let _always = writeln!(text, "{}: {what}", path.display());
    }
    let _always = writeln!(text, "{} operations on names are not durable", inodes.journal.len());
    text
}

fn walk(inodes: &Inodes, ino: Ino, path: &Path, lines: &mut BTreeMap<PathBuf, String>) {
    let Some(Node::Directory(Directory { names, durable })) = inodes.table.get(&ino).map(|inode| &inode.node) else {
        return;
    };
    let removed = durable.iter().filter(|(name, _)| !names.contains_key(*name));
    for (name, &ino) in names.iter().chain(removed) {
        let name_state = match (names.get(name), durable.get(name)) {
            (Some(shown), Some(durable)) if shown == durable => "",
            (Some(_), Some(_)) => ", name not durable, another file's on the disk",
            (Some(_), None) => ", name not durable",
            (None, _) => ", removed, still on the disk",
        };
        let what = match inodes.table.get(&ino).map(|inode| &inode.node) {
            Some(Node::File(content)) => describe(content),
            Some(Node::Directory(_)) => "directory".to_owned(),
            None => "nothing".to_owned(),
        };
        let path = path.join(name);
        walk(inodes, ino, &path, lines);
        lines.insert(path, what + name_state);
    }
}

fn describe(content: &Content) -> String {
    let Content { len, durable_len, dirty, forgotten, .. } = content;
    let (dirty, forgotten) = (dirty.len(), forgotten.len());
    format!("{len} bytes, {durable_len} durable, {dirty} sectors dirty, {forgotten} forgotten by a failed sync")
}
