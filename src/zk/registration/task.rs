//! The task that compares and repairs, until it is stopped.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

use crate::id::TopicName;
use crate::zk::backoff::Backoff;
use crate::zk::coordinator::{Coordinator, Session, SessionId, SessionState, Watch};
use crate::zk::error::{CoordinatorError, gone, optional};
use crate::zk::format::config_checksum;
use crate::zk::paths::Root;

use super::RegistrationOptions;
use super::desired::{Wanted, topic_nodes};
use super::state::{DesiredState, IdConflict, RegistrationState, Unregistered};
use super::tree::{Claimed, IdNode, Job, each_topic, ensure, ensure_persistent, remove_own};

/// First and longest wait between two attempts after a failure.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

pub(super) struct Task {
    coordinator: Arc<dyn Coordinator>,
    root: Root,
    options: RegistrationOptions,
    states: watch::Sender<RegistrationState>,
    sessions: watch::Receiver<SessionState>,
    desired: watch::Receiver<Arc<DesiredState>>,
    /// Topics that may have nodes of ours: what is desired, and what was and is not yet removed.
    topics: BTreeSet<TopicName>,
    /// Every session of this process, the present one last.
    own: Vec<SessionId>,
    /// The session in which a comparison has succeeded last.
    registered_in: Option<SessionId>,
    /// What the last successful comparison was made with, and in which session. Gone when something else than a change
    /// of the desired state calls for a comparison: then every node is looked at.
    compared: Option<(SessionId, Arc<DesiredState>)>,
    /// The armed watch on the id node, and the session it belongs to.
    watch: Option<(SessionId, Watch)>,
    conflict_since: Option<Instant>,
    backoff: Backoff,
}

enum Outcome {
    Registered { changed: usize },
    Foreign(String),
}

impl Task {
    pub(super) fn new(
        coordinator: Arc<dyn Coordinator>,
        root: Root,
        desired: watch::Receiver<Arc<DesiredState>>,
        options: RegistrationOptions,
        states: watch::Sender<RegistrationState>,
    ) -> Self {
        Self {
            sessions: coordinator.session(),
            coordinator,
            root,
            options,
            states,
            desired,
            topics: BTreeSet::new(),
            own: Vec::new(),
            registered_in: None,
            compared: None,
            watch: None,
            conflict_since: None,
            backoff: Backoff::new(RETRY.0, RETRY.1),
        }
    }

    /// Runs until told to unregister, within the time sent; ends without a trace when the sender is dropped.
    pub(super) async fn run(mut self, mut stop: oneshot::Receiver<Duration>) -> Unregistered {
        let within = tokio::select! {
            biased;
            within = &mut stop => within,
            () = self.keep_registered() => return Unregistered::Complete,
        };
        match within {
            Ok(within) => self.unregister(within).await,
            Err(_) => Unregistered::Incomplete { reason: "the registration was dropped".to_owned() },
        }
    }

    async fn keep_registered(&mut self) {
        loop {
            let state = *self.sessions.borrow_and_update();
            let Some(session) = state.connected() else {
                match state {
                    SessionState::Disconnected(session) if self.registered_in == Some(session.id) => {
                        self.publish(RegistrationState::Disconnected)
                    }
                    SessionState::Closed => {
                        self.publish(RegistrationState::Unregistered);
                        return;
                    }
                    _ => self.publish(RegistrationState::Connecting),
                }
                if self.sessions.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let wait = self.compare(session).await;
            self.wait(wait).await;
        }
    }

    /// One comparison with all its consequences; returns the time until the next one.
    async fn compare(&mut self, session: Session) -> Duration {
        if self.own.last() != Some(&session.id) {
            self.own.push(session.id);
        }
        let first = self.registered_in != Some(session.id);
        if first && !matches!(*self.states.borrow(), RegistrationState::Waiting { .. } | RegistrationState::Conflict(_))
        {
            self.publish(RegistrationState::Registering);
        }
        let desired = self.desired.borrow_and_update().clone();
        let pass = match self.compared.take() {
            Some((compared_in, before)) if compared_in == session.id => {
                self.pass_on_changes(session, &before, &desired).await
            }
            _ => self.pass(session, &desired).await,
        };
        let outcome = match pass {
            Ok(outcome) => self.arm(session, &desired, &outcome).await.map(|settled| (outcome, settled)),
            Err(error) => Err(error),
        };
        match outcome {
            // The id node changed between the comparison and the watch.
            Ok((_, false)) => Duration::ZERO,
            Ok((Outcome::Registered { changed }, true)) => {
                self.backoff.reset();
                self.conflict_since = None;
                self.registered_in = Some(session.id);
                if changed > 0 {
                    info!(broker = %desired.broker, url = %desired.url, topics = desired.topics.len(), changed, "nodes in zookeeper brought up to date");
                }
                self.publish(RegistrationState::Registered);
                self.compared = Some((session.id, desired));
                self.options.compare_period
            }
            Ok((Outcome::Foreign(owner), true)) => self.conflict(session, &desired, owner),
            // The change of the session that follows says it better.
            Err(CoordinatorError::SessionOver { .. } | CoordinatorError::NoSession { .. }) => self.backoff.failed(),
            Err(error) => {
                self.publish(RegistrationState::Waiting { reason: error.to_string() });
                self.backoff.failed()
            }
        }
    }

    async fn pass(&mut self, session: Session, desired: &DesiredState) -> Result<Outcome, CoordinatorError> {
        let coordinator = self.coordinator.clone();
        let url = desired.url.to_string();
        let earlier = self.own.split_last().map_or(&[][..], |(_, earlier)| earlier);
        let node = IdNode {
            path: &self.root.master(desired.broker),
            url: &url,
            session: session.id,
            earlier,
            registered_before: self.registered_in.is_some(),
        };
        let mut changed = match node.claim(&*coordinator).await? {
            Claimed::Ours { changed } => usize::from(changed),
            Claimed::Foreign(owner) => return Ok(Outcome::Foreign(owner)),
        };
        changed += usize::from(ensure_persistent(&*coordinator, &self.root.broker(desired.broker), &url).await?);
        let checksum = Wanted {
            path: self.root.master_config_checksum(desired.broker),
            data: Some(config_checksum(desired.checksum)),
        };
        changed += usize::from(ensure(&*coordinator, session.id, &checksum).await?);

        // Before the first create, so that a node of unknown outcome is never forgotten.
        self.topics.extend(desired.topics.keys().cloned());
        let nodes =
            self.topics.iter().map(|topic| topic_nodes(&self.root, desired.broker, topic, desired.topics.get(topic)));
        changed += each_topic(&coordinator, session.id, Job::Ensure, nodes).await?;
        self.topics.retain(|topic| desired.topics.contains_key(topic));
        Ok(Outcome::Registered { changed })
    }

    /// As [`pass`](Self::pass), but only over what differs between two desired states; the id node is watched meanwhile.
    /// A topic that is born shows up within a few round trips, however many others there are.
    async fn pass_on_changes(
        &mut self,
        session: Session,
        before: &DesiredState,
        desired: &DesiredState,
    ) -> Result<Outcome, CoordinatorError> {
        if (before.broker, &before.url, before.checksum) != (desired.broker, &desired.url, desired.checksum) {
            return self.pass(session, desired).await;
        }
        let coordinator = self.coordinator.clone();
        self.topics.extend(desired.topics.keys().cloned());
        let nodes = |topic| topic_nodes(&self.root, desired.broker, topic, desired.topics.get(topic));
        let new = desired.topics.keys().filter(|&topic| !before.topics.contains_key(topic));
        let mut changed = each_topic(&coordinator, session.id, Job::Create, new.map(nodes)).await?;
        let other = before.topics.iter().filter(|&(topic, settings)| desired.topics.get(topic) != Some(settings));
        let other = other.map(|(topic, _)| nodes(topic));
        changed += each_topic(&coordinator, session.id, Job::Ensure, other).await?;
        self.topics.retain(|topic| desired.topics.contains_key(topic));
        Ok(Outcome::Registered { changed })
    }

    /// Arms the watch on the id node; false if the node is not as the comparison has left it.
    async fn arm(
        &mut self,
        session: Session,
        desired: &DesiredState,
        outcome: &Outcome,
    ) -> Result<bool, CoordinatorError> {
        if self.watch.as_ref().is_some_and(|(armed_in, _)| *armed_in == session.id) {
            return Ok(true);
        }
        let (stat, watch) = self.coordinator.watch_exists(&self.root.master(desired.broker)).await?;
        self.watch = Some((session.id, watch));
        let ours = stat.is_some_and(|stat| stat.ephemeral_owner == Some(session.id));
        Ok(match outcome {
            Outcome::Registered { .. } => ours,
            Outcome::Foreign(_) => stat.is_some() && !ours,
        })
    }

    /// At the start the other broker gets one session time-out to go; once registered, we are in conflict at once.
    fn conflict(&mut self, session: Session, desired: &DesiredState, owner: String) -> Duration {
        let since = *self.conflict_since.get_or_insert_with(Instant::now);
        let left = session.timeout.saturating_sub(since.elapsed());
        let conflict = IdConflict { broker: desired.broker, owner, path: self.root.master(desired.broker) };
        if self.registered_in.is_some() || left.is_zero() {
            self.publish(RegistrationState::Conflict(conflict));
            return self.options.compare_period;
        }
        let reason = format!("{conflict}; waiting {} ms for its session to end", session.timeout.as_millis());
        self.publish(RegistrationState::Waiting { reason });
        left.min(self.options.compare_period)
    }

    /// Waits for anything that calls for a comparison.
    async fn wait(&mut self, at_most: Duration) {
        let Self { sessions, desired, watch, compared, .. } = self;
        let watched = async {
            match watch {
                Some((_, watch)) => watch.await,
                None => pending().await,
            }
        };
        let wanted = async {
            if desired.changed().await.is_err() {
                // Nobody can change it any more.
                pending::<()>().await;
            }
        };
        tokio::select! {
            _ = watched => {
                *watch = None;
                *compared = None;
            }
            _ = sessions.changed() => *compared = None,
            () = sleep(at_most) => *compared = None,
            () = wanted => {}
        }
    }

    /// One line per change; the same state again is silent.
    fn publish(&self, state: RegistrationState) {
        if *self.states.borrow() == state {
            return;
        }
        match &state {
            RegistrationState::Waiting { .. } | RegistrationState::Conflict(_) | RegistrationState::Disconnected => {
                warn!(%state, "registration")
            }
            RegistrationState::Registering => debug!(%state, "registration"),
            _ => info!(%state, "registration"),
        }
        self.states.send_replace(state);
    }

    /// Removes the nodes in the reference's order (04 §6), then closes the session, which takes whatever is left.
    async fn unregister(&mut self, within: Duration) -> Unregistered {
        let outcome = match timeout(within, self.remove_when_connected()).await {
            Ok(Ok(())) => Unregistered::Complete,
            Ok(Err(error)) => Unregistered::Incomplete { reason: error.to_string() },
            Err(_) => Unregistered::Incomplete {
                reason: format!("ZooKeeper did not remove all nodes within {} ms", within.as_millis()),
            },
        };
        self.coordinator.close().await;
        if let Unregistered::Incomplete { reason } = &outcome {
            warn!(reason, "nodes may remain in zookeeper until the session ends");
        }
        self.publish(RegistrationState::Unregistered);
        outcome
    }

    /// A lost connection is waited for, since the session and its nodes may outlive it.
    async fn remove_when_connected(&mut self) -> Result<(), CoordinatorError> {
        let mut sessions = self.sessions.clone();
        let state = sessions.wait_for(|state| !matches!(state, SessionState::Disconnected(_))).await;
        let session = state.ok().and_then(|state| state.connected());
        match session {
            Some(session) => self.remove_nodes(session).await,
            None if self.own.is_empty() => Ok(()),
            None => Err(CoordinatorError::NoSession {
                operation: "delete",
                path: self.root.master(self.desired.borrow().broker),
            }),
        }
    }

    async fn remove_nodes(&mut self, session: Session) -> Result<(), CoordinatorError> {
        let desired = self.desired.borrow().clone();
        let coordinator = self.coordinator.clone();
        remove_own(&*coordinator, session.id, &self.root.master(desired.broker)).await?;
        remove_own(&*coordinator, session.id, &self.root.master_config_checksum(desired.broker)).await?;
        self.remove_broker(&desired).await?;
        let nodes = self.topics.iter().map(|topic| topic_nodes(&self.root, desired.broker, topic, None));
        each_topic(&coordinator, session.id, Job::Remove, nodes).await?;
        Ok(())
    }

    /// Deletes `brokers/ids/<id>`, or blanks it below a slave; an address that is not ours is left alone.
    async fn remove_broker(&mut self, desired: &DesiredState) -> Result<(), CoordinatorError> {
        let path = self.root.broker(desired.broker);
        match optional(self.coordinator.get(&path).await)? {
            Some(node) if node.data == desired.url.to_string().as_bytes() => {}
            _ => return Ok(()),
        }
        match gone(self.coordinator.delete(&path, None).await) {
            Err(CoordinatorError::NotEmpty(_)) => {
                optional(self.coordinator.set(&path, b"", None).await)?;
                Ok(())
            }
            result => result,
        }
    }
}
