//! The task that decides what is done next. It never waits for anything but news.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tracing::error;

use crate::common::panics::caught;
use crate::fetch::event::FetchEvent;
use crate::fetch::queue::FetchRequestQueue;
use crate::fetch::request::RequestLimits;
use crate::fetch::{CommitError, FetchOptions, MessageSink, MessageSource, OffsetStorage, SourceError, StorageError};
use crate::id::{GroupName, Offset, TopicPartition};
use crate::zk::Lease;
use crate::zk::format::StoredOffset;

use super::answer::Answer;
use super::budget::Budget;
use super::command::Command;
use super::commits::Commits;
use super::deliveries::Delivered;
use super::leaving::Release;
use super::outages::Outages;
use super::slot::{Key, Slot, Stage};

/// When nothing at all is due.
const FAR: Duration = Duration::from_secs(3600);

pub(super) struct Scheduler {
    pub(super) source: Arc<dyn MessageSource>,
    pub(super) sink: Arc<dyn MessageSink>,
    pub(super) storage: Arc<dyn OffsetStorage>,
    pub(super) group: GroupName,
    pub(super) options: FetchOptions,
    pub(super) limits: RequestLimits,
    fenced: Arc<AtomicBool>,
    pub(super) slots: HashMap<Key, Slot>,
    pub(super) incarnations: u64,
    pub(super) queue: FetchRequestQueue,
    pub(super) budget: Budget,
    /// Who waits for room in the budget, the longest wait first. Nobody is passed.
    pub(super) waiting: VecDeque<Key>,
    /// Who waits for a runner.
    pub(super) ready: VecDeque<Key>,
    /// Whose listener is running, also if the partition was given up since.
    pub(super) busy: HashSet<Key>,
    tasks: JoinSet<Done>,
    works: HashMap<Id, Work>,
    pub(super) commits: Commits,
    pub(super) releases: Vec<Release>,
    pub(super) outages: Outages,
    /// One line tells of it.
    observer_panicked: Once,
    /// No partition is added any more.
    pub(super) stopping: bool,
    pub(super) ended: bool,
}

/// What a task was started for, and what it holds.
#[derive(Debug)]
pub(super) enum Work {
    Load(Key),
    Get {
        of: Key,
        /// Bytes of the budget.
        reserved: usize,
    },
    Nearest(Key),
    Deliver {
        of: Key,
        /// Bytes of the budget.
        bytes: usize,
    },
    Commit,
}

/// What a task brings.
#[derive(Debug)]
pub(super) enum Done {
    Loaded(Result<Option<StoredOffset>, StorageError>),
    Got(Result<Answer, SourceError>),
    Nearest(Result<Offset, SourceError>),
    Delivered(Delivered),
    Committed(Vec<Result<(), CommitError>>),
}

/// An error as its text, made where a panic of it ends nothing but the task: errors of a source or a storage are the
/// application's code as well.
pub(super) fn as_text(error: Box<dyn std::error::Error + Send + Sync>) -> Box<dyn std::error::Error + Send + Sync> {
    error.to_string().into()
}

async fn renewed(lease: Option<&Lease>) {
    match lease {
        Some(lease) => lease.renewed().await,
        None => pending().await,
    }
}

impl Scheduler {
    pub(super) fn new(
        source: Arc<dyn MessageSource>,
        sink: Arc<dyn MessageSink>,
        storage: Arc<dyn OffsetStorage>,
        group: GroupName,
        options: FetchOptions,
        fenced: Arc<AtomicBool>,
    ) -> Self {
        Self {
            source,
            sink,
            storage,
            group,
            limits: options.limits(),
            fenced,
            slots: HashMap::new(),
            incarnations: 0,
            queue: FetchRequestQueue::default(),
            budget: Budget::new(options.fetched_bytes),
            waiting: VecDeque::new(),
            ready: VecDeque::new(),
            busy: HashSet::new(),
            tasks: JoinSet::new(),
            works: HashMap::new(),
            commits: Commits::new(Instant::now() + options.period()),
            releases: Vec::new(),
            outages: Outages::new(),
            observer_panicked: Once::new(),
            stopping: false,
            ended: false,
            options,
        }
    }

    /// Runs until stopped, or until the handle is gone: then every task ends with it. A stop that has begun goes on.
    pub(super) async fn run(mut self, commands: &mut mpsc::UnboundedReceiver<Command>) {
        let timer = sleep_until(Instant::now() + FAR);
        tokio::pin!(timer);
        let lease = self.options.lease.clone();
        let mut has_handle = true;
        loop {
            self.proceed(Instant::now());
            if self.ended {
                return;
            }
            let wake = self.next_wake();
            if timer.deadline() != wake {
                timer.as_mut().reset(wake);
            }
            tokio::select! {
                biased;
                command = commands.recv(), if has_handle => match command {
                    Some(command) => self.carry_out(command),
                    None if self.stopping => has_handle = false,
                    None => return,
                },
                Some(joined) = self.tasks.join_next_with_id() => {
                    self.joined(joined);
                    while let Some(joined) = self.tasks.try_join_next_with_id() {
                        self.joined(joined);
                    }
                }
                // Whatever has waited for it goes on with the next turn.
                () = renewed(lease.as_ref()) => {}
                () = &mut timer => {}
            }
        }
    }

    /// Begins whatever can begin.
    fn proceed(&mut self, now: Instant) {
        while let Some(of) = self.queue.take_due(now) {
            self.due(&of, now);
        }
        self.give_room(now);
        self.start_deliveries();
        self.tick(now);
        self.abandon_commit(now);
        self.proceed_with_releases(now);
        self.start_commits(now);
    }

    fn next_wake(&self) -> Instant {
        let releases = self.releases.iter().map(|release| release.deadline);
        let times =
            releases.chain(self.queue.next_due()).chain([self.commits.next_tick()]).chain(self.commits.deadline());
        times.min().unwrap_or_else(|| Instant::now() + FAR)
    }

    /// Whether no delivery and no commit may begin.
    pub(super) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::SeqCst) || self.options.lease.as_ref().is_some_and(|lease| !lease.holds())
    }

    pub(super) fn spawn(
        &mut self,
        work: Work,
        task: impl Future<Output = Done> + Send + 'static,
    ) -> tokio::task::AbortHandle {
        let handle = self.tasks.spawn(task);
        self.works.insert(handle.id(), work);
        handle
    }

    fn joined(&mut self, joined: Result<(Id, Done), JoinError>) {
        let (id, done) = match joined {
            Ok((id, done)) => (id, Ok(done)),
            Err(error) => (error.id(), Err(error)),
        };
        let now = Instant::now();
        match (self.works.remove(&id), done) {
            (Some(Work::Load(of)), Ok(Done::Loaded(result))) => self.loaded(&of, id, result, now),
            (Some(Work::Load(of)), Err(error)) => self.loaded(&of, id, Err(error.into()), now),
            (Some(Work::Get { of, reserved }), Ok(Done::Got(result))) => self.got(&of, id, reserved, result, now),
            (Some(Work::Get { of, reserved }), Err(error)) => self.got(&of, id, reserved, Err(error.into()), now),
            (Some(Work::Nearest(of)), Ok(Done::Nearest(result))) => self.told_nearest(&of, id, result, now),
            (Some(Work::Nearest(of)), Err(error)) => self.told_nearest(&of, id, Err(error.into()), now),
            (Some(Work::Deliver { of, bytes }), Ok(Done::Delivered(result))) => {
                self.delivered(&of, id, bytes, result, now)
            }
            (Some(Work::Deliver { of, bytes }), Err(error)) => {
                self.delivered(&of, id, bytes, Delivered::broken(&error), now)
            }
            (Some(Work::Commit), _) if self.commits.was_abandoned(id) => {}
            (Some(Work::Commit), Ok(Done::Committed(results))) => self.committed(results, now),
            (Some(Work::Commit), Err(error)) => self.commit_broke(&error, now),
            // Work and what it brings are made together.
            _ => {}
        }
    }

    /// Puts a partition into the queue for its next get, unless it rests.
    pub(super) fn schedule(&mut self, of: &Key, due: Instant) {
        let Some(slot) = self.slots.get_mut(&**of) else { return };
        if slot.paused || slot.leaving {
            slot.stage = Stage::Idle;
            return;
        }
        slot.stage = Stage::Queued;
        self.queue.put(Arc::clone(of), due);
    }

    /// Ends what is under way for a partition, a running listener excepted.
    pub(super) fn rest(&mut self, of: &TopicPartition) {
        let Some(slot) = self.slots.get_mut(of) else { return };
        if slot.is_delivering() {
            return;
        }
        self.queue.remove(of);
        match std::mem::replace(&mut slot.stage, Stage::Idle) {
            Stage::Loading(task) | Stage::Querying(task) | Stage::Getting { task, .. } => task.abort(),
            Stage::Waiting => self.waiting.retain(|waiting| **waiting != *of),
            Stage::Ready(fetched) => {
                self.ready.retain(|ready| **ready != *of);
                self.budget.release(fetched.bytes);
            }
            Stage::Idle | Stage::Queued | Stage::Delivering { .. } => {}
        }
    }

    pub(super) fn tell(&self, event: &FetchEvent) {
        let Some(observer) = &self.options.observer else { return };
        if let Err(panic) = caught(|| observer.event(event)) {
            self.observer_panicked.call_once(|| {
                error!(group = %self.group, panic, "the observer of the fetch engine panicked; what it tells is not complete");
            });
        }
    }

    /// Takes over what a listener has handled so far.
    pub(super) fn apply_progress(&mut self, of: &Key) -> usize {
        let messages = self.slots.get_mut(&**of).map_or(0, Slot::apply_progress);
        self.tell_handled(of, messages);
        messages
    }

    pub(super) fn tell_handled(&self, of: &Key, messages: usize) {
        if messages > 0 {
            self.tell(&FetchEvent::Handled { of: Arc::clone(of), messages });
        }
    }
}
