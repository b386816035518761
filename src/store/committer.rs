//! The thread through which messages go to the disk, and the way around it when nothing is under way.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};

use tracing::error;

use super::append::AppendGroup;
use super::commit_log::syncs::{Covered, Lane, Syncs};
use super::error::AppendError;
use super::guard::lock;
use super::round::{Round, Written, answer, check};

/// Threads that write and sync in turn: while one waits for its sync, the other writes what came meanwhile and begins its
/// own.
pub(super) const COMMITTERS: usize = 2;

/// The lane of syncs that nobody waits for.
pub(super) const FLUSH_LANE: usize = COMMITTERS;

/// The lane of [`Committer::commit_now`].
const INLINE_LANE: usize = COMMITTERS + 1;

/// Lanes of syncs.
pub(super) const LANES: usize = COMMITTERS + 2;

/// Hands messages over to the committer; clones lead to the same one.
#[derive(Debug, Clone)]
pub struct Committer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    arrived: Condvar,
    /// Tried with `state` held, or taken alone or before it.
    round: Arc<Mutex<Round>>,
    syncs: Arc<Syncs>,
    order: Order,
    /// Held by the one who commits on a thread of its own: there is one lane for all of them.
    inline: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<AppendGroup>,
    closed: bool,
    /// Threads that wait on the condition: only then one needs to be woken.
    idle: usize,
    /// One was woken and has not come yet.
    woken: bool,
}

/// The order in which rounds were written, in which they are answered.
#[derive(Debug, Default)]
struct Order {
    answered: Mutex<u64>,
    changed: Condvar,
}

impl Order {
    /// Waits until everything before a round is answered.
    fn wait_for(&self, round: u64) {
        let answered = lock(&self.answered);
        drop(self.changed.wait_while(answered, |answered| *answered < round).unwrap_or_else(PoisonError::into_inner));
    }

    fn answered(&self, round: u64) {
        *lock(&self.answered) = round + 1;
        self.changed.notify_all();
    }
}

impl Committer {
    pub(super) fn new(round: Arc<Mutex<Round>>, syncs: Arc<Syncs>) -> Self {
        let order = Order::default();
        Self(Arc::new(Inner {
            state: Mutex::default(),
            arrived: Condvar::new(),
            round,
            syncs,
            order,
            inline: Mutex::default(),
        }))
    }

    /// Hands groups over and returns at once; the vector is empty then.
    ///
    /// The queue has no bound of its own: **the caller bounds the bytes in flight**, from the call until a group comes
    /// back. Groups are stored in the order of the calls; messages of one partition keep that order on disk and in
    /// their ids. Groups come back to their sinks in that order too, from the committer's thread; after
    /// [`Store::close`](super::Store::close) at once from the caller's, with [`AppendError::Closed`].
    pub fn submit(&self, groups: &mut Vec<AppendGroup>) {
        let mut state = lock(&self.0.state);
        if state.closed {
            drop(state);
            return refuse(groups);
        }
        state.waiting.append(groups);
        let wake = state.idle > 0 && !mem::replace(&mut state.woken, true);
        drop(state);
        if wake {
            self.0.arrived.notify_one();
        }
    }

    /// Stores a small group at once on the caller's thread, if nothing is under way: two hand-overs less. The caller is
    /// held up for as long as a write and, in group commit, a sync take. The group does not go to its sink.
    ///
    /// # Errors
    /// Gives the group back untouched when something is under way, or it would have to wait: [submit](Self::submit) it.
    #[expect(clippy::result_large_err, reason = "the group goes back to its owner")]
    pub fn commit_now(&self, group: AppendGroup) -> Result<AppendGroup, AppendGroup> {
        let state = lock(&self.0.state);
        if state.closed || state.idle < COMMITTERS || state.woken || !state.waiting.is_empty() {
            return Err(group);
        }
        let Ok(_alone) = self.0.inline.try_lock() else { return Err(group) };
        let round = match self.0.round.try_lock() {
            Ok(round) => round,
            Err(TryLockError::Poisoned(round)) => round.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(group),
        };
        drop(state);
        if !round.is_ready_for(&group) {
            return Err(group);
        }
        let mut groups = vec![group];
        let mut round = round;
        let Written { sync, number, .. } = round.write(&mut groups);
        drop(round);
        self.finish(&mut groups, sync, number, Lane::Committer(INLINE_LANE));
        self.0.order.answered(number);
        groups.pop().ok_or_else(AppendGroup::default)
    }

    /// Makes durable what has to be, and finds out what is.
    fn finish(&self, groups: &mut [AppendGroup], sync: Option<Covered>, number: u64, lane: Lane) {
        if let Some(covered) = &sync {
            self.0.syncs.sync(covered, lane);
        }
        self.0.order.wait_for(number);
        if let Some(covered) = sync {
            let list = self.0.syncs.mark(covered);
            if let Ok(mut round) = self.0.round.try_lock() {
                round.log().reuse(list);
            }
        }
        check(groups, self.0.syncs.failed());
    }

    /// Lets no more in. The thread ends when everything that waits is answered.
    pub(super) fn close(&self) {
        lock(&self.0.state).closed = true;
        self.0.arrived.notify_all();
    }

    /// Body of a committer's thread: one round after the other over everything that came meanwhile.
    pub(super) fn run(&self, number: usize) {
        let _end = End(self);
        let mut groups = Vec::new();
        while let Some(round) = self.take_waiting(&mut groups) {
            self.run_round(&mut groups, round, Lane::Committer(number));
        }
    }

    /// One round over the groups.
    fn run_round(&self, groups: &mut Vec<AppendGroup>, mut round: MutexGuard<'_, Round>, lane: Lane) {
        let Written { done, sync, number } = round.write(groups);
        drop(round);
        if done > 0 {
            self.0.order.wait_for(number);
            answer(groups, done);
        }
        if !groups.is_empty() {
            self.finish(groups, sync, number, lane);
            answer(groups, usize::MAX);
        } else {
            self.0.order.wait_for(number);
        }
        self.0.order.answered(number);
    }

    /// Waits for groups and moves them to the empty `groups`; the round is taken with them, so that rounds are written
    /// in the order in which their groups came. `None` at the end.
    fn take_waiting(&self, groups: &mut Vec<AppendGroup>) -> Option<MutexGuard<'_, Round>> {
        loop {
            {
                let mut state = lock(&self.0.state);
                while state.waiting.is_empty() {
                    if state.closed {
                        return None;
                    }
                    state.idle += 1;
                    state = self.0.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.idle -= 1;
                    state.woken = false;
                }
            }
            // What comes while the other thread writes joins this round.
            let round = lock(&self.0.round);
            let mut state = lock(&self.0.state);
            if !state.waiting.is_empty() {
                mem::swap(&mut state.waiting, groups);
                return Some(round);
            }
        }
    }

    /// Runs a round over what waits, without the thread; whether there was something.
    #[cfg(test)]
    pub(super) fn run_waiting(&self) -> bool {
        let mut groups = mem::take(&mut lock(&self.0.state).waiting);
        let some = !groups.is_empty();
        self.run_round(&mut groups, lock(&self.0.round), Lane::Committer(0));
        some
    }
}

/// Answers whoever still waits when the thread ends, however it ends.
struct End<'a>(&'a Committer);

impl Drop for End<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            error!(
                "the committer has ended by a fault of its own: restart the broker; until then every put is refused"
            );
        }
        let mut state = lock(&self.0.0.state);
        state.closed = true;
        let mut waiting = mem::take(&mut state.waiting);
        drop(state);
        refuse(&mut waiting);
    }
}

fn refuse(groups: &mut Vec<AppendGroup>) {
    groups.iter_mut().for_each(|group| group.refuse_all(&AppendError::Closed));
    answer(groups, usize::MAX);
}
