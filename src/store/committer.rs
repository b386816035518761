//! How messages go to the disk: they are staged by whoever hands them over, and written, synced and answered by the
//! committers' threads.

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tracing::error;

use super::append::AppendGroup;
use super::commit_log::syncs::{Lane, Syncs};
use super::error::AppendError;
use super::round::{Written, answer, settle};
use super::stage::{Stage, Staging};
use crate::common::guard::lock;

/// Threads that write and sync in turn. On a quick disk one does all the work; where a sync takes long, the next one writes
/// what came meanwhile and begins its own.
pub(super) const COMMITTERS: usize = 3;

/// The lane of syncs that nobody waits for.
pub(super) const FLUSH_LANE: usize = COMMITTERS;

/// The lane of [`Committer::commit_now`].
const INLINE_LANE: usize = COMMITTERS + 1;

/// Lanes of syncs.
pub(super) const LANES: usize = COMMITTERS + 2;

/// Hands messages over to the committers; clones lead to the same ones.
#[derive(Debug, Clone)]
pub struct Committer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    stage: Arc<Stage>,
    syncs: Arc<Syncs>,
    /// Groups that cannot be staged without waiting for a disk, and those behind them. Locked after `stage`, or alone.
    slow: Mutex<Slow>,
    slow_arrived: Condvar,
    /// There are such groups: everything else goes behind them. Changed with both locks held.
    is_slow: AtomicBool,
    order: Order,
    /// A thread has ended by a fault.
    failed: AtomicBool,
    /// Held by the one who commits on a thread of its own: there is one lane for all of them.
    inline: Mutex<()>,
}

#[derive(Debug, Default)]
struct Slow {
    groups: Vec<AppendGroup>,
    closed: bool,
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
    pub(super) fn new(stage: Arc<Stage>, syncs: Arc<Syncs>) -> Self {
        Self(Arc::new(Inner {
            stage,
            syncs,
            slow: Mutex::default(),
            slow_arrived: Condvar::new(),
            is_slow: AtomicBool::new(false),
            order: Order::default(),
            failed: AtomicBool::new(false),
            inline: Mutex::default(),
        }))
    }

    /// Hands groups over without waiting for a disk; the vector is empty then.
    ///
    /// There is no bound: **the caller bounds the bytes in flight**, from the call until a group comes back. Groups are
    /// stored in the order of the calls; messages of one partition keep that order on disk and in their ids. Groups come
    /// back to their sinks in that order too, from a committer's thread; after [`Store::close`](super::Store::close) at
    /// once from the caller's, with [`AppendError::Closed`].
    pub fn submit(&self, groups: &mut Vec<AppendGroup>) {
        if self.is_slow() {
            return self.submit_slowly(groups);
        }
        // Whoever stages something slowly keeps the lock for long.
        let mut staging = match self.0.stage.try_lock() {
            Some(staging) => staging,
            None if self.is_slow() => return self.submit_slowly(groups),
            None => self.0.stage.lock(),
        };
        if staging.closed {
            drop(staging);
            return refuse(groups);
        }
        let mut handed_over = groups.drain(..).peekable();
        if !self.is_slow() {
            while let Some(group) = handed_over.next_if(|group| staging.round.is_ready_for(group)) {
                staging.round.stage(group);
            }
        }
        let mut rest: Vec<AppendGroup> = handed_over.collect();
        if !rest.is_empty() {
            let mut slow = lock(&self.0.slow);
            if !slow.closed {
                self.0.is_slow.store(true, Ordering::Release);
                slow.groups.append(&mut rest);
            }
            drop(slow);
            self.0.slow_arrived.notify_one();
        }
        self.0.stage.unlock(staging);
        // Its thread takes no more: the store closes.
        refuse(&mut rest);
    }

    /// Whether one of the threads has ended by a fault of its own: nothing is stored any more.
    pub(super) fn has_failed(&self) -> bool {
        self.0.failed.load(Ordering::Acquire)
    }

    fn is_slow(&self) -> bool {
        self.0.is_slow.load(Ordering::Acquire)
    }

    /// Lets groups wait behind those that cannot be staged at once.
    fn submit_slowly(&self, groups: &mut Vec<AppendGroup>) {
        let mut slow = lock(&self.0.slow);
        if !self.is_slow() {
            drop(slow);
            return self.submit(groups);
        }
        if slow.closed {
            drop(slow);
            return refuse(groups);
        }
        slow.groups.append(groups);
        drop(slow);
        self.0.slow_arrived.notify_one();
    }

    /// Stores groups at once on the caller's thread, if nothing is under way and nothing has to be waited for but one
    /// write and, in group commit, one sync: two hand-overs less. The groups do not go to their sinks; `false` if they
    /// are untouched and to be [submitted](Self::submit).
    pub fn commit_now(&self, groups: &mut Vec<AppendGroup>) -> bool {
        let Ok(_alone) = self.0.inline.try_lock() else { return false };
        let Some(mut staging) = self.0.stage.try_lock() else { return false };
        let is_ready = |group: &AppendGroup| staging.round.is_ready_for(group);
        if staging.closed || self.is_slow() || !staging.is_quiet() || !groups.iter().all(is_ready) {
            return false;
        }
        for group in groups.drain(..) {
            staging.round.stage(group);
        }
        let written = staging.round.write(groups);
        drop(staging);
        self.finish(groups, written, Lane::Committer(INLINE_LANE), false);
        true
    }

    /// Makes durable what has to be, finds out what is, and answers in the order of rounds, if that is to be done here.
    fn finish(&self, groups: &mut Vec<AppendGroup>, written: Written, lane: Lane, answers: bool) {
        let Written { without_sync, sync, sequence, number } = written;
        let Inner { stage, syncs, order, .. } = &*self.0;
        if without_sync > 0 && answers {
            order.wait_for(number);
            answer(groups, without_sync);
        }
        if let Some(covered) = &sync {
            syncs.sync(covered, lane);
        }
        order.wait_for(number);
        if let Some(covered) = sync {
            let list = syncs.mark(covered);
            if let Some(mut staging) = stage.try_lock() {
                staging.round.log().reuse(list);
            }
        }
        let failed = syncs.failed();
        settle(groups, !failed && syncs.durable() >= sequence, failed);
        if answers {
            answer(groups, usize::MAX);
        }
        order.answered(number);
    }

    /// Lets no more in. The threads end when everything that was handed over is answered.
    pub(super) fn close(&self) {
        lock(&self.0.slow).closed = true;
        self.0.slow_arrived.notify_one();
    }

    /// Body of a committer's thread: one round after the other over everything that was staged meanwhile.
    pub(super) fn run(&self, number: usize) {
        let _end = End(self);
        let mut groups = Vec::new();
        while let Some(written) = self.0.stage.write_next(&mut groups) {
            self.finish(&mut groups, written, Lane::Committer(number), true);
        }
    }

    /// Body of the thread that stages what cannot be staged at once.
    pub(super) fn run_slow(&self) {
        let _end = End(self);
        while let Some(groups) = self.next_slow() {
            self.stage_slowly(groups);
        }
        self.0.stage.close();
    }

    fn next_slow(&self) -> Option<Vec<AppendGroup>> {
        let mut slow = lock(&self.0.slow);
        while slow.groups.is_empty() {
            if slow.closed {
                return None;
            }
            slow = self.0.slow_arrived.wait(slow).unwrap_or_else(PoisonError::into_inner);
        }
        Some(mem::take(&mut slow.groups))
    }

    fn stage_slowly(&self, groups: Vec<AppendGroup>) {
        for group in groups {
            let mut staging = self.0.stage.lock();
            staging.round.stage(group);
            self.0.stage.unlock(staging);
        }
        let _staging = self.0.stage.lock();
        let slow = lock(&self.0.slow);
        self.0.is_slow.store(!slow.groups.is_empty(), Ordering::Release);
    }

    /// Lets a thread of the committer end by a fault.
    #[cfg(test)]
    pub(super) fn fail(&self) {
        let committer = self.clone();
        let thread = std::thread::spawn(move || {
            let _end = End(&committer);
            panic!("a fault, expected in this test");
        });
        assert!(thread.join().is_err());
    }

    /// Runs one round over everything that was handed over, without the threads; whether there was something.
    #[cfg(test)]
    pub(super) fn run_waiting(&self) -> bool {
        let slow = mem::take(&mut lock(&self.0.slow).groups);
        self.stage_slowly(slow);
        let mut groups = Vec::new();
        let mut staging = self.0.stage.lock();
        if !staging.round.has_staged() {
            return false;
        }
        let written = staging.round.write(&mut groups);
        drop(staging);
        self.finish(&mut groups, written, Lane::Committer(0), true);
        true
    }
}

/// Answers whoever still waits when a thread ends by a fault.
struct End<'a>(&'a Committer);

impl Drop for End<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        error!("a committer has ended by a fault of its own: restart the broker; until then every put is refused");
        let inner = &*self.0.0;
        inner.failed.store(true, Ordering::Release);
        let mut staging: MutexGuard<'_, Staging> = inner.stage.lock();
        staging.closed = true;
        drop(staging);
        let mut slow = lock(&inner.slow);
        slow.closed = true;
        let mut groups = mem::take(&mut slow.groups);
        drop(slow);
        refuse(&mut groups);
    }
}

fn refuse(groups: &mut Vec<AppendGroup>) {
    groups.iter_mut().for_each(|group| group.refuse_all(&AppendError::Closed));
    answer(groups, usize::MAX);
}
