//! What becomes of messages that are not delivered again (05 §13).

use std::fmt;

use futures_core::future::BoxFuture;
use tracing::warn;

use crate::fetch::{ReceivedMessage, RejectError};

/// Takes messages that a listener rejected or failed on too often. Once it has succeeded the group's offset moves behind
/// the message.
pub trait RejectHandler: fmt::Debug + Send + Sync + 'static {
    /// Puts a message away. `reason` is for people.
    ///
    /// # Errors
    /// The message is offered once more after a pause, before anything behind it.
    fn reject<'a>(&'a self, message: &'a ReceivedMessage, reason: &'a str) -> BoxFuture<'a, Result<(), RejectError>>;
}

/// Writes a warning for each message and drops it; the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogRejected;

impl RejectHandler for LogRejected {
    fn reject<'a>(&'a self, message: &'a ReceivedMessage, reason: &'a str) -> BoxFuture<'a, Result<(), RejectError>> {
        warn!(
            partition = %message.from, offset = %message.offset, id = %message.id, reason,
            "message rejected and dropped; read it again with a seek to its offset"
        );
        Box::pin(async { Ok(()) })
    }
}

/// Drops messages without a word.
#[derive(Debug, Clone, Copy, Default)]
pub struct DropRejected;

impl RejectHandler for DropRejected {
    fn reject<'a>(&'a self, _: &'a ReceivedMessage, _: &'a str) -> BoxFuture<'a, Result<(), RejectError>> {
        Box::pin(async { Ok(()) })
    }
}
