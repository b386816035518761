//! What the committer is asked and what it answers.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::error::AppendError;
use super::partition::PartitionLog;
use crate::id::{MessageId, Offset, PartitionIndex};

/// One message to be stored.
#[derive(Debug, Clone)]
pub struct Append {
    /// Where.
    pub partition: Arc<PartitionLog>,
    /// As the producer sent it.
    pub flag: i32,
    /// Checksum of the body; the caller has verified or computed it.
    pub checksum: i32,
    /// The body, attribute block included.
    pub body: Bytes,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The id it was given.
    pub id: MessageId,
    /// The partition it is in.
    pub index: PartitionIndex,
    /// Offset of its first byte.
    pub offset: Offset,
}

/// Takes one result for each put of a group, in their order. Runs on the committer's thread: it must not block.
pub type Done = Box<dyn FnOnce(Vec<Result<Appended, AppendError>>) + Send>;

/// Messages that are handed over and answered together, typically what one read of a connection brought.
pub struct AppendGroup {
    /// The messages in order of arrival.
    pub puts: Vec<Append>,
    /// Called exactly once.
    pub done: Done,
}

impl fmt::Debug for AppendGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppendGroup").field("puts", &self.puts.len()).finish_non_exhaustive()
    }
}
