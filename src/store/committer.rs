//! The thread through which every message goes to the disk.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tracing::error;

use super::append::AppendGroup;
use super::error::AppendError;
use super::guard::lock;
use super::round::Round;

/// Hands messages over to the committer's thread; clones lead to the same one.
#[derive(Debug, Clone)]
pub struct Committer(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<AppendGroup>,
    closed: bool,
    /// The thread waits on the condition: only then it needs to be woken.
    idle: bool,
}

impl Committer {
    pub(super) fn new() -> Self {
        Self(Arc::new(Queue::default()))
    }

    /// Hands a group over and returns at once.
    ///
    /// The queue has no bound of its own: **the caller bounds the bytes in flight**, from the call until `done`.
    /// Groups are stored in the order of the calls; messages of one partition keep that order on disk and in their ids.
    /// `done` is called once from the committer's thread, for all groups in the order of the calls; after
    /// [`Store::close`](super::Store::close) at once from the caller's, with [`AppendError::Closed`].
    pub fn submit(&self, group: AppendGroup) {
        let mut state = lock(&self.0.state);
        if state.closed {
            drop(state);
            return refuse(group);
        }
        state.waiting.push(group);
        let idle = mem::take(&mut state.idle);
        drop(state);
        if idle {
            self.0.arrived.notify_one();
        }
    }

    /// Lets no more in. The thread ends when everything that waits is answered.
    pub(super) fn close(&self) {
        lock(&self.0.state).closed = true;
        self.0.arrived.notify_one();
    }

    /// Body of the thread: one round after the other over everything that came meanwhile.
    pub(super) fn run(&self, mut round: Round) {
        let _end = End(self);
        let mut groups = Vec::new();
        while self.take_waiting(&mut groups) {
            round.run(&mut groups);
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
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(refuse);
    }
}

fn refuse(group: AppendGroup) {
    let refused = group.puts.iter().map(|_| Err(AppendError::Closed)).collect();
    (group.done)(refused);
}
