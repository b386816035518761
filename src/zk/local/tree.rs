//! The tree of nodes: what a request may change, changing it, taking a change back. Free of IO.

use std::collections::{BTreeSet, HashMap};

use super::change::Change;
use super::code::Code;
use super::limits::{MAX_NODES, MAX_TREE_BYTES};
use super::node::Node;
use super::path;
use super::requests::{CreateMode, Operation};

/// A change that does not fit the tree. Only what was stored can be so, if it is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a transaction does not fit the tree before it")]
pub(super) struct Inconsistent;

/// The number of a transaction and its time in milliseconds since 1970.
pub(super) type Moment = (i64, i64);

/// What takes a change back.
#[derive(Debug)]
pub(super) enum Undo {
    /// Removes the node; its parent is as given.
    Created { path: String, parent: ParentBefore },
    /// Puts the node back.
    Deleted { path: String, node: Node, parent: ParentBefore },
    /// Gives the node its old content.
    Changed { path: String, node: Node },
}

/// What the coming and going of a child changes in its parent.
#[derive(Debug, Clone, Copy)]
pub(super) struct ParentBefore {
    children_modified: i64,
    children_made: i32,
}

/// All nodes.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: HashMap<Box<str>, Node>,
    ephemerals: HashMap<i64, BTreeSet<Box<str>>>,
    bytes: usize,
}

impl Default for Tree {
    /// With the root alone.
    fn default() -> Self {
        let mut tree = Self { nodes: HashMap::new(), ephemerals: HashMap::new(), bytes: 0 };
        tree.put("/", Node { data: Some(Box::default()), ..Node::default() });
        tree
    }
}

impl Tree {
    pub(super) fn get(&self, path: &str) -> Result<&Node, Code> {
        self.nodes.get(path).ok_or(Code::NoNode)
    }

    /// Number of nodes, the root included.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Bytes of memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of ephemeral nodes.
    pub(super) fn ephemerals(&self) -> usize {
        self.ephemerals.values().map(BTreeSet::len).sum()
    }

    /// The ephemeral nodes of a session in the order of their paths.
    pub(super) fn ephemerals_of(&self, session: i64) -> Vec<String> {
        let paths = self.ephemerals.get(&session).into_iter().flatten();
        paths.map(|path| path.clone().into_string()).collect()
    }

    /// All nodes in the order of their paths, so that a parent comes before its children.
    pub(super) fn sorted(&self) -> Vec<(&str, &Node)> {
        let mut nodes: Vec<_> = self.nodes.iter().map(|(path, node)| (&**path, node)).collect();
        nodes.sort_unstable_by_key(|(path, _)| *path);
        nodes
    }

    /// Puts a node of a snapshot into the tree.
    pub(super) fn restore(&mut self, path: &str, node: Node) -> Result<(), Inconsistent> {
        path::check(path).map_err(|_| Inconsistent)?;
        if let Some((parent, name)) = path::split(path) {
            let parent = self.nodes.get_mut(parent).ok_or(Inconsistent)?;
            if !parent.children.insert(name.into()) {
                return Err(Inconsistent);
            }
        } else {
            self.take(path);
        }
        self.put(path, node);
        Ok(())
    }

    /// What an operation of a session would change; `None` if it only checks.
    pub(super) fn prepare(&self, operation: Operation, session: i64) -> Result<Option<Change>, Code> {
        Ok(Some(match operation {
            Operation::Create { path, data, acl, mode, .. } => {
                let (acl, mode) = (acl?, mode?);
                let path = self.new_path(path, mode)?;
                let owner = if mode.ephemeral { session } else { 0 };
                let size = Node { data: None, acl: acl.clone(), ..Node::default() }.size(&path);
                self.check_room(size + data.as_ref().map_or(0, |data| data.len()), true)?;
                Change::Create { path, data, acl, owner }
            }
            Operation::Delete { path, version } => {
                path::check(&path)?;
                let node = self.get(&path)?;
                if path == "/" {
                    return Err(Code::BadArguments);
                }
                is_version(version, node.version)?;
                if !node.children.is_empty() {
                    return Err(Code::NotEmpty);
                }
                Change::Delete { path }
            }
            Operation::SetData { path, data, version } => {
                path::check(&path)?;
                let node = self.get(&path)?;
                is_version(version, node.version)?;
                let len = |data: &Option<Box<[u8]>>| data.as_ref().map_or(0, |data| data.len());
                self.check_room(len(&data).saturating_sub(len(&node.data)), false)?;
                Change::SetData { path, data }
            }
            Operation::SetAcl { path, acl, version } => {
                path::check(&path)?;
                let acl = acl?;
                is_version(version, self.get(&path)?.acl_version)?;
                self.check_room(acl.size(), false)?;
                Change::SetAcl { path, acl }
            }
            Operation::Check { path, version } => {
                path::check(&path)?;
                is_version(version, self.get(&path)?.version)?;
                return Ok(None);
            }
        }))
    }

    /// The path of a node that can be made, with its number if it is a sequential one.
    fn new_path(&self, mut path: String, mode: CreateMode) -> Result<String, Code> {
        let parent = self.get(path::parent_of_new(&path)?)?;
        if mode.sequential {
            path = format!("{path}{:010}", parent.children_made);
        }
        path::check(&path)?;
        if self.nodes.contains_key(&*path) {
            return Err(Code::NodeExists);
        }
        if parent.is_ephemeral() { Err(Code::NoChildrenForEphemerals) } else { Ok(path) }
    }

    fn check_room(&self, more: usize, new: bool) -> Result<(), Code> {
        let fits = self.bytes + more <= MAX_TREE_BYTES && (!new || self.nodes.len() < MAX_NODES);
        if fits { Ok(()) } else { Err(Code::BadArguments) }
    }

    /// Carries a change of a node out; changes of sessions are none of the tree's business.
    pub(super) fn apply(&mut self, change: &Change, at: Moment) -> Result<Option<Undo>, Inconsistent> {
        Ok(Some(match change {
            Change::Create { path, data, acl, owner } => {
                let parent = self.add_child(path, at.0)?;
                let node = Node {
                    data: data.clone(),
                    acl: acl.clone(),
                    created: at,
                    modified: at,
                    children_modified: at.0,
                    owner: *owner,
                    ..Node::default()
                };
                self.put(path, node);
                Undo::Created { path: path.clone(), parent }
            }
            Change::Delete { path } => {
                if self.nodes.get(&**path).is_none_or(|node| !node.children.is_empty()) {
                    return Err(Inconsistent);
                }
                let parent = self.remove_child(path, at.0)?;
                let node = self.take(path).ok_or(Inconsistent)?;
                Undo::Deleted { path: path.clone(), node, parent }
            }
            Change::SetData { path, data } => self.change(path, |node| {
                node.data.clone_from(data);
                node.version = node.version.wrapping_add(1);
                node.modified = at;
            })?,
            Change::SetAcl { path, acl } => self.change(path, |node| {
                node.acl = acl.clone();
                node.acl_version = node.acl_version.wrapping_add(1);
            })?,
            Change::OpenSession { .. } | Change::CloseSession { .. } => return Ok(None),
        }))
    }

    /// Takes the last change back.
    pub(super) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Created { path, parent } => {
                self.take(&path);
                self.parent_back(&path, parent, |children, name| _ = children.remove(name));
            }
            Undo::Deleted { path, node, parent } => {
                self.put(&path, node);
                self.parent_back(&path, parent, |children, name| _ = children.insert(name.into()));
            }
            Undo::Changed { path, node } => {
                let children = self.take(&path).map(|node| node.children).unwrap_or_default();
                self.put(&path, Node { children, ..node });
            }
        }
    }

    fn parent_back(&mut self, path: &str, before: ParentBefore, edit: impl FnOnce(&mut BTreeSet<Box<str>>, &str)) {
        let Some((parent, name)) = path::split(path) else { return };
        if let Some(parent) = self.nodes.get_mut(parent) {
            edit(&mut parent.children, name);
            parent.children_modified = before.children_modified;
            parent.children_made = before.children_made;
        }
    }

    fn add_child(&mut self, path: &str, zxid: i64) -> Result<ParentBefore, Inconsistent> {
        let (parent, name) = path::split(path).ok_or(Inconsistent)?;
        let parent = self.nodes.get_mut(parent).ok_or(Inconsistent)?;
        if !parent.children.insert(name.into()) {
            return Err(Inconsistent);
        }
        let before = parent.before();
        parent.children_made = parent.children_made.wrapping_add(1);
        parent.children_modified = zxid;
        Ok(before)
    }

    fn remove_child(&mut self, path: &str, zxid: i64) -> Result<ParentBefore, Inconsistent> {
        let (parent, name) = path::split(path).ok_or(Inconsistent)?;
        let parent = self.nodes.get_mut(parent).ok_or(Inconsistent)?;
        let before = parent.before();
        parent.children.remove(name);
        parent.children_modified = zxid;
        Ok(before)
    }

    fn change(&mut self, path: &str, change: impl FnOnce(&mut Node)) -> Result<Undo, Inconsistent> {
        let mut node = self.take(path).ok_or(Inconsistent)?;
        // The children stay where they are: there may be very many.
        let children = std::mem::take(&mut node.children);
        let before = node.clone();
        change(&mut node);
        node.children = children;
        self.put(path, node);
        Ok(Undo::Changed { path: path.to_owned(), node: before })
    }

    fn put(&mut self, path: &str, node: Node) {
        self.bytes += node.size(path);
        if node.is_ephemeral() {
            self.ephemerals.entry(node.owner).or_default().insert(path.into());
        }
        self.nodes.insert(path.into(), node);
    }

    fn take(&mut self, path: &str) -> Option<Node> {
        let node = self.nodes.remove(path)?;
        self.bytes -= node.size(path);
        if let Some(paths) = self.ephemerals.get_mut(&node.owner) {
            paths.remove(path);
            if paths.is_empty() {
                self.ephemerals.remove(&node.owner);
            }
        }
        Some(node)
    }
}

impl Node {
    fn before(&self) -> ParentBefore {
        ParentBefore { children_modified: self.children_modified, children_made: self.children_made }
    }
}

/// -1 stands for any version.
fn is_version(asked: i32, present: i32) -> Result<(), Code> {
    if asked == -1 || asked == present { Ok(()) } else { Err(Code::BadVersion) }
}

#[cfg(test)]
mod tests;
