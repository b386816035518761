//! Membership of a consumer in its group: level-triggered (04 §9–§10, 05 §4–§5, §17).
//!
//! The driver keeps the member's id node, watches the group and its topics, and makes the member own what the plan gives
//! it: what stays is not touched, what goes is released first, what comes is claimed when its owner node is free. A node
//! counts as the member's own only if it belongs to the present session. Whatever fails is tried again, for ever, with
//! back-off.

mod confirm;
mod fence;
mod holdings;
mod leaving;
mod member;
mod nodes;
mod outcomes;
mod session;
mod state;
mod task;
mod view;
mod watches;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::assignee::Assignee;
use super::strategy::LoadBalanceStrategy;
use crate::common::clock::bounded;
use crate::id::{GroupName, TopicName, TopicPartition};
use crate::zk::{Coordinator, Lease, Root};

use task::Task;

pub use state::{DriverState, JoinError, Left, Phase, Rebalance};

/// How often everything is read although nothing is known to have happened.
pub const COMPARE_PERIOD: Duration = Duration::from_secs(30);
/// How long [`Driver::joined`] waits for ZooKeeper (`zk.zkConnectionTimeoutMs`).
pub const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// How long partitions that the plan gives to others stay without an owner before the member's id node is made anew: a
/// Java member that has failed to claim them tries again only when something happens in the group (05 §4).
pub const UNCLAIMED_AFTER: Duration = Duration::from_secs(60);
/// How long removing nodes may take when the member leaves, its partitions being released.
pub const REMOVE_TIMEOUT: Duration = Duration::from_secs(10);

/// A consumer as its group sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The group.
    pub group: GroupName,
    /// The member's name, unique in the group: `<group>_<id>` (04 §9).
    pub consumer_id: String,
    /// What it subscribes to.
    pub topics: BTreeSet<TopicName>,
}

/// Settings of a [`Driver`].
#[derive(Debug, Clone)]
pub struct DriverOptions {
    /// See [`CONNECTION_TIMEOUT`].
    pub connection_timeout: Duration,
    /// See [`COMPARE_PERIOD`].
    pub compare_period: Duration,
    /// See [`UNCLAIMED_AFTER`].
    pub unclaimed_after: Duration,
    /// See [`REMOVE_TIMEOUT`].
    pub remove_timeout: Duration,
    /// Tells who reads, before each delivery and each commit, whether the member's session is known to live. The driver
    /// renews it.
    pub lease: Lease,
}

impl DriverOptions {
    /// The same with times that every clock can express.
    fn bounded(self) -> Self {
        Self {
            connection_timeout: bounded(self.connection_timeout),
            compare_period: bounded(self.compare_period),
            unclaimed_after: bounded(self.unclaimed_after),
            remove_timeout: bounded(self.remove_timeout),
            lease: self.lease,
        }
    }
}

impl Default for DriverOptions {
    fn default() -> Self {
        Self {
            connection_timeout: CONNECTION_TIMEOUT,
            compare_period: COMPARE_PERIOD,
            unclaimed_after: UNCLAIMED_AFTER,
            remove_timeout: REMOVE_TIMEOUT,
            lease: Lease::new(),
        }
    }
}

/// A running membership.
///
/// Dropped without [`leave`](Self::leave), it tells the assignee that everything is lost and leaves the nodes to the end
/// of the session; the drop does not wait for that.
#[derive(Debug)]
pub struct Driver {
    states: watch::Receiver<DriverState>,
    leave: CancellationToken,
    _stop_when_dropped: DropGuard,
}

impl Driver {
    /// Starts to join and returns at once. ZooKeeper is shared: the session is neither opened nor closed here.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(
        coordinator: Arc<dyn Coordinator>,
        root: Root,
        membership: Membership,
        strategy: Arc<dyn LoadBalanceStrategy>,
        assignee: Arc<dyn Assignee>,
        options: DriverOptions,
    ) -> Self {
        let options = options.bounded();
        let (sender, states) = watch::channel(DriverState::default());
        let (leave, stop) = (CancellationToken::new(), CancellationToken::new());
        let task = Task::new(coordinator, root, membership, strategy, assignee, options, sender);
        tokio::spawn(task.supervised(leave.clone(), stop.clone()));
        Self { states, leave, _stop_when_dropped: stop.drop_guard() }
    }

    /// Waits until the member's node, the watches and the first plan exist; claiming what the plan gives it goes on.
    /// Ends within the connection time-out, or one session time-out later if another consumer has the id.
    /// Cancellation-safe.
    ///
    /// # Errors
    /// [`JoinError`]; the driver has cleaned up and ended.
    pub async fn joined(&self) -> Result<(), JoinError> {
        let mut states = self.states.clone();
        let decided = |state: &DriverState| !matches!(state.phase, Phase::Joining | Phase::Leaving);
        match states.wait_for(decided).await.as_deref() {
            Ok(DriverState { phase: Phase::Failed(error), .. }) => Err(error.clone()),
            Ok(DriverState { phase: Phase::Panicked(panic), .. }) => Err(JoinError::Panicked(Arc::clone(panic))),
            Ok(DriverState { phase: Phase::Left(_), .. }) | Err(_) => Err(JoinError::Left),
            Ok(_) => Ok(()),
        }
    }

    /// The state from now on. States may be coalesced: [`Rebalance::number`] tells whether there were others.
    pub fn state(&self) -> watch::Receiver<DriverState> {
        self.states.clone()
    }

    /// What the member owns now.
    pub fn owned(&self) -> Arc<BTreeSet<TopicPartition>> {
        self.states.borrow().owned.clone()
    }

    /// What the latest plan gives it.
    pub fn wanted(&self) -> Arc<BTreeSet<TopicPartition>> {
        self.states.borrow().wanted.clone()
    }

    /// What the driver has panicked with, if a fault of this library has ended it.
    pub fn panicked(&self) -> Option<Arc<str>> {
        match &self.states.borrow().phase {
            Phase::Panicked(panic) => Some(Arc::clone(panic)),
            _ => None,
        }
    }

    /// Releases every partition, then removes the member's nodes; the watches go too. Takes as long as the assignee takes
    /// to release, and [`DriverOptions::remove_timeout`] more at most. A second call waits for the same.
    ///
    /// Cancellation-safe: once polled, leaving goes on.
    pub async fn leave(&self) -> Left {
        self.leave.cancel();
        let mut states = self.states.clone();
        let gone = |state: &DriverState| matches!(state.phase, Phase::Left(_) | Phase::Failed(_) | Phase::Panicked(_));
        match states.wait_for(gone).await.as_deref() {
            Ok(DriverState { phase: Phase::Left(left), .. }) => left.clone(),
            Ok(DriverState { phase: Phase::Panicked(panic), .. }) => {
                Left::Incomplete { reason: format!("the driver has ended by a fault of its own: {panic}") }
            }
            Ok(_) => Left::Complete,
            Err(_) => Left::Incomplete { reason: "the driver has ended".to_owned() },
        }
    }
}

#[cfg(test)]
mod tests;
