//! Producers (07 §4–§7): publish topics, send messages, each to the partition that a selector chooses.
//!
//! ```text
//!  send ─► checks ─► window (messages, bytes) ─► selector ─► lane of the partition ─► connection of the broker
//!                                                    ▲                   │
//!                                                    └── once more ◄─────┘ failure that may be tried again
//! ```
//!
//! Each partition that messages go to has a lane, a task that sends them in their order and takes the answers. Ordered and
//! one-way producers and transactions stand on the same lanes later.

mod config;
mod dispatch;
mod entry;
mod handle;
mod lane;
mod published;
mod selector;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

pub use config::{
    DEFAULT_IN_FLIGHT_BYTES, DEFAULT_IN_FLIGHT_MESSAGES, DEFAULT_MAX_MESSAGE_BYTES, ProducerConfig, Retries,
};
use dispatch::Inner;
pub use handle::{SendHandle, SendResult};
pub(super) use published::PublishedTopics;
pub use selector::{FixedSelector, HashByKeySelector, PartitionSelector, RandomSelector, RoundRobinSelector};

use super::session::{Child, SessionHandle};
use super::{ClientError, Message};
use crate::id::TopicName;

/// Time that a message has if nothing else is said.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(3);

/// What is told of a producer that has been shut down.
const PRODUCER: &str = "Producer";

/// Sends messages. Clones are the same producer, to be shared freely.
///
/// Messages that one task sends one after the other go to each partition in this order, also when their results are
/// awaited later ([`start_send`](Self::start_send)); except those that are sent [once more](ProducerConfig::retries).
///
/// Dropping the last clone waits for nobody: what was handed over is still sent, as long as the factory lives.
#[derive(Debug, Clone)]
pub struct Producer {
    handle: Arc<Handle>,
}

/// What the application holds of a producer.
#[derive(Debug)]
struct Handle {
    inner: Arc<Inner>,
    session: Arc<SessionHandle>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.session.session().leave(&*self.inner);
    }
}

impl Producer {
    pub(super) fn create(session: &Arc<SessionHandle>, config: ProducerConfig) -> Result<Self, ClientError> {
        config.check()?;
        let inner = Arc::new(Inner::new(session.session(), config));
        session.session().register_child(Arc::clone(&inner) as Arc<dyn Child>)?;
        Ok(Self { handle: Arc::new(Handle { inner, session: Arc::clone(session) }) })
    }

    /// Identity of this producer: `<local ip>-<start of the factory in milliseconds>-<n>` (07 §3).
    pub fn session_id(&self) -> &str {
        self.inner().id()
    }

    /// Makes a topic ready to be sent to: creates its node if it is missing, reads the partitions, connects to their
    /// brokers, and keeps that up to date from then on. A topic that no broker offers at present is fine, too. Again does
    /// no harm. With one broker by its address nothing has to be published.
    ///
    /// # Errors
    /// ZooKeeper did not answer, or none of the brokers could be reached; another call tries again.
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn publish(&self, topic: &TopicName) -> Result<(), ClientError> {
        let inner = self.inner();
        if let Some(published) = inner.publish(topic).await? {
            inner.keep(topic, published);
        }
        Ok(())
    }

    /// Publishes a topic and makes it the default one *of the whole factory*: a message whose topic is not published goes
    /// to the partitions of this one, and still carries its own topic.
    ///
    /// # Errors
    /// As [`publish`](Self::publish), and [`ClientError::DefaultTopic`] if there is another one already.
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn set_default_topic(&self, topic: &TopicName) -> Result<(), ClientError> {
        let inner = self.inner();
        let published = inner.session().published();
        published.check_default(topic)?;
        match inner.publish(topic).await? {
            Some(default) => published.set_default(topic, default),
            None => Ok(()),
        }
    }

    /// Sends a message and waits until it is stored, three seconds at most.
    ///
    /// # Errors
    /// As [`send_with_timeout`](Self::send_with_timeout).
    ///
    /// # Cancellation
    /// Dropped once polled, the message may be sent all the same.
    pub async fn send(&self, message: Message) -> Result<SendResult, ClientError> {
        self.send_with_timeout(message, SEND_TIMEOUT).await
    }

    /// Sends a message and waits until it is stored, so long at most, all attempts together. Zero fails at once.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the broker did not store it; [`ClientError::Unknown`] when it was sent and no answer
    /// came; else it was not sent: [`ClientError::SendTimeout`], [`ClientError::InvalidMessage`],
    /// [`ClientError::NoPartition`], [`ClientError::NoServer`], [`ClientError::Connect`], [`ClientError::Shutdown`].
    ///
    /// # Cancellation
    /// Dropped once polled, the message may be sent all the same.
    pub async fn send_with_timeout(&self, message: Message, timeout: Duration) -> Result<SendResult, ClientError> {
        let started = Instant::now();
        let inner = self.inner();
        inner.check(&message)?;
        let timed_out = |reason: &str| ClientError::SendTimeout { timeout, reason: reason.to_owned() };
        if timeout.is_zero() {
            return Err(timed_out("there was no time"));
        }
        let Ok(room) = tokio::time::timeout(timeout, inner.room(&message)).await else {
            return Err(timed_out("too many messages were in flight"));
        };
        inner.start(message, (started, timeout), room?).await?.await
    }

    /// Hands a message over to be sent and returns what waits for its result. It waits only while too much is
    /// [in flight](ProducerConfig::in_flight_messages), and for a broker that offers the topic if
    /// [that is wanted](ProducerConfig::wait_for_broker). The message's three seconds begin when it has its place in the
    /// window.
    ///
    /// # Errors
    /// [`ClientError::InvalidMessage`], [`ClientError::NoPartition`] and [`ClientError::Shutdown`]; everything else is told
    /// by the handle.
    ///
    /// # Cancellation
    /// Cancellation-safe: a dropped future has sent nothing.
    pub async fn start_send(&self, message: Message) -> Result<SendHandle, ClientError> {
        self.start_send_with_timeout(message, SEND_TIMEOUT).await
    }

    /// The same with a time-out of its own.
    ///
    /// # Errors
    /// As [`start_send`](Self::start_send).
    ///
    /// # Cancellation
    /// As [`start_send`](Self::start_send).
    pub async fn start_send_with_timeout(
        &self,
        message: Message,
        timeout: Duration,
    ) -> Result<SendHandle, ClientError> {
        let inner = self.inner();
        inner.check(&message)?;
        let room = inner.room(&message).await?;
        inner.start(message, (Instant::now(), timeout), room).await
    }

    /// Waits until every message that was handed over before has its result, whichever that is. Messages that come
    /// meanwhile wait for the end of this.
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn flush(&self) {
        self.inner().flush().await;
    }

    /// Takes no more messages, waits for the results of those under way, which their time-outs bound, and lets its topics
    /// go. The factory and its other producers go on. Again does no harm.
    ///
    /// # Errors
    /// None at present.
    ///
    /// # Cancellation
    /// Cancellation-safe: dropped, the producer takes no more messages all the same, and another call goes on.
    pub async fn shutdown(&self) -> Result<(), ClientError> {
        let inner = self.inner();
        inner.shutdown().await?;
        inner.session().leave(&**inner);
        Ok(())
    }

    fn inner(&self) -> &Arc<Inner> {
        &self.handle.inner
    }
}
