//! Messages as a stream.

use std::future::poll_fn;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::{mpsc, oneshot};

use super::listener::Action;
use crate::fetch::ReceivedMessage;

/// The messages of a topic, each to be answered before the next one of its partition comes.
///
/// Dropping the stream takes nothing more from the topic: the consumer keeps its partitions, but they stand still. Shut
/// the consumer down to hand them to the others of the group.
#[derive(Debug)]
pub struct MessageStream {
    deliveries: mpsc::Receiver<Delivery>,
}

/// A message of a [`MessageStream`]. Dropped without an answer it is delivered again, as after
/// [`retry`](Self::retry).
#[derive(Debug)]
pub struct Delivery {
    message: ReceivedMessage,
    answer: oneshot::Sender<Action>,
}

impl MessageStream {
    /// The next message; `None` when the consumer is shut down.
    ///
    /// Cancellation-safe: no message is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Delivery> {
        poll_fn(|cx| self.deliveries.poll_recv(cx)).await
    }
}

impl Stream for MessageStream {
    type Item = Delivery;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Delivery>> {
        self.deliveries.poll_recv(cx)
    }
}

impl Delivery {
    /// The message.
    pub fn message(&self) -> &ReceivedMessage {
        &self.message
    }

    /// The message is handled.
    pub fn ack(self) {
        self.answer(Action::Ack);
    }

    /// The message is to be delivered again after a pause.
    pub fn retry(self, reason: impl Into<String>) {
        self.answer(Action::Retry(reason.into()));
    }

    /// The message is not to be delivered again.
    pub fn reject(self, reason: impl Into<String>) {
        self.answer(Action::Reject(reason.into()));
    }

    /// Nobody waits for the answer when the partition was given up meanwhile; the next owner delivers it again.
    fn answer(self, action: Action) {
        let _ = self.answer.send(action);
    }
}

impl Deref for Delivery {
    type Target = ReceivedMessage;

    fn deref(&self) -> &ReceivedMessage {
        &self.message
    }
}

/// Feeds a stream.
#[derive(Debug)]
pub(super) struct StreamFeed {
    deliveries: mpsc::Sender<Delivery>,
}

/// A stream and what feeds it.
pub(super) fn stream(read_ahead: usize) -> (StreamFeed, MessageStream) {
    let (sender, deliveries) = mpsc::channel(read_ahead.max(1));
    (StreamFeed { deliveries: sender }, MessageStream { deliveries })
}

impl StreamFeed {
    /// Hands a message to the stream and waits for its answer; `None` if the stream is gone.
    pub(super) async fn deliver(&self, message: ReceivedMessage) -> Option<Action> {
        let (answer, answered) = oneshot::channel();
        self.deliveries.send(Delivery { message, answer }).await.ok()?;
        match answered.await {
            Ok(action) => Some(action),
            Err(_) if self.deliveries.is_closed() => None,
            Err(_) => Some(Action::Retry("dropped without an answer".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::consumer::testing::message;

    #[tokio::test]
    async fn each_answer_of_the_stream_is_the_listener_s() {
        let (feed, mut stream) = stream(1);
        let reader = tokio::spawn(async move {
            stream.next().await.unwrap().ack();
            stream.next().await.unwrap().retry("again");
            stream.next().await.unwrap().reject("bad");
            drop(stream.next().await.unwrap());
            stream
        });
        let mut actions = Vec::new();
        for offset in 0..4 {
            actions.push(feed.deliver(message("t 0-0", offset)).await.unwrap());
        }
        let stream = reader.await.unwrap();
        let retry = |text: &str| Action::Retry(text.to_owned());
        let reject = Action::Reject("bad".to_owned());
        assert_eq!(actions, [Action::Ack, retry("again"), reject, retry("dropped without an answer")]);
        drop(stream);
        assert_eq!(feed.deliver(message("t 0-0", 4)).await, None);
    }

    #[tokio::test]
    async fn messages_that_lie_in_a_dropped_stream_are_not_counted_as_failures() {
        let (feed, stream) = stream(1);
        let deliver = tokio::spawn(async move { feed.deliver(message("t 0-0", 0)).await });
        tokio::task::yield_now().await;
        drop(stream);
        assert_eq!(deliver.await.unwrap(), None);
    }
}
