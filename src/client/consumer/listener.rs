//! Listeners: what an application does with messages.

use std::fmt::Display;
use std::future::Future;

use futures_core::future::BoxFuture;

use crate::fetch::{Batch, ReceivedMessage};

/// What becomes of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// It is handled: the group's offset moves behind it.
    Ack,
    /// It is delivered again after a pause, with all behind it; after
    /// [`max_fetch_retries`](super::ConsumerConfig::max_fetch_retries) such pauses it is rejected. The text is for people.
    Retry(String),
    /// It is handed to the [`RejectHandler`](super::RejectHandler) and not delivered again. The text is for people.
    Reject(String),
}

/// What a listener may return: nothing or [`Action::Ack`] for a handled message, an error for one that is to be delivered
/// again.
pub trait IntoAction {
    /// The action it stands for.
    fn into_action(self) -> Action;
}

impl IntoAction for () {
    fn into_action(self) -> Action {
        Action::Ack
    }
}

impl IntoAction for Action {
    fn into_action(self) -> Action {
        self
    }
}

impl<T: IntoAction, E: Display> IntoAction for Result<T, E> {
    fn into_action(self) -> Action {
        match self {
            Ok(action) => action.into_action(),
            Err(error) => Action::Retry(error.to_string()),
        }
    }
}

/// Handles messages one by one.
///
/// Messages of one partition come one after the other, in order; those of several partitions at the same time, at most
/// [`fetch_runner_count`](super::ConsumerConfig::fetch_runner_count) of them. An async closure is a listener:
///
/// ```
/// # use metaq::client::{MessageListener, ReceivedMessage};
/// # fn take(_: impl MessageListener) {}
/// take(|message: ReceivedMessage| async move {
///     let text = std::str::from_utf8(&message.payload)?;
///     println!("{}: {text}", message.from);
///     Ok::<_, std::str::Utf8Error>(())
/// });
/// ```
///
/// The future is dropped when the partition is given up and the drain time-out is over: do what must not be left half
/// done in a task of its own. A panic counts as an error.
pub trait MessageListener: Send + Sync + 'static {
    /// Handles a message.
    fn on_message(&self, message: ReceivedMessage) -> BoxFuture<'_, Action>;
}

impl<F, Fut> MessageListener for F
where
    F: Fn(ReceivedMessage) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoAction> + Send + 'static,
{
    fn on_message(&self, message: ReceivedMessage) -> BoxFuture<'_, Action> {
        let handling = self(message);
        Box::pin(async move { handling.await.into_action() })
    }
}

/// Handles messages several at a time: consecutive ones of one partition, as they came from the broker in one answer.
///
/// The same rules as for a [`MessageListener`] apply, with a batch in the place of a message.
pub trait BatchListener: Send + Sync + 'static {
    /// Handles a batch. [`Action::Ack`] means all of it; before that, and before any other action,
    /// [`MessageBatch::handled`] tells of those that are done. The others are delivered again.
    fn on_batch<'a>(&'a self, batch: &'a MessageBatch<'a>) -> BoxFuture<'a, Action>;
}

/// Consecutive messages of one partition, never none.
#[derive(Debug)]
pub struct MessageBatch<'a> {
    messages: Vec<ReceivedMessage>,
    /// For each message how many of the fetched ones are behind us with it: some of those are left out here.
    ends: Vec<usize>,
    fetched: &'a Batch,
}

impl<'a> MessageBatch<'a> {
    /// Takes those of the fetched messages that are wanted; `None` if there are none.
    pub(super) fn of(fetched: &'a Batch, wanted: impl Fn(&ReceivedMessage) -> bool) -> Option<Self> {
        let numbered = fetched.messages().iter().enumerate().filter(|(_, message)| wanted(message));
        let (ends, messages): (Vec<_>, Vec<_>) = numbered.map(|(index, message)| (index + 1, message.clone())).unzip();
        (!messages.is_empty()).then_some(Self { messages, ends, fetched })
    }

    /// The messages, in the order of the partition.
    pub fn messages(&self) -> &[ReceivedMessage] {
        &self.messages
    }

    /// The first `count` messages are handled: whatever happens, they are not delivered again.
    pub fn handled(&self, count: usize) {
        let last = count.min(self.ends.len()).checked_sub(1);
        if let Some(&end) = last.and_then(|last| self.ends.get(last)) {
            self.fetched.handled(end);
        }
    }

    /// Returns when no further message is to be begun: the partition is given up, paused, or read from elsewhere. What is
    /// not [`handled`](Self::handled) then is delivered again and counts as no failure.
    ///
    /// Cancellation-safe.
    pub async fn stopped(&self) {
        self.fetched.stopped().await;
    }

    /// Those that are handled by now.
    pub(super) fn handled_messages(&self) -> &[ReceivedMessage] {
        let handled = self.fetched.handled_count();
        let count = self.ends.partition_point(|&end| end <= handled);
        self.messages.get(..count).unwrap_or_default()
    }
}
