//! From fetched batches to listeners: what is left out, who is called, what the answer means (05 §12).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_core::future::BoxFuture;
use tracing::error;

use super::filter::MessageFilter;
use super::listener::{Action, BatchListener, MessageBatch, MessageListener};
use super::reject::RejectHandler;
use super::seen::SeenMessages;
use super::stream::{Fed, StreamFeed};
use crate::common::guard::lock;
use crate::common::panics::{caught, caught_async};
use crate::common::quiet::Quiet;
use crate::fetch::{Batch, MessageIdCache, MessageSink, ReceivedMessage, RejectError, Verdict};
use crate::id::{GroupName, Offset, TopicName, TopicPartition};

/// Between two lines about filters that panic.
const FILTER_PERIOD: Duration = Duration::from_secs(30);

/// What takes the messages of a topic.
pub(super) enum Handler {
    OneByOne(OneByOne),
    Batches(Box<dyn BatchListener>),
}

/// What takes messages one by one.
pub(super) enum OneByOne {
    Listener(Box<dyn MessageListener>),
    Stream(StreamFeed),
}

impl OneByOne {
    /// Handles a message.
    ///
    /// # Errors
    /// How the batch ends instead, without any failure.
    async fn handle(&self, message: ReceivedMessage, batch: &Batch) -> Result<Action, Verdict> {
        match self {
            Self::Listener(listener) => {
                let action = match caught(|| listener.on_message(message)) {
                    Ok(handling) => caught_async(handling).await,
                    Err(panic) => Err(panic),
                };
                Ok(action.unwrap_or_else(listener_panicked))
            }
            Self::Stream(feed) => match feed.deliver(message, batch.stop_token()).await {
                Fed::Answered(action) => Ok(action),
                Fed::Withdrawn => Err(Verdict::Stopped),
                Fed::Gone => Err(Verdict::Suspend),
            },
        }
    }
}

/// A panic of a listener is an error like another.
fn listener_panicked(panic: String) -> Action {
    Action::Retry(format!("the listener panicked: {panic}"))
}

/// How a topic is consumed.
pub(super) struct Subscription {
    pub(super) max_size: i32,
    pub(super) filter: Option<Box<dyn MessageFilter>>,
    pub(super) handler: Handler,
}

/// The sink of a consumer's engine.
pub(super) struct Dispatch {
    pub(super) group: GroupName,
    subscriptions: HashMap<TopicName, Subscription>,
    reject: Arc<dyn RejectHandler>,
    seen: SeenMessages,
    progress: Mutex<HashMap<TopicPartition, Progress>>,
    /// Panics of filters.
    filter_panics: Mutex<Quiet>,
}

/// How far a partition has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    /// The end of the last batch that was begun.
    reached: Offset,
    /// Up to where messages are read again on purpose: the cache of seen ones must not hide them. Zero if there is no such
    /// place, the largest offset as long as it is not known.
    replayed_until: Offset,
}

impl Default for Progress {
    fn default() -> Self {
        Self { reached: Offset::ZERO, replayed_until: Offset::ZERO }
    }
}

impl Progress {
    /// Up to where messages are being read again, as far as that is known.
    fn open(self) -> Offset {
        if self.replayed_until == Offset::LATEST { Offset::ZERO } else { self.replayed_until }
    }
}

impl Dispatch {
    pub(super) fn new(
        group: GroupName,
        subscriptions: HashMap<TopicName, Subscription>,
        reject: Arc<dyn RejectHandler>,
        seen: Option<Arc<dyn MessageIdCache>>,
    ) -> Self {
        let filter_panics = Mutex::new(Quiet::new(FILTER_PERIOD));
        let seen = SeenMessages::new(group.clone(), seen);
        Self { group, subscriptions, reject, seen, progress: Mutex::default(), filter_panics }
    }

    /// The user is about to go elsewhere: nothing is hidden until it is known how far messages may have been seen. Returns
    /// what [`seek_failed`](Self::seek_failed) needs.
    pub(super) fn before_seek(&self, of: &TopicPartition) -> Option<Progress> {
        let mut progress = lock(&self.progress);
        let before = progress.get(of).copied();
        progress.entry(of.clone()).or_default().replayed_until = Offset::LATEST;
        before
    }

    /// The user did not go elsewhere.
    pub(super) fn seek_failed(&self, of: &TopicPartition, before: Option<Progress>) {
        let mut progress = lock(&self.progress);
        match (progress.get_mut(of), before) {
            (Some(progress), Some(before)) => progress.replayed_until = before.replayed_until,
            _ => {
                progress.remove(of);
            }
        }
    }

    /// The user went elsewhere from `position`: what lies before it, whatever was handed to a listener until now, and what
    /// was being read again already, is delivered again.
    pub(super) fn after_seek(&self, of: &TopicPartition, position: Offset, before: Option<Progress>) {
        if let Some(progress) = lock(&self.progress).get_mut(of) {
            let open = before.map_or(Offset::ZERO, Progress::open);
            progress.replayed_until = progress.reached.max(position).max(open).max(progress.open());
        }
    }

    /// The engine went elsewhere as the user wished. The group stood at `position`, whether that was known before or not.
    pub(super) fn told_position(&self, of: &TopicPartition, position: Offset) {
        if let Some(progress) = lock(&self.progress).get_mut(of) {
            progress.replayed_until = progress.reached.max(position).max(progress.open());
        }
    }

    /// Whether a topic is subscribed to.
    pub(super) fn handles(&self, topic: &TopicName) -> bool {
        self.subscriptions.contains_key(topic)
    }

    /// Bytes to ask for at a time; 0 for a topic that is not subscribed to.
    pub(super) fn max_size(&self, topic: &TopicName) -> i32 {
        self.subscriptions.get(topic).map_or(0, |subscription| subscription.max_size)
    }

    /// A partition is given up. What is read again on purpose and is not through stays known: if the partition comes back, the
    /// stored offset says how far that came, and the rest must not be hidden.
    pub(super) fn given_up(&self, of: &TopicPartition) {
        lock(&self.progress).retain(|partition, progress| partition != of || progress.replayed_until > Offset::ZERO);
    }

    /// A batch begins. Returns up to where the cache of seen messages counts for nothing.
    fn begin(&self, of: &TopicPartition, batch: &Batch) -> Offset {
        let start = batch.messages().first().map_or(Offset::ZERO, |first| first.offset);
        let end = batch.messages().last().map_or(Offset::ZERO, |last| last.next_offset);
        let mut progress = lock(&self.progress);
        let progress = progress.entry(of.clone()).or_default();
        progress.reached = progress.reached.max(end);
        if start >= progress.replayed_until {
            progress.replayed_until = Offset::ZERO;
        }
        progress.replayed_until
    }

    /// Whether the listener is to see a message.
    fn wants(&self, subscription: &Subscription, message: &ReceivedMessage, replayed_until: Offset) -> bool {
        let replayed = message.offset < replayed_until;
        // A message that failed was not seen to its end, whatever another member of this process says.
        let seen = !replayed && message.redeliveries == 0 && self.seen.contains(message);
        if seen {
            return false;
        }
        subscription.filter.as_deref().is_none_or(|filter| self.accepts(filter, message))
    }

    fn accepts(&self, filter: &dyn MessageFilter, message: &ReceivedMessage) -> bool {
        caught(|| filter.accept(&self.group, message)).unwrap_or_else(|panic| {
            if let Some(messages) = lock(&self.filter_panics).count() {
                error!(
                    group = %self.group, partition = %message.from, offset = %message.offset, messages, panic,
                    "the message filter panicked: such messages count as handled and no listener sees them"
                );
            }
            false
        })
    }

    async fn one_by_one(
        &self,
        subscription: &Subscription,
        handler: &OneByOne,
        batch: &Batch,
        replayed_until: Offset,
    ) -> Verdict {
        for (index, message) in batch.messages().iter().enumerate() {
            if self.wants(subscription, message, replayed_until) {
                match handler.handle(message.clone(), batch).await {
                    Ok(Action::Ack) => self.seen.insert(message),
                    Ok(Action::Retry(reason)) => return Verdict::Retry(reason),
                    Ok(Action::Reject(reason)) => return Verdict::Reject(reason),
                    Err(verdict) => return verdict,
                }
            }
            batch.handled(index + 1);
            if batch.is_stopped() {
                return Verdict::Stopped;
            }
        }
        Verdict::Done
    }

    async fn together(
        &self,
        subscription: &Subscription,
        listener: &dyn BatchListener,
        batch: &Batch,
        replayed_until: Offset,
    ) -> Verdict {
        if let Some(wanted) = MessageBatch::of(batch, |message| self.wants(subscription, message, replayed_until)) {
            let action = match caught(|| listener.on_batch(&wanted)) {
                Ok(handling) => caught_async(handling).await,
                Err(panic) => Err(panic),
            };
            let action = action.unwrap_or_else(listener_panicked);
            if action == Action::Ack {
                wanted.handled(wanted.messages().len());
            }
            wanted.handled_messages().iter().for_each(|message| self.seen.insert(message));
            match action {
                Action::Ack => {}
                Action::Retry(_) if batch.is_stopped() => return Verdict::Stopped,
                Action::Retry(reason) => return Verdict::Retry(reason),
                Action::Reject(reason) => return Verdict::Reject(reason),
            }
        }
        // Those behind the last wanted one need nobody.
        batch.handled(batch.messages().len());
        Verdict::Done
    }
}

impl MessageSink for Dispatch {
    fn deliver<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            let Some(from) = batch.messages().first().map(|first| &first.from) else { return Verdict::Done };
            let Some(subscription) = self.subscriptions.get(&from.topic) else { return Verdict::Suspend };
            if batch.is_stopped() {
                // It was read before a seek, or for a partition that leaves: it must not count as what was reached since.
                return Verdict::Stopped;
            }
            let replayed_until = self.begin(from, batch);
            match &subscription.handler {
                Handler::Batches(listener) => self.together(subscription, &**listener, batch, replayed_until).await,
                Handler::OneByOne(handler) => self.one_by_one(subscription, handler, batch, replayed_until).await,
            }
        })
    }

    fn reject<'a>(&'a self, message: &'a ReceivedMessage, reason: &'a str) -> BoxFuture<'a, Result<(), RejectError>> {
        Box::pin(async move {
            let panicked = |panic| format!("the handler for rejected messages panicked: {panic}");
            let handling = caught(|| self.reject.reject(message, reason)).map_err(panicked)?;
            caught_async(handling).await.map_err(panicked)?
        })
    }
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatch").field("group", &self.group).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
