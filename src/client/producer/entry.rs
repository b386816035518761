//! A message on its way, with everything that belongs to it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::handle::SendResult;
use crate::client::connection::after;
use crate::client::{ClientError, Message};
use crate::id::Partition;
use crate::message::encode_body;

/// A message that has its place in the window, until it has its result.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) message: Message,
    pub(super) topic: ByteString,
    pub(super) body: Bytes,
    pub(super) flag: i32,
    pub(super) started: Instant,
    pub(super) timeout: Duration,
    deadline: Instant,
    /// Where it was sent to in vain.
    pub(super) tried: Vec<Partition>,
    pub(super) attempts_left: u32,
    pub(super) reply: oneshot::Sender<Result<SendResult, ClientError>>,
    /// One of the messages and some of the bytes that may be in flight.
    _room: [OwnedSemaphorePermit; 2],
}

impl Entry {
    pub(super) fn new(
        message: Message,
        timeout: Duration,
        attempts_left: u32,
        reply: oneshot::Sender<Result<SendResult, ClientError>>,
        room: [OwnedSemaphorePermit; 2],
    ) -> Self {
        let (flag, body) = match message.attribute() {
            None => (0, message.payload().clone()),
            attribute @ Some(_) => {
                let mut body = BytesMut::with_capacity(message.encoded_len());
                let flag = encode_body(attribute, message.payload(), &mut body);
                (flag, body.freeze())
            }
        };
        let topic = message.topic().as_str().into();
        let started = Instant::now();
        Self {
            message,
            topic,
            body,
            flag,
            started,
            timeout,
            deadline: after(timeout),
            tried: Vec::new(),
            attempts_left,
            reply,
            _room: room,
        }
    }

    /// How much of its time is left.
    pub(super) fn left(&self) -> Duration {
        self.timeout.saturating_sub(self.started.elapsed())
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The error of a message whose time was over before it was sent.
    pub(super) fn timed_out(&self, waited_for: impl Into<String>) -> ClientError {
        ClientError::SendTimeout { timeout: self.timeout, reason: waited_for.into() }
    }
}
