//! A node and what ZooKeeper tells about it.

use std::collections::BTreeSet;

use super::acl::Acl;
use super::jute::{Malformed, Reader, Writer, length};

/// Bytes that a node takes in memory beside its path, data and list of rights; an estimate for the limit of the tree.
const NODE_BYTES: usize = 256;

/// One node of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Node {
    /// `None`: made without data, which is not the same as empty data (04 §1).
    pub(super) data: Option<Box<[u8]>>,
    pub(super) acl: Acl,
    /// The transaction that made the node, and when: milliseconds since 1970.
    pub(super) created: (i64, i64),
    /// The transaction that last changed the data, and when.
    pub(super) modified: (i64, i64),
    /// The transaction that last added or removed a child.
    pub(super) children_modified: i64,
    /// Changes of the data.
    pub(super) version: i32,
    /// Changes of the list of rights.
    pub(super) acl_version: i32,
    /// Children that were ever made: the number of the next sequential one.
    pub(super) children_made: i32,
    /// The session that it goes with; 0 for a persistent node.
    pub(super) owner: i64,
    /// Their names.
    pub(super) children: BTreeSet<Box<str>>,
}

impl Node {
    pub(super) fn is_ephemeral(&self) -> bool {
        self.owner != 0
    }

    /// Bytes of memory, its path included.
    pub(super) fn size(&self, path: &str) -> usize {
        // The path is a key, and its last element a child's name.
        NODE_BYTES + 2 * path.len() + self.data.as_ref().map_or(0, |data| data.len()) + self.acl.size()
    }

    /// The record `Stat` of the wire. Children made and children removed both count as changes of the list.
    pub(super) fn write_stat(&self, w: &mut Writer) {
        let children = length(self.children.len());
        w.long(self.created.0);
        w.long(self.modified.0);
        w.long(self.created.1);
        w.long(self.modified.1);
        w.int(self.version);
        w.int(self.children_made.wrapping_mul(2).wrapping_sub(children));
        w.int(self.acl_version);
        w.long(self.owner);
        w.int(self.data.as_ref().map_or(0, |data| length(data.len())));
        w.int(children);
        w.long(self.children_modified);
    }

    /// As in a snapshot, without the children, which follow from the paths.
    pub(super) fn write(&self, w: &mut Writer) {
        w.buffer(self.data.as_deref());
        self.acl.write(w);
        for (zxid, time) in [self.created, self.modified] {
            w.long(zxid);
            w.long(time);
        }
        w.long(self.children_modified);
        w.int(self.version);
        w.int(self.acl_version);
        w.int(self.children_made);
        w.long(self.owner);
    }

    /// Reads what [`write`](Self::write) wrote.
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            data: r.buffer()?.map(Into::into),
            acl: Acl::read(r)?.map_err(|_| Malformed::Number)?,
            created: (r.long()?, r.long()?),
            modified: (r.long()?, r.long()?),
            children_modified: r.long()?,
            version: r.int()?,
            acl_version: r.int()?,
            children_made: r.int()?,
            owner: r.long()?,
            children: BTreeSet::new(),
        })
    }
}
