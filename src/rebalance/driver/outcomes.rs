//! What follows from what has happened: operations that ended, watches that fired, partitions that were released.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::JoinError as TaskError;
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

use super::holdings::{Check, Holding};
use super::member::Standing;
use super::nodes::{Claimed, Registered};
use super::state::JoinError;
use super::task::{Done, Task};
use super::view::{List, View};
use super::watches::{Fired, Watched};
use crate::common::panics::caught;
use crate::id::TopicPartition;
use crate::rebalance::Plan;
use crate::zk::{CoordinatorError, SessionId, Watch};

/// How long changes of the group are collected before it is read: members and brokers often come several at a time, and
/// a broker that changes a topic deletes its node and makes it anew (04 §5).
const SETTLE: Duration = Duration::from_millis(50);
/// Beyond its time-out, how long a session may take to end: servers look once per tick.
const EXPIRY_LATENESS: Duration = Duration::from_secs(2);

impl Task {
    /// An operation has ended; what it made ours joins `assigned`.
    pub(super) fn operation_done(&mut self, done: Result<Done, TaskError>, assigned: &mut Vec<TopicPartition>) {
        match done {
            Ok(Done::Registered(result)) => {
                self.member.busy = false;
                self.registered(result);
            }
            Ok(Done::Viewed(result)) => {
                self.member.busy = false;
                match result {
                    Ok(view) => self.viewed(view),
                    Err(error) => {
                        self.member.read_by(Instant::now());
                        self.failed(error);
                    }
                }
            }
            Ok(Done::Claimed(of, result)) => match self.claimed(&of, result, assigned) {
                Some(holding) => _ = self.holdings.each.insert(of, holding),
                None => _ = self.holdings.each.remove(&of),
            },
            Ok(Done::Checked(of, result)) => self.checked(of, result),
            Ok(Done::Removed(of, result)) => match result {
                Ok(()) if self.holdings.wanted.contains(&of) => {
                    self.holdings.each.insert(of, Holding::Unclaimed);
                }
                Ok(()) => _ = self.holdings.each.remove(&of),
                Err(error) => {
                    self.failed(error);
                    self.holdings.each.insert(of, Holding::Failed);
                }
            },
            Ok(Done::MemberRemoved(result)) => {
                self.member.busy = false;
                match result {
                    Ok(()) => self.member.made_in = None,
                    Err(error) => self.failed(error),
                }
            }
            Ok(Done::Confirmed { sent, result }) => self.confirmed(sent, result),
            // Nothing is broken off without the whole set; what panicked is not carried on with.
            Err(error) => {
                if let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }

    fn registered(&mut self, result: Result<Registered, CoordinatorError>) {
        let Some(session) = self.session else { return };
        match result {
            Ok(Registered::Ours) => {
                self.member.made_in = Some(session.id);
                self.member.standing = Standing::Registered;
                self.member.foreign_since = None;
                self.member.read_by(Instant::now());
            }
            Ok(Registered::Foreign { owner, watch }) => {
                let now = Instant::now();
                let first = self.member.foreign_since.is_none();
                let since = *self.member.foreign_since.get_or_insert(now);
                let until = since + session.timeout + EXPIRY_LATENESS;
                if std::mem::take(&mut self.member.has_plan) {
                    // Who has our name is given what we own.
                    self.want(BTreeSet::new());
                }
                if now >= until && !self.has_joined {
                    return self.start_leaving(Some(self.id_in_use(owner)));
                }
                if first {
                    warn!(
                        group = %self.membership.group, error = %self.id_in_use(owner),
                        "the consumer waits for its id"
                    );
                }
                let again = if now < until { until } else { now + self.options.compare_period };
                let watch = self.watches.arm(Watched::Member, watch);
                self.member.standing = Standing::Foreign { watch, again };
            }
            Err(error) => {
                // It may have been made nevertheless.
                self.member.made_in = Some(session.id);
                self.member.standing = Standing::Absent;
                self.failed(error);
            }
        }
    }

    fn id_in_use(&self, owner: Option<SessionId>) -> JoinError {
        let consumer = self.membership.consumer_id.clone();
        let path = self.root.member(&self.membership.group, &consumer);
        match owner {
            Some(session) => JoinError::IdInUse { consumer, path, session },
            None => JoinError::IdBlocked { consumer, path },
        }
    }

    /// Makes the plan of what was read.
    fn viewed(&mut self, mut view: View) {
        for (list, watch) in view.watches.drain(..) {
            let armed = self.watches.arm(Watched::List(list.clone()), watch);
            self.member.arm(list, armed);
        }
        for (path, reason) in view.damaged.drain(..) {
            if self.reported.insert(path.clone()) {
                warn!(path, reason, "skip unreadable topic node");
            }
        }
        if self.leaving.is_some() || self.member.is_stale() {
            return;
        }
        if !view.is_member {
            // Somebody has deleted our node. What is ours stays so until a plan says otherwise.
            self.member.standing = Standing::Absent;
            return;
        }
        let is_gone =
            |of: &TopicPartition| view.topics.get(&of.topic).is_none_or(|g| !g.partitions.contains(&of.partition));
        if self.member.must_confirm(self.holdings.kept().iter().any(is_gone)) {
            self.member.read_by(Instant::now() + SETTLE);
            return;
        }
        self.holdings.compare(|of| view.has_owner(of));
        let me = self.membership.consumer_id.clone();
        let plan = match caught(|| Plan::new(&me, &view.topics, &*self.strategy, &self.holdings.kept())) {
            Ok(plan) => plan,
            Err(panic) => return self.strategy_panicked(panic),
        };
        self.healthy();
        self.has_joined = true;
        self.member.has_plan = true;
        let wanted = plan.wanted();
        let is_new = wanted != self.holdings.wanted;
        if is_new {
            self.rebalance.number += 1;
            self.rebalance.kept = plan.keep.len();
            self.rebalance.released = plan.release.len();
            self.rebalance.claimed = plan.claim.len();
            info!(group = %self.membership.group, consumer = me, number = self.rebalance.number, %plan, "rebalance");
        }
        let long = self.member.note_unclaimed(&view, &wanted, self.options.unclaimed_after);
        self.want(wanted);
        if let Some(first) = long.iter().find(|of| self.is_given_to_another(of, &view)) {
            info!(
                group = %self.membership.group, partition = %first, partitions = long.len(),
                after_ms = self.options.unclaimed_after.as_millis(),
                "nobody has claimed partitions of other members, making the id node anew so that they try again"
            );
            self.start_renewing();
        }
        let next = Instant::now() + self.options.compare_period;
        self.member.read_by(self.member.unclaimed_due(self.options.unclaimed_after).map_or(next, |due| due.min(next)));
    }

    /// The application's strategy has no plan for the group as it is: what is owned stays so until there is one.
    fn strategy_panicked(&mut self, panic: String) {
        if !self.has_joined {
            return self.start_leaving(Some(JoinError::Strategy(panic)));
        }
        error!(
            group = %self.membership.group, panic,
            "the load balance strategy panicked; the member keeps what it owns and asks it again"
        );
        self.member.read_by(Instant::now() + self.options.compare_period);
    }

    fn is_given_to_another(&self, of: &TopicPartition, view: &View) -> bool {
        let Some(group) = view.topics.get(&of.topic) else { return false };
        let mut others = group.consumers.iter().filter(|consumer| **consumer != self.membership.consumer_id);
        // A strategy that panics on another member gives it nothing.
        others.any(|other| {
            caught(|| group.share(&of.topic, other, &*self.strategy)).is_ok_and(|share| share.contains(of))
        })
    }

    fn claimed(
        &mut self,
        of: &TopicPartition,
        result: Result<Claimed, CoordinatorError>,
        assigned: &mut Vec<TopicPartition>,
    ) -> Option<Holding> {
        let wanted = self.holdings.wanted.contains(of);
        match result {
            Ok(Claimed::Ours(watch)) if wanted => {
                assigned.push(of.clone());
                Some(Holding::Owned(Check::Watched(self.watches.arm(Watched::Owner(of.clone()), watch))))
            }
            Ok(Claimed::Ours(_)) => Some(Holding::Unsure),
            Ok(Claimed::Contested { ephemeral, watch }) => {
                let path = self.root.owner(&self.membership.group, of);
                if !ephemeral && self.reported.insert(path.clone()) {
                    warn!(path, "the owner node belongs to no session, so no consumer has made it; delete it");
                }
                wanted.then(|| Holding::Contested(self.watches.arm(Watched::Owner(of.clone()), watch)))
            }
            Err(error) => {
                self.failed(error);
                Some(Holding::Failed)
            }
        }
    }

    /// Whether the owner node of a partition of ours is still there.
    fn checked(&mut self, of: TopicPartition, result: Result<Option<Watch>, CoordinatorError>) {
        let Some(holding @ Holding::Owned(Check::Running)) = self.holdings.each.get_mut(&of) else { return };
        match result {
            Ok(Some(watch)) => {
                *holding = Holding::Owned(Check::Watched(self.watches.arm(Watched::Owner(of), watch)));
            }
            Ok(None) => {
                *holding = Holding::Unclaimed;
                warn!(
                    group = %self.membership.group, partition = %of,
                    "the owner node was deleted by somebody else, the partition is lost and claimed again"
                );
                self.assignee.lost(&[of]);
            }
            Err(error) => {
                *holding = Holding::Owned(Check::Failed);
                self.failed(error);
            }
        }
    }

    pub(super) fn watch_fired(&mut self, fired: &Fired) {
        match &fired.what {
            Watched::List(list) => {
                if self.member.list_fired(list, fired) {
                    self.broker_changes += u64::from(matches!(list, List::Topic(_)));
                    self.member.changed();
                    self.member.read_by(Instant::now() + SETTLE);
                }
            }
            Watched::Member => {
                if matches!(&self.member.standing, Standing::Foreign { watch, .. } if watch.is(fired)) {
                    self.member.standing = Standing::Absent;
                }
            }
            Watched::Owner(of) => self.holdings.fired(of, fired),
        }
    }

    /// The assignee has given up partitions. One that is wanted again by now stays ours.
    pub(super) fn release_done(&mut self, released: Result<Vec<TopicPartition>, TaskError>) {
        let released = match released {
            Ok(released) => released,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => return,
            },
        };
        let mut assigned = Vec::new();
        for of in released {
            let wanted = self.holdings.wanted.contains(&of);
            match self.holdings.each.get_mut(&of) {
                Some(holding @ Holding::Releasing { lost: false }) if wanted => {
                    *holding = Holding::Owned(Check::Due);
                    assigned.push(of);
                }
                Some(holding @ Holding::Releasing { lost: false }) => *holding = Holding::Unsure,
                Some(holding) if wanted => *holding = Holding::Unclaimed,
                _ => _ = self.holdings.each.remove(&of),
            }
        }
        if !assigned.is_empty() {
            self.assignee.assigned(&assigned);
        }
    }

    /// A failure is told once per outage, and everything that failed is tried again after a while.
    fn failed(&mut self, error: CoordinatorError) {
        let wait = match self.retry_at {
            Some(_) => None,
            None => Some(self.backoff.failed()),
        };
        if let Some(wait) = wait {
            self.retry_at = Some(Instant::now() + wait);
        }
        if std::mem::replace(&mut self.outage_logged, true) {
            debug!(group = %self.membership.group, %error, "still failing");
        } else {
            warn!(group = %self.membership.group, %error, "the consumer group cannot be kept up, trying again for ever");
        }
        let is_refusal =
            matches!(error, CoordinatorError::Refused { .. } | CoordinatorError::NoChildrenForEphemerals(_));
        if is_refusal && !self.has_joined && self.leaving.is_none() {
            self.start_leaving(Some(JoinError::Refused(error.clone())));
        }
        self.last_failure = Some(error);
    }

    /// The group could be read, and nothing is waiting for another attempt.
    fn healthy(&mut self) {
        if self.retry_at.is_none() && !self.holdings.has_failed() {
            self.backoff.reset();
            self.outage_logged = false;
        }
    }
}
