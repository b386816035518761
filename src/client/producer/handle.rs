//! What comes back of a message that was sent.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::client::{ClientError, NoAnswer};
use crate::id::{BrokerId, MessageId, Offset, Partition, PartitionIndex};

/// Where a message is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendResult {
    /// The broker; `None` if it is known by its address only.
    pub broker: Option<BrokerId>,
    /// Its partition.
    pub partition: PartitionIndex,
    /// Where the message begins.
    pub offset: Offset,
    /// The id that the broker gave it.
    pub id: MessageId,
}

impl SendResult {
    /// Broker and partition, if the broker is known.
    pub fn place(&self) -> Option<Partition> {
        Some(Partition { broker: self.broker?, index: self.partition })
    }
}

impl fmt::Display for SendResult {
    /// As the reference's client shows it; `-1` is a broker that is known by its address only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let broker = self.broker.map_or(-1, |broker| i32::from(broker.get()));
        write!(f, "partition={broker}-{} offset={} id={}", self.partition, self.offset, self.id)
    }
}

/// A message on its way: a future of its result. Dropped, the message is sent all the same.
#[derive(Debug)]
#[must_use = "a message may fail; await the handle, or flush and look at the metrics"]
pub struct SendHandle(pub(super) oneshot::Receiver<Result<SendResult, ClientError>>);

impl Future for SendHandle {
    type Output = Result<SendResult, ClientError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Without a result the runtime is going down, and it may have been sent.
        Pin::new(&mut self.0).poll(cx).map(|result| result.unwrap_or(Err(NoAnswer::Abandoned.into())))
    }
}
