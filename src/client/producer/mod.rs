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
mod entry;
mod handle;
mod lane;
mod published;
mod selector;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;

pub use config::{
    DEFAULT_IN_FLIGHT_BYTES, DEFAULT_IN_FLIGHT_MESSAGES, DEFAULT_MAX_MESSAGE_BYTES, ProducerConfig, Retries,
};
pub use handle::{SendHandle, SendResult};
use published::PublishedTopic;
pub(super) use published::PublishedTopics;
pub use selector::{FixedSelector, HashByKeySelector, PartitionSelector, RandomSelector, RoundRobinSelector};

use self::entry::Entry;
use self::lane::{Lane, Place};
use super::message::check_topic;
use super::session::{Child, Session, SessionHandle};
use super::{ClientError, Message, Outcome};
use crate::common::guard::lock;
use crate::id::{Partition, TopicName};

/// Time that a message has if nothing else is said.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(3);

/// What is told of a producer that has been shut down.
const PRODUCER: &str = "Producer";

/// Pause before a message is sent once more where no other partition is left.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Sends messages. Clones are the same producer, to be shared freely.
///
/// Messages that one task sends one after the other go to each partition in this order, also when their results are
/// awaited later ([`start_send`](Self::start_send)); except those that are sent [once more](ProducerConfig::retries).
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

pub(super) struct Inner {
    session: Arc<Session>,
    id: String,
    config: ProducerConfig,
    shut: AtomicBool,
    /// The topics that this producer has published.
    published: Mutex<HashMap<TopicName, Arc<PublishedTopic>>>,
    lanes: Mutex<HashMap<(TopicName, Place), mpsc::UnboundedSender<Entry>>>,
    messages: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

impl Producer {
    pub(super) fn create(session: &Arc<SessionHandle>, config: ProducerConfig) -> Result<Self, ClientError> {
        config.check()?;
        let permits = |count: u32| usize::try_from(count).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        let inner = Arc::new(Inner {
            session: Arc::clone(session.session()),
            id: session.session().next_id(),
            shut: AtomicBool::new(false),
            published: Mutex::default(),
            lanes: Mutex::default(),
            messages: Arc::new(Semaphore::new(permits(config.in_flight_messages))),
            bytes: Arc::new(Semaphore::new(permits(config.in_flight_bytes))),
            config,
        });
        session.session().register_child(Arc::clone(&inner) as Arc<dyn Child>)?;
        Ok(Self { handle: Arc::new(Handle { inner, session: Arc::clone(session) }) })
    }

    /// Identity of this producer: `<local ip>-<start of the factory in milliseconds>-<n>` (07 §3).
    pub fn session_id(&self) -> &str {
        &self.inner().id
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
            lock(&inner.published).insert(topic.clone(), published);
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
        let published = inner.session.published();
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
        let left = timeout.saturating_sub(started.elapsed());
        inner.start(message, left, room?)?.await
    }

    /// Hands a message over to be sent and returns what waits for its result. It waits only while too much is
    /// [in flight](ProducerConfig::in_flight_messages); the message's three seconds begin afterwards.
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
        inner.start(message, timeout, room)
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
        inner.session.leave(&**inner);
        Ok(())
    }

    fn inner(&self) -> &Arc<Inner> {
        &self.handle.inner
    }
}

impl Inner {
    fn session(&self) -> &Arc<Session> {
        &self.session
    }

    fn config(&self) -> &ProducerConfig {
        &self.config
    }

    fn check_open(&self) -> Result<(), ClientError> {
        if self.shut.load(Ordering::Acquire) { Err(ClientError::Shutdown(PRODUCER)) } else { Ok(()) }
    }

    /// `None` where nothing has to be published.
    async fn publish(&self, topic: &TopicName) -> Result<Option<Arc<PublishedTopic>>, ClientError> {
        self.check_open()?;
        check_topic(topic)?;
        let Some(coordinator) = self.session.coordinator() else { return Ok(None) };
        Ok(Some(self.session.published().publish(&self.session, coordinator, topic).await?))
    }

    fn check(&self, message: &Message) -> Result<(), ClientError> {
        self.check_open()?;
        check_topic(message.topic())?;
        let (len, max) = (message.encoded_len(), self.config.max_message_bytes);
        match max.filter(|&max| len > max) {
            Some(max) => Err(ClientError::InvalidMessage(format!(
                "the message has {len} bytes with its attribute, and at most {max} are taken: split it, or raise \
                 max_message_bytes if every consumer takes more"
            ))),
            None => Ok(()),
        }
    }

    /// Waits for the message's place in the window.
    async fn room(&self, message: &Message) -> Result<[tokio::sync::OwnedSemaphorePermit; 2], ClientError> {
        let bytes = u32::try_from(message.encoded_len()).unwrap_or(u32::MAX).clamp(1, self.config.in_flight_bytes);
        let shut = |_| ClientError::Shutdown(PRODUCER);
        let place = Arc::clone(&self.messages).acquire_owned().await.map_err(shut)?;
        let bytes = Arc::clone(&self.bytes).acquire_many_owned(bytes).await.map_err(shut)?;
        Ok([place, bytes])
    }

    fn start(
        self: &Arc<Self>,
        message: Message,
        timeout: Duration,
        room: [tokio::sync::OwnedSemaphorePermit; 2],
    ) -> Result<SendHandle, ClientError> {
        self.check_open()?;
        let place = self.choose(&message, &[])?;
        let (reply, result) = oneshot::channel();
        self.dispatch(Entry::new(message, timeout, self.config.retries.attempts, reply, room), place);
        Ok(SendHandle(result))
    }

    /// Chooses a partition, one that was not tried yet if there is any: rather of another broker than of the one that
    /// failed last.
    fn choose(&self, message: &Message, tried: &[Partition]) -> Result<Place, ClientError> {
        if self.session.coordinator().is_none() {
            return Ok(Place::Server(self.config.server_partition));
        }
        let topic = message.topic();
        let no_partition = || ClientError::NoPartition { topic: topic.clone() };
        let all = self.session.published().find(topic).ok_or_else(no_partition)?.partitions();
        let last = tried.last().map(|partition| partition.broker);
        let untried: Vec<_> = all.iter().filter(|partition| !tried.contains(partition)).copied().collect();
        let elsewhere: Vec<_> = untried.iter().filter(|partition| Some(partition.broker) != last).copied().collect();
        let candidates: &[Partition] = match tried {
            [] => &all,
            _ if !elsewhere.is_empty() => &elsewhere,
            _ if !untried.is_empty() => &untried,
            _ => &all,
        };
        self.config.selector.select(topic, candidates, message).map(Place::Partition).ok_or_else(no_partition)
    }

    fn dispatch(self: &Arc<Self>, entry: Entry, place: Place) {
        let mut lanes = lock(&self.lanes);
        let lane = lanes.entry((entry.message.topic().clone(), place)).or_insert_with(|| {
            let (sender, queue) = mpsc::unbounded_channel();
            tokio::spawn(Lane::new(place, self).run(queue));
            sender
        });
        let refused = lane.send(entry);
        drop(lanes);
        if let Err(mpsc::error::SendError(entry)) = refused {
            // Its task ends before us only if the runtime does.
            report_failure(&self.session, entry, ClientError::Shutdown(PRODUCER));
        }
    }

    /// Sends a message once more if that is wanted and of use, else tells its error.
    fn failed(self: Arc<Self>, mut entry: Entry, place: Place, error: ClientError) {
        if entry.attempts_left == 0 || !self.may_try_again(&error) || entry.left().is_zero() {
            return report_failure(&self.session, entry, error);
        }
        entry.attempts_left -= 1;
        if let Place::Partition(partition) = place {
            entry.tried.push(partition);
        }
        match self.choose(&entry.message, &entry.tried) {
            Err(_) => report_failure(&self.session, entry, error),
            Ok(next) => {
                self.session.metrics().send_retried(entry.message.topic(), &error);
                let is_new = matches!(next, Place::Partition(partition) if !entry.tried.contains(&partition));
                if is_new {
                    return self.dispatch(entry, next);
                }
                // Its place in the window bounds how many of these there are.
                tokio::spawn(async move {
                    tokio::time::sleep(RETRY_PAUSE.min(entry.left())).await;
                    self.dispatch(entry, next);
                });
            }
        }
    }

    fn may_try_again(&self, error: &ClientError) -> bool {
        let retries = self.config.retries;
        match (error.outcome(), error) {
            _ if !error.is_retryable() => false,
            (Outcome::Unknown, _) => retries.unknown,
            (Outcome::NotDone, ClientError::Refused { .. }) => retries.refused,
            (Outcome::NotDone, _) => true,
        }
    }

    async fn flush(&self) {
        // Places are given in the order in which they are asked for.
        let all = self.messages.acquire_many(self.config.in_flight_messages).await;
        drop(all);
    }
}

impl Child for Inner {
    fn reads(&self) -> bool {
        false
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), ClientError>> {
        Box::pin(async {
            self.shut.store(true, Ordering::Release);
            self.flush().await;
            // The lanes end with their senders.
            let lanes = std::mem::take(&mut *lock(&self.lanes));
            drop(lanes);
            let published = std::mem::take(&mut *lock(&self.published));
            drop(published);
            Ok(())
        })
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topics: HashSet<_> = lock(&self.published).keys().cloned().collect();
        f.debug_struct("Producer")
            .field("id", &self.id)
            .field("config", &self.config)
            .field("topics", &topics)
            .finish_non_exhaustive()
    }
}

/// Tells the error of a message to whoever waits for it.
fn report_failure(session: &Session, entry: Entry, error: ClientError) {
    session.metrics().send_failed(entry.message.topic(), &error);
    // Nobody may wait for the result any more.
    let _ = entry.reply.send(Err(error));
}
