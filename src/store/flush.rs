//! Background thread: periodic flush of each partition on its own interval (02 §9), free space, id reservation.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::commit_log::syncs::{Lane, Syncs};
use super::committer::FLUSH_LANE;
use super::guard::lock;
use super::housekeeping::Housekeeping;
use super::round::Round;
use super::topics::Topics;

/// Longest sleep; a changed interval takes effect within it.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// Wakes and ends the thread.
#[derive(Debug, Default)]
pub(super) struct Flusher {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    woken: bool,
    closed: bool,
}

impl Flusher {
    /// Tells that a partition has unflushed messages that it did not have before.
    pub(super) fn wake(&self) {
        lock(&self.state).woken = true;
        self.changed.notify_one();
    }

    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_one();
    }

    /// Body of the thread.
    pub(super) fn run(&self, topics: &Topics, log: &LogFlush, mut housekeeping: Housekeeping) {
        loop {
            let next = flush_due(topics, log, Instant::now());
            housekeeping.run(Instant::now());
            if !self.sleep(next.min(MAX_SLEEP)) {
                return;
            }
        }
    }

    /// Sleeps until woken, at most this long; false when closed.
    fn sleep(&self, at_most: Duration) -> bool {
        let state = lock(&self.state);
        let (mut state, _) = self
            .changed
            .wait_timeout_while(state, at_most, |state| !state.woken && !state.closed)
            .unwrap_or_else(PoisonError::into_inner);
        state.woken = false;
        !state.closed
    }
}

/// Syncs the commit log if the time of any partition has come, which covers them all, and returns the time until the
/// next one's.
fn flush_due(topics: &Topics, log: &LogFlush, now: Instant) -> Duration {
    let (mut next, mut is_due) = (MAX_SLEEP, false);
    for partition in topics.all() {
        match partition.next_flush(now) {
            None => {}
            Some(Duration::ZERO) => is_due = true,
            Some(wait) => next = next.min(wait),
        }
    }
    if is_due {
        log.flush();
    }
    next
}

/// Makes durable what was written to the commit log.
#[derive(Debug, Clone)]
pub(super) struct LogFlush {
    pub(super) round: Arc<Mutex<Round>>,
    pub(super) syncs: Arc<Syncs>,
    /// One at a time.
    pub(super) flushing: Arc<Mutex<()>>,
}

impl LogFlush {
    /// Returns when everything that was written before the call is durable, or the log has failed.
    pub(super) fn flush(&self) {
        let covered = lock(&self.round).log().unsynced();
        if let Some(covered) = covered {
            let list = {
                let _flushing = lock(&self.flushing);
                self.syncs.sync(&covered, Lane::Committer(FLUSH_LANE));
                self.syncs.mark(covered)
            };
            lock(&self.round).log().reuse(list);
        }
    }
}

/// Starts the thread.
pub(super) fn spawn(
    flusher: Arc<Flusher>,
    topics: Arc<Topics>,
    log: LogFlush,
    housekeeping: Housekeeping,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name("metaq-flusher".to_owned()).spawn(move || flusher.run(&topics, &log, housekeeping))
}
