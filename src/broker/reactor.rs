//! What connections share within a thread: puts are handed to the committer once a turn, and their answers come back
//! with one wake-up for all.
//!
//! A turn is what the thread does between two looks at its sockets. Connections that are ready put their groups here;
//! the first one wakes the task that hands them over, which runs behind all that are ready with it.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::Instant;

use super::outbound::{AnswerSender, Answers};
use super::processor::Processor;
use crate::common::guard::lock;
use crate::store::{AppendGroup, AppendSink};

/// A turn's only group is stored without a committer's thread if it has at most so many messages.
const INLINE_MESSAGES: usize = 4;

/// Groups whose buffers are kept for the next ones,
const SPARE_GROUPS: usize = 32;

/// unless they have grown beyond this size.
const SPARE_GROUP_BYTES: usize = 256 << 10;

/// What goes with a group to the committer and back.
pub(super) struct InFlight {
    pub(super) answers: AnswerSender,
    /// What the messages count against the limit of their connection, until their answers are sent.
    pub(super) permit: Option<OwnedSemaphorePermit>,
    /// What they count against the limit of all that wait for the committer, until they are stored.
    pub(super) room: Option<OwnedSemaphorePermit>,
    /// When the messages had been read.
    pub(super) read_at: Instant,
}

/// See the module.
pub(super) struct Reactor {
    processor: Arc<Processor>,
    turn: Mutex<Vec<AppendGroup>>,
    turn_began: Notify,
    done: Mutex<Vec<AppendGroup>>,
    groups_done: Notify,
    spare: Mutex<Vec<AppendGroup>>,
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactor").finish_non_exhaustive()
    }
}

impl Reactor {
    /// Starts the two tasks of a thread, which run as long as its runtime.
    pub(super) fn start(processor: Arc<Processor>) -> Arc<Self> {
        let reactor = Arc::new(Self {
            processor,
            turn: Mutex::default(),
            turn_began: Notify::new(),
            done: Mutex::default(),
            groups_done: Notify::new(),
            spare: Mutex::default(),
        });
        tokio::spawn(Arc::clone(&reactor).hand_over());
        tokio::spawn(Arc::clone(&reactor).deliver());
        reactor
    }

    pub(super) fn processor(&self) -> &Arc<Processor> {
        &self.processor
    }

    /// An empty group, perhaps with room for many messages.
    pub(super) fn new_group(&self) -> AppendGroup {
        lock(&self.spare).pop().unwrap_or_default()
    }

    /// Lets a group be stored and answered. Groups of one connection keep their order.
    pub(super) fn submit(self: &Arc<Self>, group: AppendGroup, in_flight: InFlight) {
        let mut group = group.with_sink(Arc::clone(self) as Arc<dyn AppendSink>);
        group.context = Some(Box::new(in_flight));
        let mut turn = lock(&self.turn);
        turn.push(group);
        if turn.len() == 1 {
            self.turn_began.notify_one();
        }
    }

    async fn hand_over(self: Arc<Self>) {
        let (mut groups, mut done) = (Vec::new(), Vec::new());
        loop {
            self.turn_began.notified().await;
            mem::swap(&mut *lock(&self.turn), &mut groups);
            let committer = self.processor.committer();
            let is_small = matches!(&*groups, [only] if only.len() <= INLINE_MESSAGES);
            if (is_small || groups.iter().all(AppendGroup::waits_for_no_sync)) && committer.commit_now(&mut groups) {
                // Nothing was under way, so everything that was handed over before is done: its answers go first.
                self.answer_done(&mut done);
                groups.drain(..).for_each(|group| self.answer(group));
            }
            if !groups.is_empty() {
                committer.submit(&mut groups);
            }
        }
    }

    async fn deliver(self: Arc<Self>) {
        let mut groups = Vec::new();
        loop {
            self.groups_done.notified().await;
            self.answer_done(&mut groups);
        }
    }

    /// Answers the groups that came back, by way of an empty vector.
    fn answer_done(&self, groups: &mut Vec<AppendGroup>) {
        mem::swap(&mut *lock(&self.done), groups);
        groups.drain(..).for_each(|group| self.answer(group));
    }

    /// Sends the answers to a group and keeps its buffers.
    fn answer(&self, mut group: AppendGroup) {
        if let Some(Ok(in_flight)) = group.context.take().map(|context| context.downcast::<InFlight>()) {
            let InFlight { answers, permit, room, read_at } = *in_flight;
            drop(room);
            let counters = self.processor.counters();
            counters.count_answered_puts(read_at.elapsed(), group.len() as u64, group.body_bytes() as u64);
            let mut ready = Answers::default();
            ready.permit = permit;
            self.processor.encode_put_results(&group, ready.buffer());
            // The connection may be gone; what was stored stays stored.
            answers.send(ready);
        }
        self.keep(group);
    }

    /// Keeps the buffers of a group that is no longer needed.
    fn keep(&self, mut group: AppendGroup) {
        group.clear();
        let mut spare = lock(&self.spare);
        if spare.len() < SPARE_GROUPS && group.capacity() <= SPARE_GROUP_BYTES {
            spare.push(group);
        }
    }
}

impl AppendSink for Reactor {
    fn complete(&self, groups: &mut Vec<AppendGroup>) {
        let mut done = lock(&self.done);
        let is_first = done.is_empty();
        done.append(groups);
        drop(done);
        if is_first {
            self.groups_done.notify_one();
        }
    }
}
