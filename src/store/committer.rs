//! The thread through which messages go to the disk, and the way around it when nothing is under way.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, PoisonError, TryLockError};

use tracing::error;

use super::append::AppendGroup;
use super::commit_log::syncs::Syncs;
use super::error::AppendError;
use super::guard::lock;
use super::round::{Round, Written, answer, check};

/// Hands messages over to the committer; clones lead to the same one.
#[derive(Debug, Clone)]
pub struct Committer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    arrived: Condvar,
    /// Taken after `state`, or alone.
    round: Arc<Mutex<Round>>,
    syncs: Arc<Syncs>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<AppendGroup>,
    closed: bool,
    /// The thread waits on the condition: only then it needs to be woken.
    idle: bool,
}

impl Committer {
    pub(super) fn new(round: Arc<Mutex<Round>>, syncs: Arc<Syncs>) -> Self {
        Self(Arc::new(Inner { state: Mutex::default(), arrived: Condvar::new(), round, syncs }))
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
        let idle = mem::take(&mut state.idle);
        drop(state);
        if idle {
            self.0.arrived.notify_one();
        }
    }

    /// Stores a small group at once on the caller's thread, if nothing is under way: two hand-overs less. The caller is
    /// held up for as long as a write and, in group commit, a sync take. The group does not go to its sink.
    ///
    /// # Errors
    /// Gives the group back untouched when something is under way, or it would have to wait: [submit](Self::submit) it.
    pub fn commit_now(&self, group: AppendGroup) -> Result<AppendGroup, AppendGroup> {
        let state = lock(&self.0.state);
        if state.closed || !state.idle || !state.waiting.is_empty() {
            return Err(group);
        }
        let round = match self.0.round.try_lock() {
            Ok(round) => round,
            Err(TryLockError::Poisoned(round)) => round.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(group),
        };
        drop(state);
        if !round.is_ready_for(&group) {
            return Err(group);
        }
        let mut groups = [group];
        self.store(&mut groups, round);
        let [group] = groups;
        Ok(group)
    }

    /// Stores groups and makes durable what has to be.
    fn store(&self, groups: &mut [AppendGroup], mut round: std::sync::MutexGuard<'_, Round>) {
        let Written { sync, .. } = round.write(groups);
        drop(round);
        self.finish(groups, sync);
    }

    fn finish(&self, groups: &mut [AppendGroup], sync: Option<super::commit_log::syncs::Covered>) {
        if let Some(covered) = sync {
            let list = self.0.syncs.sync(covered);
            lock(&self.0.round).log().reuse(list);
        }
        check(groups, self.0.syncs.failed());
    }

    /// Lets no more in. The thread ends when everything that waits is answered.
    pub(super) fn close(&self) {
        lock(&self.0.state).closed = true;
        self.0.arrived.notify_one();
    }

    /// Body of the thread: one round after the other over everything that came meanwhile.
    pub(super) fn run(&self) {
        let _end = End(self);
        let mut groups = Vec::new();
        while self.take_waiting(&mut groups) {
            self.run_round(&mut groups);
        }
    }

    /// One round over the groups.
    fn run_round(&self, groups: &mut Vec<AppendGroup>) {
        let Written { done, sync } = lock(&self.0.round).write(groups);
        answer(groups, done);
        if !groups.is_empty() {
            self.finish(groups, sync);
            answer(groups, usize::MAX);
        }
    }

    /// Waits for groups and moves them to the empty `groups`; false at the end.
    fn take_waiting(&self, groups: &mut Vec<AppendGroup>) -> bool {
        let mut state = lock(&self.0.state);
        while state.waiting.is_empty() {
            if state.closed {
                return false;
            }
            state.idle = true;
            state = self.0.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.idle = false;
        mem::swap(&mut state.waiting, groups);
        true
    }

    /// Runs a round over what waits, without the thread; whether there was something.
    #[cfg(test)]
    pub(super) fn run_waiting(&self) -> bool {
        let mut groups = mem::take(&mut lock(&self.0.state).waiting);
        let some = !groups.is_empty();
        self.run_round(&mut groups);
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
