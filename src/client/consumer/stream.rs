//! Messages as a stream.

use std::future::poll_fn;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use tokio::sync::{mpsc, oneshot};

use super::listener::Action;
use crate::fetch::{ReceivedMessage, Stop};

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
    place: Place,
    stopped: Stop,
}

/// Where a message is on its way through the stream.
#[derive(Debug, Clone, Default)]
struct Place(Arc<AtomicU8>);

impl Place {
    const WAITING: u8 = 0;
    const TAKEN: u8 = 1;
    const WITHDRAWN: u8 = 2;

    /// Whether the message has moved from the stream to there.
    fn moves_to(&self, place: u8) -> bool {
        self.0.compare_exchange(Self::WAITING, place, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn is_withdrawn(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::WITHDRAWN
    }
}

impl MessageStream {
    /// The next message; `None` when the consumer is shut down.
    ///
    /// Cancellation-safe: no message is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Delivery> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Delivery>> {
        loop {
            match ready!(self.deliveries.poll_recv(cx)) {
                // Whoever has paused or gone elsewhere gets nothing of before, also if the feed has not noticed yet. Nor
                // does a process that stood still; the feed hears of it by the message that goes.
                Some(delivery) if delivery.stopped.is_stopped() => _ = delivery.place.moves_to(Place::WITHDRAWN),
                Some(delivery) if !delivery.place.moves_to(Place::TAKEN) => {}
                next => return Poll::Ready(next),
            }
        }
    }
}

impl Stream for MessageStream {
    type Item = Delivery;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Delivery>> {
        self.poll(cx)
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

/// What became of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fed {
    /// The application has decided.
    Answered(Action),
    /// It was not taken in time.
    Withdrawn,
    /// The stream is gone.
    Gone,
}

impl StreamFeed {
    /// Hands a message to the stream and waits for its answer. What the application has not taken out of the stream when
    /// `stop` comes is withdrawn.
    pub(super) async fn deliver(&self, message: ReceivedMessage, stop: Stop) -> Fed {
        let (answer, mut answered) = oneshot::channel();
        let place = Place::default();
        let delivery = Delivery { message, answer, place: place.clone(), stopped: stop.clone() };
        let stopped = stop.cancelled();
        tokio::pin!(stopped);
        tokio::select! {
            biased;
            sent = self.deliveries.send(delivery) => if sent.is_err() {
                return Fed::Gone;
            },
            () = &mut stopped => return Fed::Withdrawn,
        }
        let answer = tokio::select! {
            biased;
            answer = &mut answered => answer,
            () = &mut stopped => {
                if place.moves_to(Place::WITHDRAWN) {
                    return Fed::Withdrawn;
                }
                answered.await
            }
        };
        match answer {
            Ok(action) => Fed::Answered(action),
            Err(_) if place.is_withdrawn() => Fed::Withdrawn,
            Err(_) if self.deliveries.is_closed() => Fed::Gone,
            Err(_) => Fed::Answered(Action::Retry("dropped without an answer".to_owned())),
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
            actions.push(feed.deliver(message("t 0-0", offset), Stop::default()).await);
        }
        let stream = reader.await.unwrap();
        let retry = |text: &str| Action::Retry(text.to_owned());
        let reject = Action::Reject("bad".to_owned());
        let expected = [Action::Ack, retry("again"), reject, retry("dropped without an answer")];
        assert_eq!(actions, expected.map(Fed::Answered));
        drop(stream);
        assert_eq!(feed.deliver(message("t 0-0", 4), Stop::default()).await, Fed::Gone);
    }

    #[tokio::test]
    async fn messages_that_lie_in_a_dropped_stream_are_not_counted_as_failures() {
        let (feed, stream) = stream(1);
        let deliver = tokio::spawn(async move { feed.deliver(message("t 0-0", 0), Stop::default()).await });
        tokio::task::yield_now().await;
        drop(stream);
        assert_eq!(deliver.await.unwrap(), Fed::Gone);
    }

    #[tokio::test]
    async fn a_message_that_nobody_has_taken_is_withdrawn_and_one_in_hand_is_waited_for() {
        let (feed, mut stream) = stream(1);
        let stop = Stop::default();
        stop.cancel();
        // One lies in the stream, one does not fit into it.
        for offset in 0..2 {
            assert_eq!(feed.deliver(message("t 0-0", offset), stop.clone()).await, Fed::Withdrawn);
        }
        let stop = Stop::default();
        let stopped = stop.clone();
        let deliver = tokio::spawn(async move { feed.deliver(message("t 0-0", 2), stopped).await });
        let delivery = stream.next().await.unwrap();
        assert_eq!(delivery.offset.get(), 2);
        stop.cancel();
        tokio::task::yield_now().await;
        delivery.ack();
        assert_eq!(deliver.await.unwrap(), Fed::Answered(Action::Ack));
    }

    #[tokio::test]
    async fn a_message_that_lies_in_the_stream_when_it_is_stopped_is_not_taken_any_more_and_has_not_failed() {
        let (feed, mut stream) = stream(1);
        let stop = Stop::default();
        let stopped = stop.clone();
        let deliver = tokio::spawn(async move {
            let fed = feed.deliver(message("t 0-0", 0), stopped).await;
            (fed, feed)
        });
        tokio::task::yield_now().await;
        // The feed's own task has no turn in between.
        stop.cancel();
        let taken = poll_fn(|cx| Poll::Ready(stream.poll(cx))).await;
        assert!(taken.is_pending());
        assert_eq!(deliver.await.unwrap().0, Fed::Withdrawn);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_lies_in_the_stream_when_the_process_stands_still_is_not_taken_any_more() {
        let lease = crate::zk::Lease::new();
        let length = std::time::Duration::from_secs(9);
        lease.renew(tokio::time::Instant::now(), length);
        let (feed, mut stream) = stream(1);
        let stop = Stop::new(Some(lease.term()));
        let deliver = tokio::spawn(async move {
            let fed = feed.deliver(message("t 0-0", 0), stop).await;
            (fed, feed)
        });
        tokio::task::yield_now().await;
        tokio::time::advance(length).await;
        let taken = poll_fn(|cx| Poll::Ready(stream.poll(cx))).await;
        assert!(taken.is_pending());
        assert_eq!(deliver.await.unwrap().0, Fed::Withdrawn);
    }
}
