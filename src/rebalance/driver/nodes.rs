//! The nodes of one member in one session: its id node and the owner nodes of its partitions.

use std::sync::Arc;

use tokio::sync::watch;

use super::Membership;
use crate::id::TopicPartition;
use crate::zk::format::subscriptions;
use crate::zk::{
    Coordinator, CoordinatorError, Node, NodeKind, NodeStat, Root, SessionId, SessionState, Watch, is_owned_by,
    optional,
};

/// Attempts at one node that somebody else changes at the same time.
const ATTEMPTS: usize = 5;

/// What every operation on nodes needs. It does nothing any more once its session is not the present one.
#[derive(Debug, Clone)]
pub(super) struct Nodes {
    pub(super) coordinator: Arc<dyn Coordinator>,
    pub(super) root: Root,
    pub(super) membership: Arc<Membership>,
    pub(super) session: SessionId,
    pub(super) sessions: watch::Receiver<SessionState>,
    /// Earlier sessions of this process: their nodes are ours to delete.
    pub(super) former: Arc<[SessionId]>,
}

/// What became of the id node.
#[derive(Debug)]
pub(super) enum Registered {
    /// It is there and ours.
    Ours,
    /// Somebody else's node stands there, of that session; the watch tells when it changes.
    Foreign { owner: Option<SessionId>, watch: Watch },
}

/// What became of an owner node.
#[derive(Debug)]
pub(super) enum Claimed {
    /// It is there and ours.
    Ours(Watch),
    /// Somebody else's node stands there; the watch tells when it goes.
    Contested { ephemeral: bool, watch: Watch },
}

/// Whose a node is.
enum Whose {
    Nobodys,
    Ours,
    Formerly(NodeStat),
    Foreign(Option<SessionId>),
}

impl Nodes {
    pub(super) fn member(&self) -> String {
        self.root.member(&self.membership.group, &self.membership.consumer_id)
    }

    pub(super) fn owner(&self, of: &TopicPartition) -> String {
        self.root.owner(&self.membership.group, of)
    }

    /// Makes the id node ours unless somebody else has it. `may_be_ours` tells whether this driver may have made it in
    /// this session: a second consumer of the session with the same id is somebody else.
    pub(super) async fn register(&self, mut may_be_ours: bool) -> Result<Registered, CoordinatorError> {
        let path = self.member();
        let topics = subscriptions(&self.membership.topics);
        for _ in 0..ATTEMPTS {
            match self.create(&path, &topics).await {
                Ok(()) => return Ok(Registered::Ours),
                Err(CoordinatorError::Unknown { .. }) => may_be_ours = true,
                Err(CoordinatorError::NodeExists(_)) => {}
                Err(error) => return Err(error),
            }
            let (whose, watch) = self.whose(&path).await?;
            match whose {
                Whose::Nobodys => {}
                Whose::Ours if may_be_ours => return Ok(Registered::Ours),
                Whose::Ours => return Ok(Registered::Foreign { owner: Some(self.session), watch }),
                Whose::Foreign(owner) => return Ok(Registered::Foreign { owner, watch }),
                Whose::Formerly(stat) => self.delete(&path, stat).await?,
            }
        }
        Err(CoordinatorError::NodeExists(path))
    }

    /// Deletes our id node and makes it anew, with nothing in between: watches of other members fire, and when they look
    /// they see the same group as before.
    pub(super) async fn renew(&self) -> Result<Registered, CoordinatorError> {
        let path = self.member();
        let topics = subscriptions(&self.membership.topics);
        if !self.is_ours(&path).await? {
            return self.register(false).await;
        }
        let (_, created) = tokio::join! {
            biased;
            self.coordinator.delete(&path, None),
            self.coordinator.create(&path, topics.as_bytes(), NodeKind::Ephemeral),
        };
        match created {
            Ok(()) => Ok(Registered::Ours),
            Err(_) => self.register(true).await,
        }
    }

    /// Makes an owner node ours unless somebody else has it.
    pub(super) async fn claim(&self, of: &TopicPartition) -> Result<Claimed, CoordinatorError> {
        let path = self.owner(of);
        for _ in 0..ATTEMPTS {
            match self.create(&path, &self.membership.consumer_id).await {
                // Whatever the outcome, the read behind it tells what became of it.
                Ok(()) | Err(CoordinatorError::NodeExists(_) | CoordinatorError::Unknown { .. }) => {}
                Err(error) => return Err(error),
            }
            let (whose, watch) = self.whose_owner(&path).await?;
            match whose {
                Whose::Nobodys => {}
                Whose::Ours => return Ok(Claimed::Ours(watch)),
                Whose::Foreign(owner) => return Ok(Claimed::Contested { ephemeral: owner.is_some(), watch }),
                Whose::Formerly(stat) => self.delete(&path, stat).await?,
            }
        }
        Err(CoordinatorError::NodeExists(path))
    }

    /// Whether an owner node is still ours; if so, it is watched again.
    pub(super) async fn check(&self, of: &TopicPartition) -> Result<Option<Watch>, CoordinatorError> {
        let (whose, watch) = self.whose_owner(&self.owner(of)).await?;
        Ok(matches!(whose, Whose::Ours).then_some(watch))
    }

    /// Deletes our id node if it is there and ours.
    pub(super) async fn remove_member(&self) -> Result<(), CoordinatorError> {
        self.remove(&self.member(), |node| node.stat.ephemeral_owner == Some(self.session)).await
    }

    /// Deletes an owner node if it is there and ours.
    pub(super) async fn remove_owner(&self, of: &TopicPartition) -> Result<(), CoordinatorError> {
        self.remove(&self.owner(of), |node| self.is_owner(node)).await
    }

    async fn remove(&self, path: &str, is_ours: impl Fn(&Node) -> bool) -> Result<(), CoordinatorError> {
        for _ in 0..ATTEMPTS {
            self.present("delete", path)?;
            match optional(self.coordinator.get(path).await)? {
                Some(node) if is_ours(&node) => match self.coordinator.delete(path, Some(node.stat.version)).await {
                    Ok(()) | Err(CoordinatorError::NoNode(_)) => return Ok(()),
                    Err(CoordinatorError::BadVersion(_)) => {}
                    Err(error) => return Err(error),
                },
                _ => return Ok(()),
            }
        }
        Err(CoordinatorError::BadVersion(path.to_owned()))
    }

    /// Asks the leader: the answer tells that the session lived when it was asked. A read would not tell that, since a
    /// server that has lost the leader goes on answering reads, when the session is long over and its nodes are others'.
    pub(super) async fn confirm(&self) -> Result<(), CoordinatorError> {
        let path = self.member();
        self.present("sync", &path)?;
        let answer = self.coordinator.sync(&path).await;
        // It may have gone to the next session. The service shows the end of one before it opens another.
        self.present("sync", &path)?;
        match answer {
            Err(error) if !error.is_semantic() => Err(error),
            _ => Ok(()),
        }
    }

    fn is_owner(&self, node: &Node) -> bool {
        is_owned_by(node, &self.membership.consumer_id, self.session)
    }

    async fn is_ours(&self, path: &str) -> Result<bool, CoordinatorError> {
        self.present("check", path)?;
        Ok(self.coordinator.exists(path).await?.is_some_and(|stat| stat.ephemeral_owner == Some(self.session)))
    }

    async fn whose(&self, path: &str) -> Result<(Whose, Watch), CoordinatorError> {
        self.present("watch", path)?;
        let (stat, watch) = self.coordinator.watch_exists(path).await?;
        let whose = match stat {
            None => Whose::Nobodys,
            Some(NodeStat { ephemeral_owner: Some(owner), .. }) if owner == self.session => Whose::Ours,
            Some(stat) if stat.ephemeral_owner.is_some_and(|owner| self.former.contains(&owner)) => {
                Whose::Formerly(stat)
            }
            Some(stat) => Whose::Foreign(stat.ephemeral_owner),
        };
        Ok((whose, watch))
    }

    /// Whose an owner node is. In a session that several consumers share, it may name another one: that is the owner as
    /// long as it is a member of the group; what it has left behind is ours to delete.
    async fn whose_owner(&self, path: &str) -> Result<(Whose, Watch), CoordinatorError> {
        self.present("watch", path)?;
        // The read goes behind the watch: whatever changes after it is told.
        let (watched, read) = tokio::join! {
            biased;
            self.coordinator.watch_exists(path),
            self.coordinator.get(path),
        };
        let (_, watch) = watched?;
        let Some(node) = optional(read)? else { return Ok((Whose::Nobodys, watch)) };
        let whose = match node.stat.ephemeral_owner {
            _ if self.is_owner(&node) => Whose::Ours,
            Some(owner) if self.former.contains(&owner) => Whose::Formerly(node.stat),
            Some(owner) if owner == self.session && !self.is_member(&node.data).await? => Whose::Formerly(node.stat),
            owner => Whose::Foreign(owner),
        };
        Ok((whose, watch))
    }

    /// Whether a consumer of this name is a member of the group.
    async fn is_member(&self, consumer_id: &[u8]) -> Result<bool, CoordinatorError> {
        let path = self.root.members(&self.membership.group);
        self.present("list", &path)?;
        let members = optional(self.coordinator.children(&path).await)?.unwrap_or_default();
        Ok(members.iter().any(|member| member.as_bytes() == consumer_id))
    }

    async fn create(&self, path: &str, data: &str) -> Result<(), CoordinatorError> {
        self.present("create", path)?;
        self.coordinator.create(path, data.as_bytes(), NodeKind::Ephemeral).await
    }

    /// Deletes what was seen. The caller looks again, also because it may have changed meanwhile.
    async fn delete(&self, path: &str, seen: NodeStat) -> Result<(), CoordinatorError> {
        self.present("delete", path)?;
        match self.coordinator.delete(path, Some(seen.version)).await {
            Err(CoordinatorError::NoNode(_) | CoordinatorError::BadVersion(_)) => Ok(()),
            result => result,
        }
    }

    /// Calls go to whatever session there is, so each one is preceded by this.
    pub(super) fn present(&self, operation: &'static str, path: &str) -> Result<(), CoordinatorError> {
        match *self.sessions.borrow() {
            SessionState::Connected(session) | SessionState::Disconnected(session) if session.id == self.session => {
                Ok(())
            }
            _ => Err(CoordinatorError::SessionOver { operation, path: path.to_owned() }),
        }
    }
}
