//! Where groups get their offsets while the ones before them are being synced.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::append::AppendGroup;
use super::commit_log::syncs::{Covered, Syncs};
use super::committer::COMMITTERS;
use super::round::{Round, Written};
use crate::common::guard::lock;

/// Syncs at the same time take longer each, so a further one only pays where a usual one takes at least so long: then they
/// are spread evenly.
const SLOW_SYNC: Duration = Duration::from_micros(240);

/// See the module.
#[derive(Debug)]
pub(super) struct Stage {
    state: Mutex<Staging>,
    staged: Condvar,
    syncs: Arc<Syncs>,
}

/// The round, and the threads that wait for it.
#[derive(Debug)]
pub(super) struct Staging {
    pub(super) round: Round,
    /// Nothing more is staged.
    pub(super) closed: bool,
    /// Committers that wait.
    idle: usize,
    /// One was woken and has not come yet.
    woken: bool,
    /// When the last round was written.
    began: Option<Instant>,
}

impl Staging {
    /// Whether nothing is under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.idle == COMMITTERS && !self.woken && !self.round.has_staged()
    }

    /// Whether one of the committers has to be woken for what was staged.
    fn wants_committer(&self, usual_sync: Duration) -> bool {
        match self.idle {
            _ if self.woken || !self.round.has_staged() => false,
            0 => false,
            COMMITTERS => true,
            // The one at work takes it when it is done, unless that takes long: then the syncs are spread evenly.
            _ => {
                usual_sync >= SLOW_SYNC
                    && self.began.is_none_or(|began| began.elapsed() >= usual_sync.div_f64(COMMITTERS as f64))
            }
        }
    }
}

impl Stage {
    pub(super) fn new(round: Round, syncs: Arc<Syncs>) -> Self {
        let state = Staging { round, closed: false, idle: 0, woken: false, began: None };
        Self { state: Mutex::new(state), staged: Condvar::new(), syncs }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Staging> {
        lock(&self.state)
    }

    /// The same without waiting.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Staging>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Ends staging and wakes a committer if one is needed for what was staged.
    pub(super) fn unlock(&self, mut state: MutexGuard<'_, Staging>) {
        let wake = state.wants_committer(self.syncs.usual());
        state.woken |= wake;
        drop(state);
        if wake {
            self.staged.notify_one();
        }
    }

    /// Waits for groups, writes them and moves them to the empty `groups`; `None` at the end.
    pub(super) fn write_next(&self, groups: &mut Vec<AppendGroup>) -> Option<Written> {
        let mut state = self.lock();
        while !state.round.has_staged() {
            if state.closed {
                return None;
            }
            state.idle += 1;
            state = self.staged.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
            state.woken = false;
        }
        state.began = Some(Instant::now());
        Some(state.round.write(groups))
    }

    /// Nothing more is staged: the committers end when everything is answered.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.staged.notify_all();
    }

    /// What a sync has to cover for everything staged so far to become durable.
    pub(super) fn unsynced(&self) -> Option<Covered> {
        let mut state = self.lock();
        // A failure is recorded in the log.
        state.round.log().write().ok()?;
        state.round.log().unsynced()
    }
}
