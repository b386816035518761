//! What can go wrong when an engine is asked for something.

use std::sync::Arc;

use crate::id::TopicPartition;

use super::SourceError;

/// Why an engine did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// It was stopped.
    #[error("the consumer is stopped: make a new one")]
    Stopped,
    /// A fault of this library ended it.
    #[error("the consumer has ended by a fault of its own, restart the process and report this: {0}")]
    Panicked(Arc<str>),
    /// The partition was not added, or is given up.
    #[error("partition {0} is not assigned to this consumer")]
    NotAssigned(TopicPartition),
    /// No get of such a size can be sent.
    #[error("maxSize <=0: ask for 1 byte at least, not {0}")]
    Size(i32),
    /// No message begins at a negative offset.
    #[error("there is no offset {0}: seek to 0 or more")]
    Negative(crate::id::Offset),
    /// While it is not certain that this member still lives in its group, nothing is committed.
    #[error("nothing is committed while the session of the consumer group is not confirmed: try again")]
    Fenced,
    /// Some offsets were not stored. They are committed again periodically, except those that another member owns.
    #[error("{failed} offsets were not stored: {first}")]
    NotCommitted {
        /// How many.
        failed: usize,
        /// The first error.
        first: String,
    },
    /// The broker was asked and did not answer.
    #[error("{0}")]
    Source(#[source] SourceError),
}
