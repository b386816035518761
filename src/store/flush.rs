//! Background thread: periodic flush of each partition on its own interval (02 §9), flush on demand, free space, id
//! reservation.

use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::commit_log::syncs::{Lane, Syncs};
use super::committer::FLUSH_LANE;
use super::housekeeping::Housekeeping;
use super::partition::PartitionLog;
use super::stage::Stage;
use super::topics::Topics;
use crate::common::guard::lock;

/// Longest sleep; a changed interval takes effect within it.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// Shortest time between two flushes on demand, over all partitions: each serves every reader that waits.
const DEMAND_PERIOD: Duration = Duration::from_millis(5);

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
    /// Partitions that readers wait for.
    asked: Vec<Arc<PartitionLog>>,
    /// Before this time nothing is flushed on demand.
    demand_from: Option<Instant>,
}

impl State {
    /// Time until the next flush on demand.
    fn demand_in(&self, now: Instant) -> Option<Duration> {
        let from = self.demand_from.unwrap_or(now);
        (!self.asked.is_empty()).then(|| from.saturating_duration_since(now))
    }
}

/// Why the thread goes on.
enum Work {
    /// Look at all partitions.
    Due,
    /// Flush these now.
    Demand(Vec<Arc<PartitionLog>>),
    /// End.
    Close,
}

impl Flusher {
    /// Tells that a partition has unflushed messages that it did not have before.
    pub(super) fn wake(&self) {
        lock(&self.state).woken = true;
        self.changed.notify_one();
    }

    /// Asks for a flush of a partition that a reader waits for. It comes soon, together with those of others.
    pub(super) fn flush_soon(&self, partition: &Arc<PartitionLog>) {
        if partition.flush_asked.swap(true, Ordering::SeqCst) {
            return;
        }
        lock(&self.state).asked.push(Arc::clone(partition));
        self.changed.notify_one();
    }

    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_one();
    }

    /// Body of the thread.
    pub(super) fn run(&self, topics: &Topics, log: &LogFlush, mut housekeeping: Housekeeping) {
        let mut next_look = Instant::now();
        loop {
            match self.next_work(next_look) {
                Work::Due => {
                    let next = flush_due(topics, log, Instant::now());
                    housekeeping.run(Instant::now());
                    next_look = Instant::now() + next.min(MAX_SLEEP);
                }
                Work::Demand(partitions) => {
                    // Before the sync: what is written during it is asked for anew.
                    partitions.iter().for_each(|partition| partition.flush_asked.store(false, Ordering::SeqCst));
                    if partitions.iter().any(|partition| partition.is_dirty()) {
                        log.flush();
                    }
                    lock(&self.state).demand_from = Some(Instant::now() + DEMAND_PERIOD);
                }
                Work::Close => return,
            }
        }
    }

    /// Sleeps until there is something to do, at the latest until the next look at all partitions.
    fn next_work(&self, next_look: Instant) -> Work {
        let mut state = lock(&self.state);
        loop {
            let now = Instant::now();
            if state.closed {
                return Work::Close;
            }
            let demand = state.demand_in(now);
            if demand.is_some_and(|wait| wait.is_zero()) {
                return Work::Demand(mem::take(&mut state.asked));
            }
            let look = next_look.saturating_duration_since(now);
            if mem::take(&mut state.woken) || look.is_zero() {
                return Work::Due;
            }
            let wait = demand.map_or(look, |demand| demand.min(look));
            (state, _) = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
        }
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
    pub(super) stage: Arc<Stage>,
    pub(super) syncs: Arc<Syncs>,
    /// One at a time.
    pub(super) flushing: Arc<Mutex<()>>,
}

impl LogFlush {
    /// Returns when everything that was written before the call is durable, or the log has failed.
    pub(super) fn flush(&self) {
        let start = Instant::now();
        let covered = self.stage.unsynced();
        if let Some(covered) = covered {
            let list = {
                let _flushing = lock(&self.flushing);
                self.syncs.sync(&covered, Lane::Committer(FLUSH_LANE));
                self.syncs.mark(covered)
            };
            self.syncs.times().flush.record(start.elapsed());
            self.stage.lock().round.log().reuse(list);
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
