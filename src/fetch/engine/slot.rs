//! One partition in an engine.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, Id};
use tokio::time::Instant;

use crate::fetch::request::FetchRequest;
use crate::fetch::state::{PartitionState, PartitionStatus};
use crate::fetch::{Batch, SeekTo};
use crate::id::TopicPartition;
use crate::zk::Term;
use crate::zk::format::StoredOffset;

/// A partition's name, shared by everything that concerns it.
pub(super) type Key = Arc<TopicPartition>;

/// A partition that was added.
#[derive(Debug)]
pub(super) struct Slot {
    /// Distinguishes it from an earlier stay of the same partition.
    pub(super) incarnation: u64,
    pub(super) size: i32,
    /// The session in which it was assigned.
    pub(super) term: Option<Term>,
    /// `None` until the stored offset was read.
    pub(super) request: Option<FetchRequest>,
    /// Pause before the next attempt to read the stored offset.
    pub(super) load_delay: Duration,
    pub(super) committed: Option<StoredOffset>,
    pub(super) stage: Stage,
    pub(super) paused: bool,
    /// It is being released: nothing new begins.
    pub(super) leaving: bool,
    /// It was added again while it was leaving, with this size and in this session.
    pub(super) again: Option<(i32, Option<Term>)>,
    /// The last get or load failed.
    pub(super) failing: bool,
    /// The log tells that the stored offset cannot be read.
    pub(super) load_told: bool,
    /// Where to go once the stored offset was read.
    pub(super) seek: Option<SeekTo>,
}

/// What is under way for a partition, one thing at a time.
#[derive(Debug)]
pub(super) enum Stage {
    Idle,
    /// In the queue.
    Queued,
    Loading(AbortHandle),
    /// For room in the budget.
    Waiting,
    /// In the queue as well, with the time-out.
    Getting {
        task: AbortHandle,
        asked: i32,
        since: Instant,
    },
    /// Asking for the nearest offset; in the queue as well.
    Querying(AbortHandle),
    /// Fetched, for a runner.
    Ready(Fetched),
    Delivering {
        task: AbortHandle,
        batch: Arc<Batch>,
        /// How many of the batch have moved the position already.
        applied: usize,
        /// The position was set elsewhere meanwhile: what is handled counts no more.
        stale: bool,
    },
}

/// Messages that wait for their listener.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) batch: Arc<Batch>,
    /// Bytes of the budget that it holds.
    pub(super) bytes: usize,
    /// The first message is not for the listener.
    pub(super) undeliverable: Option<String>,
}

impl Slot {
    pub(super) fn new(incarnation: u64, size: i32, term: Option<Term>) -> Self {
        Self {
            incarnation,
            size,
            term,
            request: None,
            load_delay: Duration::ZERO,
            committed: None,
            stage: Stage::Idle,
            paused: false,
            leaving: false,
            again: None,
            failing: false,
            load_told: false,
            seek: None,
        }
    }

    /// Whether this task is what is under way.
    pub(super) fn runs(&self, id: Id) -> bool {
        match &self.stage {
            Stage::Loading(task)
            | Stage::Querying(task)
            | Stage::Getting { task, .. }
            | Stage::Delivering { task, .. } => task.id() == id,
            Stage::Idle | Stage::Queued | Stage::Waiting | Stage::Ready(_) => false,
        }
    }

    /// The listener gets no further message of its batch.
    pub(super) fn stop_delivery(&self) {
        if let Stage::Delivering { batch, .. } = &self.stage {
            batch.stop();
        }
    }

    pub(super) fn is_delivering(&self) -> bool {
        matches!(self.stage, Stage::Delivering { .. })
    }

    /// Whether its session is known to live, as far as there is one.
    pub(super) fn may_begin(&self) -> bool {
        self.term.as_ref().is_none_or(Term::holds)
    }

    /// Moves the position to the end of what the listener has handled so far. Returns how many messages that is.
    pub(super) fn apply_progress(&mut self) -> usize {
        let Stage::Delivering { batch, .. } = &self.stage else { return 0 };
        self.apply(batch.handled_count())
    }

    /// Moves the position behind the first `count` messages of the batch.
    pub(super) fn apply(&mut self, count: usize) -> usize {
        let (Stage::Delivering { batch, applied, stale: false, .. }, Some(request)) =
            (&mut self.stage, &mut self.request)
        else {
            return 0;
        };
        let before = *applied;
        if count > before
            && let Some(last) = batch.messages().get(count - 1)
        {
            request.handled(last.id, last.next_offset);
            *applied = count;
        }
        *applied - before
    }

    pub(super) fn state(&self, of: &Key) -> PartitionState {
        let request = self.request.as_ref();
        let status = match &self.stage {
            _ if self.leaving => PartitionStatus::Leaving,
            Stage::Delivering { .. } => PartitionStatus::Delivering,
            _ if request.is_none() => PartitionStatus::Loading,
            _ if self.paused => PartitionStatus::Paused,
            _ if request.is_some_and(|request| request.stuck().is_some()) => PartitionStatus::Stuck,
            _ if self.failing => PartitionStatus::Failing,
            Stage::Ready(_) => PartitionStatus::Ready,
            _ => PartitionStatus::Fetching,
        };
        PartitionState {
            of: Arc::clone(of),
            status,
            position: request.map(FetchRequest::position),
            committed: self.committed,
            retries: request.map_or(0, FetchRequest::retries),
            size: request.map_or(self.size, FetchRequest::size),
            stuck: request.and_then(FetchRequest::stuck).map(str::to_owned),
        }
    }
}
