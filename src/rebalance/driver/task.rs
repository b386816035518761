//! The task of a driver: follows the session, the watches and what was started, and starts what can be started.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::confirm::Confirmation;
use super::fence::Fence;
use super::holdings::Holdings;
use super::leaving::Leaving;
use super::member::{Member, Standing};
use super::nodes::{Claimed, Nodes, Registered};
use super::state::{DriverState, JoinError, Phase, Rebalance};
use super::view::View;
use super::watches::Watches;
use super::{DriverOptions, Membership};
use crate::common::panics::{caught, caught_async};
use crate::id::TopicPartition;
use crate::rebalance::{Assignee, LoadBalanceStrategy};
use crate::zk::{Backoff, Coordinator, CoordinatorError, Lease, Root, Session, SessionId, SessionState, Watch};

/// First and longest wait between two attempts after a failure.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// Operations under way at the same time.
const OPERATIONS_IN_FLIGHT: usize = 128;
/// Earlier sessions of this process that are remembered; the nodes of older ones are long gone.
pub(super) const FORMER_SESSIONS: usize = 8;

/// An operation that has ended.
#[derive(Debug)]
pub(super) enum Done {
    Registered(Result<Registered, CoordinatorError>),
    Viewed(Result<View, CoordinatorError>),
    Claimed(TopicPartition, Result<Claimed, CoordinatorError>),
    Checked(TopicPartition, Result<Option<Watch>, CoordinatorError>),
    Removed(TopicPartition, Result<(), CoordinatorError>),
    MemberRemoved(Result<(), CoordinatorError>),
    Confirmed { sent: Instant, result: Result<(), CoordinatorError> },
}

pub(super) struct Task {
    pub(super) coordinator: Arc<dyn Coordinator>,
    pub(super) root: Root,
    pub(super) membership: Arc<Membership>,
    pub(super) strategy: Arc<dyn LoadBalanceStrategy>,
    pub(super) assignee: Arc<dyn Assignee>,
    pub(super) options: DriverOptions,
    pub(super) states: watch::Sender<DriverState>,
    pub(super) sessions: watch::Receiver<SessionState>,
    /// The session whose nodes and watches we have.
    pub(super) session: Option<Session>,
    pub(super) connected: bool,
    pub(super) former: Vec<SessionId>,
    pub(super) fence: Fence,
    pub(super) lease: Lease,
    pub(super) confirmation: Confirmation,
    pub(super) member: Member,
    pub(super) holdings: Holdings,
    pub(super) rebalance: Rebalance,
    pub(super) broker_changes: u64,
    pub(super) operations: JoinSet<Done>,
    pub(super) releases: JoinSet<Vec<TopicPartition>>,
    pub(super) watches: Watches,
    pub(super) backoff: Backoff,
    pub(super) retry_at: Option<Instant>,
    pub(super) outage_logged: bool,
    pub(super) last_failure: Option<CoordinatorError>,
    /// Nodes that were reported as damaged.
    pub(super) reported: BTreeSet<String>,
    pub(super) started: Instant,
    pub(super) has_joined: bool,
    pub(super) leaving: Option<Leaving>,
    /// The coordinator is closed.
    pub(super) closed: bool,
}

impl Task {
    pub(super) fn new(
        coordinator: Arc<dyn Coordinator>,
        root: Root,
        membership: Membership,
        strategy: Arc<dyn LoadBalanceStrategy>,
        assignee: Arc<dyn Assignee>,
        options: DriverOptions,
        states: watch::Sender<DriverState>,
    ) -> Self {
        Self {
            sessions: coordinator.session(),
            coordinator,
            root,
            membership: Arc::new(membership),
            strategy,
            assignee,
            states,
            session: None,
            connected: false,
            former: Vec::new(),
            fence: Fence::default(),
            lease: options.lease.clone(),
            confirmation: Confirmation::default(),
            member: Member::default(),
            holdings: Holdings::default(),
            rebalance: Rebalance::default(),
            broker_changes: 0,
            operations: JoinSet::new(),
            releases: JoinSet::new(),
            watches: Watches::default(),
            backoff: Backoff::new(RETRY.0, RETRY.1),
            retry_at: None,
            outage_logged: false,
            last_failure: None,
            reported: BTreeSet::new(),
            started: Instant::now(),
            has_joined: false,
            leaving: None,
            closed: false,
            options,
        }
    }

    /// [Runs](Self::run). A panic is a fault of ours, which must not end in silence: who waits for the member would wait
    /// for ever.
    pub(super) async fn supervised(self, leave: CancellationToken, stop: CancellationToken) {
        let (states, membership) = (self.states.clone(), Arc::clone(&self.membership));
        let Err(panic) = caught_async(self.run(leave, stop)).await else { return };
        error!(
            group = %membership.group, consumer = membership.consumer_id, panic,
            "the member of the consumer group has ended by a fault of its own; restart the process and report this: until \
             then nobody reads its partitions"
        );
        states.send_modify(|state| {
            *state = DriverState {
                phase: Phase::Panicked(panic.into()),
                rebalance: state.rebalance,
                broker_changes: state.broker_changes,
                ..DriverState::default()
            };
        });
    }

    /// Runs until the member has left or could not join, or the driver is dropped.
    async fn run(mut self, leave: CancellationToken, stop: CancellationToken) {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.follow(leave) => {}
        }
    }

    async fn follow(&mut self, leave: CancellationToken) {
        let unspeakable = self.membership.topics.iter().find(|topic| topic.as_str().contains(','));
        if let Some(error) = unspeakable.cloned().map(JoinError::Topic) {
            self.start_leaving(Some(error));
        }
        loop {
            self.follow_session().await;
            self.tick();
            self.advance();
            if let Some(last) = self.ended() {
                self.publish(last);
                return;
            }
            self.publish(self.phase());
            let wake = self.next_wake();
            let timer = async {
                match wake {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            let may_leave = self.leaving.is_none();
            tokio::select! {
                biased;
                changed = self.sessions.changed(), if !self.closed => if changed.is_err() {
                    self.coordinator_closed().await;
                },
                () = leave.cancelled(), if may_leave => self.start_leaving(None),
                fired = self.watches.fired() => {
                    self.watch_fired(&fired);
                    while let Some(fired) = self.watches.try_fired() {
                        self.watch_fired(&fired);
                    }
                }
                Some(done) = self.operations.join_next() => {
                    let mut assigned = Vec::new();
                    self.operation_done(done, &mut assigned);
                    while let Some(done) = self.operations.try_join_next() {
                        self.operation_done(done, &mut assigned);
                    }
                    if !assigned.is_empty() {
                        self.assignee.assigned(&assigned);
                    }
                }
                Some(released) = self.releases.join_next() => self.release_done(released),
                () = timer => {}
            }
        }
    }

    fn tick(&mut self) {
        self.fence.tick(&*self.assignee);
        self.check_joining();
        if self.retry_at.is_some_and(|at| at <= Instant::now()) {
            self.retry_at = None;
            self.holdings.retry();
        }
    }

    /// Starts what can be started.
    fn advance(&mut self) {
        if !self.connected {
            return;
        }
        self.start_confirming();
        if !self.member.busy && self.retry_at.is_none() {
            self.advance_member();
        }
        let work = self.holdings.start(OPERATIONS_IN_FLIGHT.saturating_sub(self.operations.len()));
        let Some(nodes) = self.nodes() else { return };
        for of in work.remove {
            let nodes = nodes.clone();
            self.operations.spawn(async move {
                let result = nodes.remove_owner(&of).await;
                Done::Removed(of, result)
            });
        }
        for of in work.check {
            let nodes = nodes.clone();
            self.operations.spawn(async move {
                let result = nodes.check(&of).await;
                Done::Checked(of, result)
            });
        }
        for of in work.claim {
            let nodes = nodes.clone();
            self.operations.spawn(async move {
                let result = nodes.claim(&of).await;
                Done::Claimed(of, result)
            });
        }
    }

    /// The id node, or a reading of the group.
    fn advance_member(&mut self) {
        let Some(nodes) = self.nodes() else { return };
        if self.leaving.is_some() {
            // Owner nodes go first: when the id node goes, others look for what is free.
            if self.holdings.each.is_empty() && self.member.made_in.is_some() {
                self.member.busy = true;
                self.operations.spawn(async move { Done::MemberRemoved(nodes.remove_member().await) });
            }
            return;
        }
        let now = Instant::now();
        match &self.member.standing {
            Standing::Foreign { again, .. } if *again > now => {}
            Standing::Absent | Standing::Foreign { .. } => {
                let may_be_ours = self.member.made_in == Some(nodes.session);
                self.member.busy = true;
                self.operations.spawn(async move { Done::Registered(nodes.register(may_be_ours).await) });
            }
            Standing::Registered if self.member.read_at.is_some_and(|at| at <= now) => {
                self.member.reading();
                self.member.busy = true;
                let armed = self.member.armed();
                self.operations.spawn(async move { Done::Viewed(nodes.view(armed).await) });
            }
            Standing::Registered => {}
        }
    }

    /// Makes the id node anew.
    pub(super) fn start_renewing(&mut self) {
        if let (Some(nodes), false) = (self.nodes(), self.member.busy) {
            self.member.busy = true;
            self.operations.spawn(async move { Done::Registered(nodes.renew().await) });
        }
    }

    pub(super) fn nodes(&self) -> Option<Nodes> {
        Some(Nodes {
            coordinator: self.coordinator.clone(),
            root: self.root.clone(),
            membership: self.membership.clone(),
            session: self.session?.id,
            sessions: self.sessions.clone(),
            former: self.former.as_slice().into(),
        })
    }

    /// Takes over what is wanted from now on; releases begin at once.
    pub(super) fn want(&mut self, wanted: BTreeSet<TopicPartition>) {
        let release = self.holdings.want(wanted);
        if !release.is_empty() {
            let assignee = self.assignee.clone();
            self.releases.spawn(async move {
                assignee.release(&release).await;
                release
            });
        }
    }

    fn phase(&self) -> Phase {
        match (&self.leaving, self.has_joined, self.member.has_plan) {
            (Some(_), ..) => Phase::Leaving,
            (None, false, _) => Phase::Joining,
            (None, true, true) => Phase::Member,
            (None, true, false) => Phase::Rejoining,
        }
    }

    fn publish(&self, phase: Phase) {
        let owned = self.holdings.owned();
        self.states.send_if_modified(|state| {
            let before = state.clone();
            state.phase = phase;
            state.fenced = self.fence.up;
            state.rebalance = self.rebalance;
            state.broker_changes = self.broker_changes;
            state.releasing = self.holdings.releasing();
            if *state.owned != owned {
                state.owned = Arc::new(owned);
            }
            if *state.wanted != self.holdings.wanted {
                state.wanted = Arc::new(self.holdings.wanted.clone());
            }
            *state != before
        });
    }

    /// The next time at which something is due.
    fn next_wake(&self) -> Option<Instant> {
        let again = match &self.member.standing {
            Standing::Foreign { again, .. } => Some(*again),
            _ => None,
        };
        let reads = self.connected && !self.member.busy && self.leaving.is_none() && self.retry_at.is_none();
        let times = [
            self.fence.due,
            self.confirmation.next().filter(|_| self.connected),
            self.join_by(),
            self.retry_at,
            again.filter(|_| reads),
            self.member.read_at.filter(|_| reads && matches!(self.member.standing, Standing::Registered)),
            self.leaving.as_ref().and_then(|leaving| leaving.remove_by),
        ];
        times.into_iter().flatten().min()
    }
}

/// Whatever ends the task: nobody keeps the partitions any more.
impl Drop for Task {
    fn drop(&mut self) {
        self.lease.end();
        // A second panic on the way out of a first one would end the process.
        if let Err(panic) = caught(|| self.lose_everything()) {
            error!(
                group = %self.membership.group, consumer = self.membership.consumer_id, panic,
                "the reader of the consumer group's member panicked when it lost its partitions; restart the process and \
                 report this"
            );
        }
    }
}
