//! Registration of a master in ZooKeeper (04 §4–§7, §10): level-triggered.
//!
//! The nodes a broker should have are computed from its [`DesiredState`] and compared with the tree after every change
//! of the session or of that state, whenever the id node is touched, and every [`COMPARE_PERIOD`]; what differs is
//! repaired, for ever, with back-off. A node counts as ours only if it belongs to the present session. The order is:
//! id node, its persistent parent, checksum, topics.

mod desired;
mod state;
mod task;
mod tree;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::coordinator::Coordinator;
use super::paths::Root;

pub use state::{DesiredState, IdConflict, RegistrationState, TopicRegistration, Unregistered};

/// How often all nodes are compared although nothing is known to have happened: a topic node that somebody deletes by
/// hand is back after so long. The id node is watched and comes back at once.
pub const COMPARE_PERIOD: Duration = Duration::from_secs(30);

/// Settings of a [`Registration`].
#[derive(Debug, Clone)]
pub struct RegistrationOptions {
    /// See [`COMPARE_PERIOD`].
    pub compare_period: Duration,
}

impl Default for RegistrationOptions {
    fn default() -> Self {
        Self { compare_period: COMPARE_PERIOD }
    }
}

/// A running registration. Start it when the broker's port is bound and its directories are locked: a node with the same
/// address is then taken for a dead predecessor's and replaced at once.
///
/// Dropped without [`unregister`](Self::unregister), it leaves the nodes to the end of the session.
#[derive(Debug)]
pub struct Registration {
    states: watch::Receiver<RegistrationState>,
    stop: oneshot::Sender<Duration>,
    task: JoinHandle<Unregistered>,
}

impl Registration {
    /// Starts to register and returns at once. That ZooKeeper cannot be reached is a state, not a failure.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(
        coordinator: Arc<dyn Coordinator>,
        root: Root,
        desired: watch::Receiver<Arc<DesiredState>>,
        options: RegistrationOptions,
    ) -> Self {
        let (sender, states) = watch::channel(RegistrationState::Connecting);
        let (stop, stopped) = oneshot::channel();
        let task = task::Task::new(coordinator, root, desired, options, sender);
        Self { states, stop, task: tokio::spawn(task.run(stopped)) }
    }

    /// The state from now on.
    pub fn state(&self) -> watch::Receiver<RegistrationState> {
        self.states.clone()
    }

    /// Waits, for ever if need be, until the broker is registered for the first time, or the
    /// coordinator is closed.
    ///
    /// # Errors
    /// [`IdConflict`] if another broker has the id and has kept it for one session time-out: the start must fail.
    pub async fn registered(&self) -> Result<(), IdConflict> {
        let mut states = self.states.clone();
        let settled = |state: &RegistrationState| {
            matches!(
                state,
                RegistrationState::Registered | RegistrationState::Conflict(_) | RegistrationState::Unregistered
            )
        };
        match states.wait_for(settled).await.as_deref() {
            Ok(RegistrationState::Conflict(conflict)) => Err(conflict.clone()),
            _ => Ok(()),
        }
    }

    /// Removes the nodes, id node first, and closes the coordinator's session. Removing takes at most `within`, closing
    /// at most a few seconds more, also if ZooKeeper cannot be reached; a lost connection is waited for that long.
    pub async fn unregister(self, within: Duration) -> Unregistered {
        let Self { stop, task, .. } = self;
        // A task that has ended already, because the coordinator was closed, has nothing to remove.
        let _ = stop.send(within);
        task.await.unwrap_or_else(|error| Unregistered::Incomplete { reason: error.to_string() })
    }
}

impl fmt::Display for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.states.borrow().fmt(f)
    }
}
