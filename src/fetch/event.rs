//! What an engine tells about its work.

use std::fmt;
use std::sync::Arc;

use crate::id::{MessageId, Offset, TopicPartition};

/// Hears what happens in an engine, for metrics and callbacks.
pub trait FetchObserver: fmt::Debug + Send + Sync {
    /// Called by the engine between two steps of its work: it must return at once. What belongs into the log is there
    /// already. A panic is told there once, and nothing else comes of it.
    fn event(&self, event: &FetchEvent);
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FetchEvent {
    /// An answer with whole messages came.
    Received {
        /// Where from.
        of: Arc<TopicPartition>,
        /// Whole messages in it.
        messages: usize,
        /// Bytes of the answer.
        bytes: usize,
    },
    /// Messages were handled; the position moved.
    Handled {
        /// Where.
        of: Arc<TopicPartition>,
        /// How many.
        messages: usize,
    },
    /// The broker sent the consumer to another offset (301): the old one is not there (any more), or was only "the end".
    Moved {
        /// Where.
        of: Arc<TopicPartition>,
        /// The old offset.
        from: Offset,
        /// The new one.
        to: Offset,
    },
    /// The user has sought. If that was before the stored offset was known, this is told when it was read.
    Sought {
        /// Where.
        of: Arc<TopicPartition>,
        /// The position until then, or the stored offset; zero if there is none, or if it was an end not known yet.
        from: Offset,
    },
    /// There was no record at the offset, and the broker named another one to begin at; what is read again is delivered again.
    Realigned {
        /// Where.
        of: Arc<TopicPartition>,
        /// The old offset.
        from: Offset,
        /// The new one.
        to: Offset,
    },
    /// A listener did not handle a message: it is delivered again after a pause.
    DeliveryFailed {
        /// Where.
        of: Arc<TopicPartition>,
        /// The message's offset.
        offset: Offset,
        /// How often in a row.
        times: u32,
        /// The listener's reason.
        reason: String,
    },
    /// A message was rejected and is skipped.
    Rejected {
        /// Where.
        of: Arc<TopicPartition>,
        /// The message's offset.
        offset: Offset,
        /// The message's id.
        id: MessageId,
        /// Why.
        reason: String,
    },
    /// A message could not be put away: it is offered again after a pause, and nothing behind it is delivered until then.
    RejectFailed {
        /// Where.
        of: Arc<TopicPartition>,
        /// The message's offset.
        offset: Offset,
        /// Why not.
        error: String,
        /// The first failure with this message, in a row.
        is_new: bool,
    },
    /// The partition cannot be read on from here. It is tried again with the longest pause; seeking ends it.
    Stuck {
        /// Where.
        of: Arc<TopicPartition>,
        /// The offset.
        offset: Offset,
        /// What is wrong.
        reason: String,
    },
    /// A get or an offset query failed; it is repeated for ever.
    GetFailed {
        /// Where.
        of: Arc<TopicPartition>,
        /// What was said.
        error: String,
        /// Nothing failed before: the outage of this partition begins.
        is_new: bool,
    },
    /// A partition is read again whose gets failed, or whose stored offset could not be read.
    Recovered {
        /// Where.
        of: Arc<TopicPartition>,
    },
    /// The stored offset of a partition could not be read; that is repeated for ever, and nothing is read until then.
    LoadFailed {
        /// Where.
        of: Arc<TopicPartition>,
        /// What was said.
        error: String,
    },
    /// An offset was stored.
    Committed {
        /// Where.
        of: Arc<TopicPartition>,
        /// The offset.
        offset: Offset,
    },
    /// An offset was not stored; the next commit tries again.
    CommitFailed {
        /// Where.
        of: Arc<TopicPartition>,
        /// What was said.
        error: String,
    },
    /// The engine has ended by a fault of its own: nothing is read any more.
    Panicked {
        /// What it said.
        panic: Arc<str>,
    },
    /// Another member owns the partition: it is given up as if lost.
    NotOwner {
        /// Where.
        of: Arc<TopicPartition>,
    },
}
