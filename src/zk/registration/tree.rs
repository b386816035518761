//! Bringing single nodes, and the nodes of many topics, to what they should be.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::zk::coordinator::{Coordinator, NodeKind, SessionId};
use crate::zk::error::{CoordinatorError, gone, optional};

use super::desired::{Claim, Step, Wanted, claim, step};

/// Topics whose nodes are worked on at the same time.
const TOPICS_IN_FLIGHT: usize = 32;
/// Attempts at one node that somebody else changes at the same time.
const ATTEMPTS: usize = 5;

/// Creates an ephemeral node that should not be there yet, or else brings it to what it should be; tells whether it had
/// to be changed. One round trip less than [`ensure`] where the node is indeed new.
async fn create_or_ensure(
    coordinator: &dyn Coordinator,
    session: SessionId,
    wanted: &Wanted,
) -> Result<bool, CoordinatorError> {
    if let Some(data) = &wanted.data {
        match coordinator.create(&wanted.path, data.as_bytes(), NodeKind::Ephemeral).await {
            Ok(()) => return Ok(true),
            Err(CoordinatorError::NodeExists(_)) => {}
            Err(error) => return Err(error),
        }
    }
    ensure(coordinator, session, wanted).await
}

/// Brings an ephemeral node to what it should be; tells whether it had to be changed.
pub(super) async fn ensure(
    coordinator: &dyn Coordinator,
    session: SessionId,
    wanted: &Wanted,
) -> Result<bool, CoordinatorError> {
    let path = &wanted.path;
    for _ in 0..ATTEMPTS {
        let present = optional(coordinator.get(path).await)?;
        let step = step(present.as_ref(), wanted.data.as_deref(), session);
        if step == Step::Keep {
            return Ok(false);
        }
        if step != Step::Create {
            gone(coordinator.delete(path, None).await)?;
        }
        let Some(data) = &wanted.data else { return Ok(true) };
        match coordinator.create(path, data.as_bytes(), NodeKind::Ephemeral).await {
            Ok(()) => return Ok(true),
            Err(CoordinatorError::NodeExists(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Err(CoordinatorError::NodeExists(path.clone()))
}

/// Deletes an ephemeral node if it belongs to this session.
pub(super) async fn remove_own(
    coordinator: &dyn Coordinator,
    session: SessionId,
    path: &str,
) -> Result<(), CoordinatorError> {
    match optional(coordinator.get(path).await)? {
        Some(node) if node.stat.ephemeral_owner == Some(session) => gone(coordinator.delete(path, None).await),
        _ => Ok(()),
    }
}

/// The `master` node as this registration sees it.
#[derive(Debug)]
pub(super) struct IdNode<'a> {
    pub(super) path: &'a str,
    pub(super) url: &'a str,
    pub(super) session: SessionId,
    pub(super) earlier: &'a [SessionId],
    pub(super) registered_before: bool,
}

/// Outcome of [`IdNode::claim`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Claimed {
    Ours { changed: bool },
    Foreign(String),
}

impl IdNode<'_> {
    /// Makes the id node ours unless another broker has it.
    pub(super) async fn claim(&self, coordinator: &dyn Coordinator) -> Result<Claimed, CoordinatorError> {
        for _ in 0..ATTEMPTS {
            let present = optional(coordinator.get(self.path).await)?;
            match claim(present.as_ref(), self.url, self.session, self.earlier, self.registered_before) {
                Claim::Ours => return Ok(Claimed::Ours { changed: false }),
                Claim::Foreign(url) => return Ok(Claimed::Foreign(url)),
                Claim::Free => {}
                Claim::Stale => {
                    tracing::info!(path = self.path, "replacing the node that an earlier session left");
                    match gone(coordinator.delete(self.path, present.map(|node| node.stat.version)).await) {
                        Ok(()) => {}
                        Err(CoordinatorError::BadVersion(_)) => continue,
                        Err(error) => return Err(error),
                    }
                }
            }
            match coordinator.create(self.path, self.url.as_bytes(), NodeKind::Ephemeral).await {
                Ok(()) => return Ok(Claimed::Ours { changed: true }),
                Err(CoordinatorError::NodeExists(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(CoordinatorError::NodeExists(self.path.to_owned()))
    }
}

/// Gives the persistent `brokers/ids/<id>` its data, for clients older than the `master` child (04 §4).
pub(super) async fn ensure_persistent(
    coordinator: &dyn Coordinator,
    path: &str,
    data: &str,
) -> Result<bool, CoordinatorError> {
    for _ in 0..ATTEMPTS {
        match optional(coordinator.get(path).await)? {
            Some(node) if node.data == data.as_bytes() => return Ok(false),
            Some(_) => {
                if optional(coordinator.set(path, data.as_bytes(), None).await)?.is_some() {
                    return Ok(true);
                }
            }
            None => match coordinator.create(path, data.as_bytes(), NodeKind::Persistent).await {
                Ok(()) => return Ok(true),
                Err(CoordinatorError::NodeExists(_)) => {}
                Err(error) => return Err(error),
            },
        }
    }
    Err(CoordinatorError::NodeExists(path.to_owned()))
}

/// What to do with the nodes of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Job {
    /// Bring them to what they should be.
    Ensure,
    /// The same for nodes that are probably not there.
    Create,
    /// Delete those that belong to this session.
    Remove,
}

/// Works on the nodes of many topics, of several topics at the same time; tells how many nodes were changed. The first
/// failure ends it.
pub(super) async fn each_topic(
    coordinator: &Arc<dyn Coordinator>,
    session: SessionId,
    job: Job,
    topics: impl Iterator<Item = [Wanted; 3]>,
) -> Result<usize, CoordinatorError> {
    let mut running = JoinSet::new();
    let mut changed = 0;
    for [old, publish, subscribe] in topics {
        if running.len() >= TOPICS_IN_FLIGHT {
            changed += finished(&mut running).await?;
        }
        let coordinator = coordinator.clone();
        running.spawn(async move {
            let node = |wanted| work(&*coordinator, session, job, wanted);
            let (old, publish, subscribe) = tokio::try_join!(node(&old), node(&publish), node(&subscribe))?;
            Ok(usize::from(old) + usize::from(publish) + usize::from(subscribe))
        });
    }
    while !running.is_empty() {
        changed += finished(&mut running).await?;
    }
    Ok(changed)
}

/// One node; whether it was changed.
async fn work(
    coordinator: &dyn Coordinator,
    session: SessionId,
    job: Job,
    wanted: &Wanted,
) -> Result<bool, CoordinatorError> {
    match job {
        Job::Ensure => ensure(coordinator, session, wanted).await,
        Job::Create => create_or_ensure(coordinator, session, wanted).await,
        Job::Remove => remove_own(coordinator, session, &wanted.path).await.map(|()| false),
    }
}

async fn finished(running: &mut JoinSet<Result<usize, CoordinatorError>>) -> Result<usize, CoordinatorError> {
    match running.join_next().await {
        None => Ok(0),
        Some(Ok(result)) => result,
        Some(Err(error)) => Err(CoordinatorError::Unknown {
            operation: "register",
            path: "topic nodes".to_owned(),
            reason: error.to_string(),
        }),
    }
}
