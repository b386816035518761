//! The seam to listeners.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_core::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::id::{MessageId, Offset, TopicPartition};
use crate::message::Attribute;

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
    stopped: CancellationToken,
}

impl Batch {
    pub(crate) fn new(messages: Vec<ReceivedMessage>) -> Self {
        Self { messages, handled: AtomicUsize::new(0), stopped: CancellationToken::new() }
    }

    /// All messages, in the order of the partition.
    pub fn messages(&self) -> &[ReceivedMessage] {
        &self.messages
    }

    /// The messages up to this many, counted from the first, are handled: their end is the offset to go on from.
    pub fn handled(&self, count: usize) {
        self.handled.fetch_max(count.min(self.messages.len()), Ordering::AcqRel);
    }

    /// Whether no further message is to be begun: the partition is given up, paused, or read from elsewhere. Without that,
    /// giving it up would take as long as the rest of the batch, or cancel a listener in the middle of it.
    pub fn is_stopped(&self) -> bool {
        self.stopped.is_cancelled()
    }

    /// Returns when it [is stopped](Self::is_stopped). Cancellation-safe.
    pub async fn stopped(&self) {
        self.stopped.cancelled().await;
    }

    /// What [`stopped`](Self::stopped) waits for.
    pub(crate) fn stop_token(&self) -> CancellationToken {
        self.stopped.clone()
    }

    pub(crate) fn stop(&self) {
        self.stopped.cancel();
    }

    /// How many are handled.
    pub(crate) fn handled_count(&self) -> usize {
        self.handled.load(Ordering::Acquire)
    }
}
