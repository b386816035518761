//! From fetched batches to listeners: what is left out, who is called, what the answer means (05 §12).

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;

use super::filter::MessageFilter;
use super::listener::{Action, BatchListener, MessageBatch, MessageListener};
use super::panics::{caught, caught_call};
use super::reject::RejectHandler;
use super::stream::StreamFeed;
use crate::fetch::{Batch, MessageIdCache, MessageSink, ReceivedMessage, RejectError, Verdict};
use crate::id::{GroupName, TopicName};

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
    /// Handles a message; `None` if nobody takes messages any more.
    async fn handle(&self, message: ReceivedMessage) -> Option<Action> {
        match self {
            Self::Listener(listener) => {
                let action = match caught_call(|| listener.on_message(message)) {
                    Ok(handling) => caught(handling).await,
                    Err(panic) => Err(panic),
                };
                Some(action.unwrap_or_else(Action::Retry))
            }
            Self::Stream(feed) => feed.deliver(message).await,
        }
    }
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
    pub(super) subscriptions: HashMap<TopicName, Subscription>,
    pub(super) reject: Arc<dyn RejectHandler>,
    pub(super) seen: Option<Arc<dyn MessageIdCache>>,
}

impl Dispatch {
    /// The application wants to read messages again: that they were handled must not hide them.
    pub(super) fn read_again(&self) {
        if let Some(seen) = &self.seen {
            seen.forget(&self.group);
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

    /// Whether the listener is to see a message.
    fn wants(&self, subscription: &Subscription, message: &ReceivedMessage) -> bool {
        // A message that failed was not seen to its end, whatever another member of this process says.
        let seen =
            message.redeliveries == 0 && self.seen.as_ref().is_some_and(|seen| seen.contains(&self.group, message.id));
        if seen {
            return false;
        }
        let accept = |filter: &dyn MessageFilter| caught_call(|| filter.accept(&self.group, message)).unwrap_or(false);
        subscription.filter.as_deref().is_none_or(accept)
    }

    fn done(&self, message: &ReceivedMessage) {
        if let Some(seen) = &self.seen {
            seen.insert(&self.group, message.id);
        }
    }

    async fn one_by_one(&self, subscription: &Subscription, handler: &OneByOne, batch: &Batch) -> Verdict {
        for (index, message) in batch.messages().iter().enumerate() {
            if self.wants(subscription, message) {
                match handler.handle(message.clone()).await {
                    Some(Action::Ack) => self.done(message),
                    Some(Action::Retry(reason)) => return Verdict::Retry(reason),
                    Some(Action::Reject(reason)) => return Verdict::Reject(reason),
                    None => return Verdict::Suspend,
                }
            }
            batch.handled(index + 1);
        }
        Verdict::Done
    }

    async fn together(&self, subscription: &Subscription, listener: &dyn BatchListener, batch: &Batch) -> Verdict {
        if let Some(wanted) = MessageBatch::of(batch, |message| self.wants(subscription, message)) {
            let action = caught(listener.on_batch(&wanted)).await.unwrap_or_else(Action::Retry);
            if action == Action::Ack {
                wanted.handled(wanted.messages().len());
            }
            wanted.handled_messages().iter().for_each(|message| self.done(message));
            match action {
                Action::Ack => {}
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
            match &subscription.handler {
                Handler::Batches(listener) => self.together(subscription, &**listener, batch).await,
                Handler::OneByOne(handler) => self.one_by_one(subscription, handler, batch).await,
            }
        })
    }

    fn reject<'a>(&'a self, message: &'a ReceivedMessage, reason: &'a str) -> BoxFuture<'a, Result<(), RejectError>> {
        Box::pin(async move {
            let handling = caught_call(|| self.reject.reject(message, reason))?;
            caught(handling).await?
        })
    }
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatch").field("group", &self.group).finish_non_exhaustive()
    }
}
