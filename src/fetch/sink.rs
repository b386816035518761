//! The seam to listeners.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_core::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::id::{MessageId, Offset, TopicPartition};
use crate::message::Attribute;
use crate::zk::Term;

/// Takes messages, those of one partition one batch after the other, batches of several partitions at the same time.
pub trait MessageSink: fmt::Debug + Send + Sync {
    /// Handles messages in their order and tells [`Batch::handled`] of each. The future is dropped when the partition
    /// is given up and its time is over; what was told until then counts.
    fn deliver<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Verdict>;

    /// Takes a message that is not delivered again: the listener rejected it, or failed on it too often. `reason` is
    /// for people.
    ///
    /// # Errors
    /// The message is offered once more after a pause.
    fn reject<'a>(&'a self, message: &'a ReceivedMessage, reason: &'a str) -> BoxFuture<'a, Result<(), RejectError>>;
}

/// Why a rejected message could not be put away.
pub type RejectError = Box<dyn std::error::Error + Send + Sync>;

/// How a batch ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every message is handled.
    Done,
    /// The first message that is not handled is delivered again after a pause; so many times, then it is rejected.
    Retry(String),
    /// The first message that is not handled is not to be delivered again.
    Reject(String),
    /// Nobody takes messages of the partition any more: it stands still as if paused. Nothing is counted as failed.
    Suspend,
    /// The batch [is stopped](Batch::is_stopped), and not all of it is handled. Nothing is counted as failed.
    Stopped,
}

/// A message as it came from a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// Topic and partition it was read from.
    pub from: Arc<TopicPartition>,
    /// Where it begins.
    pub offset: Offset,
    /// Where the next one begins.
    pub next_offset: Offset,
    /// The id that the broker gave it.
    pub id: MessageId,
    /// The attribute, if it has one.
    pub attribute: Option<Attribute>,
    /// What was sent. It shares memory with its neighbours: keep a copy rather than a slice for long.
    pub payload: Bytes,
    /// How often it was delivered to this consumer before, in a row.
    pub redeliveries: u32,
}

/// Consecutive messages of one partition, never none.
#[derive(Debug)]
pub struct Batch {
    messages: Vec<ReceivedMessage>,
    handled: AtomicUsize,
    stop: Stop,
}

/// What keeps further messages of a batch from being begun.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop {
    token: CancellationToken,
    /// The session in which the partition was assigned.
    term: Option<Term>,
}

impl Stop {
    /// For a partition that was assigned in this session, if any.
    pub(crate) fn new(term: Option<Term>) -> Self {
        Self { token: CancellationToken::new(), term }
    }

    /// Whether nothing more is to be begun. That the session is not known to live is noticed only by looking.
    pub(crate) fn is_stopped(&self) -> bool {
        self.token.is_cancelled() || self.term.as_ref().is_some_and(|term| !term.holds())
    }

    /// Returns when it is stopped on purpose. Cancellation-safe.
    pub(crate) async fn cancelled(&self) {
        self.token.cancelled().await;
    }

    pub(crate) fn cancel(&self) {
        self.token.cancel();
    }
}

impl Batch {
    pub(crate) fn new(messages: Vec<ReceivedMessage>, term: Option<Term>) -> Self {
        Self { messages, handled: AtomicUsize::new(0), stop: Stop::new(term) }
    }

    /// All messages, in the order of the partition.
    pub fn messages(&self) -> &[ReceivedMessage] {
        &self.messages
    }

    /// The messages up to this many, counted from the first, are handled: their end is the offset to go on from.
    pub fn handled(&self, count: usize) {
        self.handled.fetch_max(count.min(self.messages.len()), Ordering::AcqRel);
    }

    /// Whether no further message is to be begun: the partition is given up, paused, or read from elsewhere, or the session
    /// of the group's member [is not known to live](crate::zk::Lease). Without the former, giving it up would take as long
    /// as the rest of the batch, or cancel a listener in the middle of it. To be looked at before each message.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_stopped()
    }

    /// Returns when the partition is given up, paused, or read from elsewhere. Cancellation-safe.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// What [`is_stopped`](Self::is_stopped) looks at.
    pub(crate) fn stop_token(&self) -> Stop {
        self.stop.clone()
    }

    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// How many are handled.
    pub(crate) fn handled_count(&self) -> usize {
        self.handled.load(Ordering::Acquire)
    }
}
