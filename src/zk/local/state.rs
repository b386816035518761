//! Everything that outlives the process: the tree, the sessions, the number of the last transaction.

use std::time::Instant;

use super::change::{Change, Transaction};
use super::jute::{Malformed, Reader, Writer, length};
use super::node::Node;
use super::sessions::{PASSWORD_BYTES, Password, Sessions};
use super::tree::{Inconsistent, Moment, Tree, Undo};

/// The state after some transaction.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) sessions: Sessions,
    /// Number of the last transaction: the run of the server in the upper half, its count in the lower.
    pub(super) zxid: i64,
}

/// Why stored bytes are no state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadState {
    /// They cannot be read.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// They can, but make no sense.
    #[error(transparent)]
    Inconsistent(#[from] Inconsistent),
}

impl State {
    /// Carries one change out. A session that is opened has all its time from `now` on.
    pub(super) fn apply(&mut self, change: &Change, at: Moment, now: Instant) -> Result<Option<Undo>, Inconsistent> {
        match change {
            Change::OpenSession { id, password, timeout_ms } => {
                self.sessions.open(*id, *password, *timeout_ms, now);
                Ok(None)
            }
            Change::CloseSession { id } => {
                self.sessions.close(*id);
                Ok(None)
            }
            change => self.tree.apply(change, at),
        }
    }

    /// Does a stored transaction again, unless the snapshot has it already.
    pub(super) fn replay(&mut self, transaction: &Transaction, now: Instant) -> Result<(), Inconsistent> {
        if transaction.zxid <= self.zxid {
            return Ok(());
        }
        for change in &transaction.changes {
            self.apply(change, (transaction.zxid, transaction.time), now)?;
        }
        self.zxid = transaction.zxid;
        Ok(())
    }

    /// The content of a snapshot.
    pub(super) fn write(&self, w: &mut Writer) {
        w.long(self.zxid);
        w.int(length(self.sessions.len()));
        for (id, session) in self.sessions.iter() {
            w.long(id);
            w.raw(session.password.bytes());
            w.int(session.timeout_ms);
        }
        let nodes = self.tree.sorted();
        w.int(length(nodes.len()));
        for (path, node) in nodes {
            w.text(path);
            node.write(w);
        }
    }

    /// Reads what [`write`](Self::write) wrote. Each session has all its time from `now` on.
    pub(super) fn read(bytes: &[u8], now: Instant) -> Result<Self, BadState> {
        let mut r = Reader::new(bytes);
        let mut state = Self { zxid: r.long()?, ..Self::default() };
        r.list(|r| {
            let (id, password) = (r.long()?, Password::from_bytes(r.take(PASSWORD_BYTES)?));
            state.sessions.open(id, password.ok_or(Malformed::Short)?, r.int()?, now);
            Ok(())
        })?;
        for (path, node) in r.list(|r| Ok((r.text()?, Node::read(r)?)))? {
            state.tree.restore(path, node)?;
        }
        r.end()?;
        Ok(state)
    }
}
