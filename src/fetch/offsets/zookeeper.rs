//! Offsets in ZooKeeper (04 §8), written only if nobody else has written since.
//!
//! The reference writes without a condition, and whoever writes last wins. Here each write names the version that was seen
//! last. If that does not match, the owner node of the partition decides: if it is not ours, this member has lost the
//! partition and must not write; if it is, a late commit of an earlier owner came in between and is written over.
//!
//! A commit that nobody waits for any more goes on. It gives up as soon as a later one of the same partition has begun, or the
//! partition was given up: what it sends before that names the version it saw, and so never replaces anything later.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures_core::future::BoxFuture;
use tokio::task::JoinSet;
use tracing::warn;

use crate::common::guard::lock;
use crate::id::{GroupName, TopicPartition};
use crate::zk::format::{InvalidData, StoredOffset};
use crate::zk::{Coordinator, CoordinatorError, Node, NodeKind, Root, SessionState, is_owned_by};

use super::{CommitError, OffsetCommit, OffsetStorage, StorageError};

/// Attempts at one write while others write the same node.
const ATTEMPTS: usize = 5;

/// Why an offset in ZooKeeper was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum ZooKeeperOffsetError {
    /// The request failed.
    #[error(transparent)]
    Coordinator(#[from] CoordinatorError),
    /// The node holds something else than an offset.
    #[error(
        "ZooKeeper node {path} holds no offset: {reason}; write the right one into it, or delete it to begin where the consumer is configured to"
    )]
    Damaged {
        /// The node.
        path: String,
        /// What is wrong with its data.
        reason: InvalidData,
    },
    /// There is no session at present, so that nobody can tell who owns the partition.
    #[error("ZooKeeper node {path} was changed by somebody else, and without a session nobody can tell who owns it")]
    NoSession {
        /// The node.
        path: String,
    },
    /// A later commit has begun since, or the partition was given up.
    #[error(
        "the offset for ZooKeeper node {path} is out of date: a later commit has begun, or the partition was given up"
    )]
    Superseded {
        /// The node.
        path: String,
    },
    /// Others write the node again and again.
    #[error(
        "ZooKeeper node {path} is changed by somebody else all the time; find out who else writes offsets of the group"
    )]
    Contended {
        /// The node.
        path: String,
    },
}

/// The default storage: `consumers/<group>/offsets/<topic>/<partition>`, shared with Java members of the group.
#[derive(Debug)]
pub struct ZooKeeperOffsets {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    coordinator: Arc<dyn Coordinator>,
    root: Root,
    consumer_id: String,
    /// What is known of each node, by its path.
    seen: Mutex<HashMap<String, Seen>>,
    /// Commits so far; no two have the same number.
    turns: AtomicU64,
}

/// A node as this consumer saw it last.
#[derive(Debug, Clone, Default)]
struct Seen {
    /// `None`: it was not there.
    version: Option<i32>,
    /// What was sent without an answer, so that it is recognised.
    sent: Option<String>,
    /// The last commit that has begun. Only this one writes.
    turn: u64,
}

impl ZooKeeperOffsets {
    /// Offsets below `root`, of a consumer whose owner nodes hold `consumer_id`.
    pub fn new(coordinator: Arc<dyn Coordinator>, root: Root, consumer_id: impl Into<String>) -> Self {
        let (seen, turns) = (Mutex::default(), AtomicU64::new(0));
        Self { shared: Arc::new(Shared { coordinator, root, consumer_id: consumer_id.into(), seen, turns }) }
    }
}

impl OffsetStorage for ZooKeeperOffsets {
    fn load<'a>(
        &'a self,
        group: &'a GroupName,
        of: &'a TopicPartition,
    ) -> BoxFuture<'a, Result<Option<StoredOffset>, StorageError>> {
        Box::pin(async move { Ok(self.shared.load(self.shared.root.offset(group, of)).await?) })
    }

    /// All at once, over one connection.
    fn commit<'a>(
        &'a self,
        group: &'a GroupName,
        commits: &'a [OffsetCommit],
    ) -> BoxFuture<'a, Vec<Result<(), CommitError>>> {
        Box::pin(async move {
            let lost =
                || Err(CommitError::Failed("the write was broken off; it is repeated with the next commit".into()));
            let mut results: Vec<_> = commits.iter().map(|_| lost()).collect();
            // Before the first write, so that it is known which commit is the later one.
            let turn = self.shared.begin(group, commits);
            // A task of its own, so that it goes on when nobody waits for it any more.
            let all = tokio::spawn(Arc::clone(&self.shared).store_all(group.clone(), commits.to_vec(), turn));
            for (place, result) in all.await.unwrap_or_default() {
                if let Some(slot) = results.get_mut(place) {
                    *slot = result;
                }
            }
            results
        })
    }

    fn released(&self, group: &GroupName, of: &TopicPartition) {
        lock(&self.shared.seen).remove(&self.shared.root.offset(group, of));
    }
}

impl Shared {
    async fn load(&self, path: String) -> Result<Option<StoredOffset>, ZooKeeperOffsetError> {
        let Some(node) = self.read(&path).await? else {
            self.loaded(&path, None);
            return Ok(None);
        };
        let stored = StoredOffset::parse(&node.data);
        let stored = stored.map_err(|reason| ZooKeeperOffsetError::Damaged { path: path.clone(), reason })?;
        self.loaded(&path, Some(node.stat.version));
        Ok(Some(stored))
    }

    /// A commit begins: earlier ones of the same partitions write no more. Returns its number.
    fn begin(&self, group: &GroupName, commits: &[OffsetCommit]) -> u64 {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed) + 1;
        let mut seen = lock(&self.seen);
        for commit in commits {
            seen.entry(self.root.offset(group, &commit.of)).or_default().turn = turn;
        }
        turn
    }

    /// Each result with its place among the commits; what broke down is left out.
    async fn store_all(
        self: Arc<Self>,
        group: GroupName,
        commits: Vec<OffsetCommit>,
        turn: u64,
    ) -> Vec<(usize, Result<(), CommitError>)> {
        let mut writes = JoinSet::new();
        for (place, commit) in commits.into_iter().enumerate() {
            let (shared, group) = (Arc::clone(&self), group.clone());
            writes.spawn(async move { (place, shared.store(&group, &commit, turn).await) });
        }
        let mut results = Vec::new();
        while let Some(joined) = writes.join_next().await {
            results.extend(joined);
        }
        results
    }

    async fn store(&self, group: &GroupName, commit: &OffsetCommit, turn: u64) -> Result<(), CommitError> {
        let path = self.root.offset(group, &commit.of);
        let data = commit.offset.to_string();
        for _ in 0..ATTEMPTS {
            let Some(seen) = self.about_to_send(&path, turn, &data) else {
                return Err(failed(ZooKeeperOffsetError::Superseded { path }));
            };
            let written = match seen.version {
                Some(version) => self.coordinator.set(&path, data.as_bytes(), Some(version)).await.map(|s| s.version),
                None => self.coordinator.create(&path, data.as_bytes(), NodeKind::Persistent).await.map(|()| 0),
            };
            match written {
                Ok(version) => {
                    self.remember(&path, turn, Some(version));
                    return Ok(());
                }
                Err(
                    CoordinatorError::BadVersion(_) | CoordinatorError::NodeExists(_) | CoordinatorError::NoNode(_),
                ) => {
                    if self.settle(group, &commit.of, &path, turn, &seen, &data).await? {
                        return Ok(());
                    }
                }
                Err(error) => {
                    if !matches!(error, CoordinatorError::Unknown { .. }) {
                        return Err(failed(error.into()));
                    }
                    // A read that follows in the same session tells what became of it.
                    let node = self.read(&path).await.map_err(|error| failed(error.into()))?;
                    self.remember(&path, turn, node.as_ref().map(|node| node.stat.version));
                    if node.is_some_and(|node| node.data == data.as_bytes()) {
                        return Ok(());
                    }
                }
            }
        }
        Err(failed(ZooKeeperOffsetError::Contended { path }))
    }

    /// The node is not as it was seen last. Returns whether the offset is there already.
    async fn settle(
        &self,
        group: &GroupName,
        of: &TopicPartition,
        path: &str,
        turn: u64,
        seen: &Seen,
        data: &str,
    ) -> Result<bool, CommitError> {
        if !self.owns(group, of, path).await.map_err(failed)? {
            return Err(CommitError::NotOwner);
        }
        let node = self.read(path).await.map_err(|error| failed(error.into()))?;
        self.remember(path, turn, node.as_ref().map(|node| node.stat.version));
        let found = node.map(|node| String::from_utf8_lossy(&node.data).into_owned());
        if found.as_deref() == Some(data) {
            return Ok(true);
        }
        if found.is_none() || found != seen.sent {
            let found = found.as_deref().unwrap_or_default();
            warn!(
                path,
                found,
                ours = data,
                "somebody else wrote an offset of a partition that this member owns, writing over it"
            );
        }
        Ok(false)
    }

    /// Whether the owner node makes this consumer the owner in its present session.
    async fn owns(&self, group: &GroupName, of: &TopicPartition, path: &str) -> Result<bool, ZooKeeperOffsetError> {
        let Some(owner) = self.read(&self.root.owner(group, of)).await? else { return Ok(false) };
        let session = match *self.coordinator.session().borrow() {
            SessionState::Connected(session) | SessionState::Disconnected(session) => session.id,
            _ => return Err(ZooKeeperOffsetError::NoSession { path: path.to_owned() }),
        };
        Ok(is_owned_by(&owner, &self.consumer_id, session))
    }

    async fn read(&self, path: &str) -> Result<Option<Node>, CoordinatorError> {
        crate::zk::optional(self.coordinator.get(path).await)
    }

    /// What a node was like when it was loaded.
    fn loaded(&self, path: &str, version: Option<i32>) {
        let mut seen = lock(&self.seen);
        let seen = seen.entry(path.to_owned()).or_default();
        (seen.version, seen.sent) = (version, None);
    }

    /// What a commit has found or made of a node, unless a later one has begun or the partition was given up.
    fn remember(&self, path: &str, turn: u64, version: Option<i32>) {
        if let Some(seen) = lock(&self.seen).get_mut(path).filter(|seen| seen.turn == turn) {
            (seen.version, seen.sent) = (version, None);
        }
    }

    /// What was seen last of a node that a commit writes now, if it may still do so. As long as there is no answer, it is
    /// known what was sent.
    fn about_to_send(&self, path: &str, turn: u64, data: &str) -> Option<Seen> {
        let mut seen = lock(&self.seen);
        let seen = seen.get_mut(path).filter(|seen| seen.turn == turn)?;
        let before = seen.clone();
        seen.sent = Some(data.to_owned());
        Some(before)
    }
}

fn failed(error: ZooKeeperOffsetError) -> CommitError {
    CommitError::Failed(error.into())
}

#[cfg(test)]
mod tests;
