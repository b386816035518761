//! A consumer at work.

use std::sync::{Arc, Mutex};

use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

use super::assignment::Assignment;
use super::error::ConsumerError;
use crate::client::ClientEvent;
use crate::client::session::Session;
use crate::common::guard::lock;
use crate::fetch::{FetchEngine, FetchError, SeekTo};
use crate::id::{GroupName, TopicPartition};
use crate::rebalance::driver::Phase;
use crate::rebalance::{Driver, Left};

/// The engine, and who tells it what to read.
pub(super) struct Running {
    pub(super) engine: Arc<FetchEngine>,
    assignment: Arc<Assignment>,
    chosen: Chosen,
}

enum Chosen {
    ByGroup { driver: Arc<Driver>, _reports: AbortOnDropHandle<()> },
    ByHand(ByHand),
}

/// Partitions chosen by hand.
#[derive(Default)]
struct ByHand {
    partitions: Mutex<Vec<TopicPartition>>,
    /// One change after the other.
    changing: tokio::sync::Mutex<()>,
}

impl Running {
    pub(super) fn member(
        session: &Arc<Session>,
        group: &GroupName,
        assignment: Arc<Assignment>,
        driver: Driver,
    ) -> Self {
        let (driver, engine) = (Arc::new(driver), Arc::clone(&assignment.engine));
        let reports = tokio::spawn(report(Arc::clone(session), group.clone(), Arc::clone(&driver), engine));
        let chosen = Chosen::ByGroup { driver, _reports: AbortOnDropHandle::new(reports) };
        Self { engine: Arc::clone(&assignment.engine), assignment, chosen }
    }

    pub(super) fn by_hand(assignment: Arc<Assignment>) -> Self {
        Self { engine: Arc::clone(&assignment.engine), assignment, chosen: Chosen::ByHand(ByHand::default()) }
    }

    /// What was said when a fault of this library ended the driver or the engine.
    pub(super) fn panicked(&self) -> Option<Arc<str>> {
        let driver = match &self.chosen {
            Chosen::ByGroup { driver, .. } => driver.panicked(),
            Chosen::ByHand(_) => None,
        };
        self.engine.panicked().or(driver)
    }

    pub(super) fn is_member(&self) -> bool {
        matches!(self.chosen, Chosen::ByGroup { .. })
    }

    /// Waits until the member has joined.
    pub(super) async fn joined(&self) -> Result<(), ConsumerError> {
        match &self.chosen {
            Chosen::ByGroup { driver, .. } => Ok(driver.joined().await?),
            Chosen::ByHand(_) => Ok(()),
        }
    }

    pub(super) fn assigned(&self) -> Vec<TopicPartition> {
        match &self.chosen {
            Chosen::ByGroup { driver, .. } => driver.owned().iter().cloned().collect(),
            Chosen::ByHand(by_hand) => lock(&by_hand.partitions).clone(),
        }
    }

    /// Reads these, chosen by hand, beside those that are read.
    pub(super) fn read(&self, partitions: &[TopicPartition]) {
        if let Chosen::ByHand(by_hand) = &self.chosen {
            lock(&by_hand.partitions).extend_from_slice(partitions);
            self.assignment.add(partitions);
        }
    }

    /// Reads exactly these.
    pub(super) async fn assign(&self, partitions: &[TopicPartition]) -> Result<(), ConsumerError> {
        if let Some(of) = partitions.iter().find(|of| !self.assignment.dispatch.handles(&of.topic)) {
            return Err(ConsumerError::NoListener(of.topic.clone()));
        }
        let Chosen::ByHand(by_hand) = &self.chosen else { return Err(ConsumerError::AssignedByGroup) };
        let _turn = by_hand.changing.lock().await;
        let present = self.assigned();
        let gone: Vec<_> = present.iter().filter(|of| !partitions.contains(of)).cloned().collect();
        // Before the wait, whose end may never come here: what another call wants back must count as new.
        lock(&by_hand.partitions).retain(|of| partitions.contains(of));
        if !gone.is_empty() {
            self.assignment.remove(&gone).await;
        }
        let present = self.assigned();
        let mut new: Vec<_> = partitions.iter().filter(|of| !present.contains(of)).cloned().collect();
        new.sort();
        new.dedup();
        self.read(&new);
        Ok(())
    }

    pub(super) async fn seek(&self, of: &TopicPartition, to: SeekTo) -> Result<(), FetchError> {
        let dispatch = &self.assignment.dispatch;
        let before = dispatch.before_seek(of);
        let position = self.engine.position(of).await;
        let result = self.engine.seek(of, to).await;
        match (&result, position) {
            (Err(_), _) => dispatch.seek_failed(of, before),
            (Ok(()), Some(position)) => dispatch.after_seek(of, position.offset, before),
            // Nobody knows how far the group has come: nothing is hidden until the engine tells.
            (Ok(()), None) => {}
        }
        result
    }

    /// Gives everything up in good order.
    pub(super) async fn end(&self) -> Result<(), ConsumerError> {
        self.assignment.note_ending();
        let left = match &self.chosen {
            Chosen::ByGroup { driver, .. } => driver.leave().await,
            Chosen::ByHand(_) => Left::Complete,
        };
        let last = self.engine.stop().await;
        let by_group = self.assignment.released_at_the_end();
        if let Some(panic) = self.panicked() {
            return Err(ConsumerError::Panicked(panic));
        }
        let not_committed = by_group.not_committed.len() + last.not_committed.len();
        let cancelled = by_group.cancelled.len() + last.cancelled.len();
        if not_committed + cancelled > 0 {
            warn!(
                group = %self.assignment.dispatch.group, not_committed, cancelled,
                "consumer ended uncleanly: what was handled since the last commit comes again"
            );
            return Err(ConsumerError::Unclean { not_committed, cancelled });
        }
        match left {
            Left::Complete => Ok(()),
            left @ Left::Incomplete { .. } => Err(ConsumerError::Left(left.to_string())),
        }
    }
}

/// Turns what the driver shows into events, and has the addresses of brokers read again when those change. An engine that
/// has ended by a fault takes the member out of the group: others are to read its partitions.
async fn report(session: Arc<Session>, group: GroupName, driver: Arc<Driver>, engine: Arc<FetchEngine>) {
    let mut states = driver.state();
    let (mut told, mut changes) = (0, 0);
    let mut reads = true;
    loop {
        tokio::select! {
            changed = states.changed() => if changed.is_err() {
                return;
            },
            panicked = engine.ended(), if reads => {
                reads = false;
                if panicked.is_some() {
                    driver.leave().await;
                }
            }
        }
        let state = states.borrow_and_update().clone();
        if let Phase::Panicked(panic) = &state.phase {
            return session.emit(ClientEvent::ConsumerPanicked { group, reason: panic.to_string() });
        }
        if std::mem::replace(&mut changes, state.broker_changes) != state.broker_changes {
            session.brokers_changed();
        }
        if state.rebalance.number == told || !state.is_settled() {
            continue;
        }
        told = state.rebalance.number;
        session.metrics().rebalanced(&group, state.owned.len());
        session.emit(ClientEvent::Rebalanced { group: group.clone(), owned: state.owned.iter().cloned().collect() });
    }
}

#[cfg(test)]
mod tests;
