//! From fetched batches to listeners: what is left out, who is called, what the answer means (05 §12).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use futures_core::future::BoxFuture;

use super::filter::MessageFilter;
use super::listener::{Action, BatchListener, MessageBatch, MessageListener};
use super::panics::{caught, caught_call};
use super::reject::RejectHandler;
use super::stream::{Fed, StreamFeed};
use crate::common::guard::lock;
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
    /// Handles a message.
    ///
    /// # Errors
    /// How the batch ends instead, without any failure.
    async fn handle(&self, message: ReceivedMessage, batch: &Batch) -> Result<Action, Verdict> {
        match self {
            Self::Listener(listener) => {
                let action = match caught_call(|| listener.on_message(message)) {
                    Ok(handling) => caught(handling).await,
                    Err(panic) => Err(panic),
                };
                Ok(action.unwrap_or_else(Action::Retry))
            }
            Self::Stream(feed) => match feed.deliver(message, batch.stopped()).await {
                Fed::Answered(action) => Ok(action),
                Fed::Withdrawn => Err(Verdict::Stopped),
                Fed::Gone => Err(Verdict::Suspend),
            },
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
    pub(super) replays: Mutex<Replays>,
}

/// The application's wishes to read messages again.
#[derive(Debug, Default)]
pub(super) struct Replays {
    /// How many there were.
    count: u64,
    /// Those that are being carried out.
    under_way: usize,
}

impl Replays {
    /// What a batch that begins now belongs to; `None` while nobody can say whether it is read again.
    fn now(&self) -> Option<u64> {
        (self.under_way == 0).then_some(self.count)
    }
}

impl Dispatch {
    /// The application wants to read messages again, for which `go` sets the place: that they were handled must not hide
    /// them. What is in hand meanwhile is not remembered, for it may be among them. As cancellation-safe as `go`.
    pub(super) async fn read_again<T>(&self, go: impl Future<Output = T>) -> T {
        struct UnderWay<'a>(&'a Mutex<Replays>);
        impl Drop for UnderWay<'_> {
            fn drop(&mut self) {
                lock(self.0).under_way -= 1;
            }
        }
        let Some(seen) = &self.seen else { return go.await };
        let _under_way = {
            let mut replays = lock(&self.replays);
            replays.count += 1;
            replays.under_way += 1;
            seen.forget(&self.group);
            UnderWay(&self.replays)
        };
        go.await
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
    fn wants(&self, subscription: &Subscription, message: &ReceivedMessage, replays: Option<u64>) -> bool {
        // A message that failed was not seen to its end, whatever another member of this process says.
        let seen = replays.is_some()
            && message.redeliveries == 0
            && self.seen.as_ref().is_some_and(|seen| seen.contains(&self.group, message.id));
        if seen {
            return false;
        }
        let accept = |filter: &dyn MessageFilter| caught_call(|| filter.accept(&self.group, message)).unwrap_or(false);
        subscription.filter.as_deref().is_none_or(accept)
    }

    /// A message of a batch that began then is handled.
    fn done(&self, message: &ReceivedMessage, then: Option<u64>) {
        let Some(seen) = &self.seen else { return };
        let replays = lock(&self.replays);
        if then.is_some() && replays.now() == then {
            seen.insert(&self.group, message.id);
        }
    }

    async fn one_by_one(
        &self,
        subscription: &Subscription,
        handler: &OneByOne,
        batch: &Batch,
        replays: Option<u64>,
    ) -> Verdict {
        for (index, message) in batch.messages().iter().enumerate() {
            if self.wants(subscription, message, replays) {
                match handler.handle(message.clone(), batch).await {
                    Ok(Action::Ack) => self.done(message, replays),
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
        replays: Option<u64>,
    ) -> Verdict {
        if let Some(wanted) = MessageBatch::of(batch, |message| self.wants(subscription, message, replays)) {
            let action = match caught_call(|| listener.on_batch(&wanted)) {
                Ok(handling) => caught(handling).await,
                Err(panic) => Err(panic),
            };
            let action = action.unwrap_or_else(Action::Retry);
            if action == Action::Ack {
                wanted.handled(wanted.messages().len());
            }
            wanted.handled_messages().iter().for_each(|message| self.done(message, replays));
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
            let replays = lock(&self.replays).now();
            match &subscription.handler {
                Handler::Batches(listener) => self.together(subscription, &**listener, batch, replays).await,
                Handler::OneByOne(handler) => self.one_by_one(subscription, handler, batch, replays).await,
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
