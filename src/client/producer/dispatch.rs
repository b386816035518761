//! What a producer does with a message before and after its lane: checks, the window, the choice of a partition, another
//! attempt.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use super::PRODUCER;
use super::config::ProducerConfig;
use super::entry::Entry;
use super::handle::SendHandle;
use super::lane::{Lane, Place};
use super::published::PublishedTopic;
use crate::client::connection::after;
use crate::client::message::check_topic;
use crate::client::session::{Child, Session};
use crate::client::{ClientError, Message, Outcome};
use crate::common::guard::lock;
use crate::common::panics::caught;
use crate::id::{Partition, TopicName};

/// Pause before a message is sent once more where no other partition is left.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The inner part of a producer.
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

impl Inner {
    pub(super) fn new(session: &Arc<Session>, config: ProducerConfig) -> Self {
        let permits = |count: u32| usize::try_from(count).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self {
            session: Arc::clone(session),
            id: session.next_id(),
            shut: AtomicBool::new(false),
            published: Mutex::default(),
            lanes: Mutex::default(),
            messages: Arc::new(Semaphore::new(permits(config.in_flight_messages))),
            bytes: Arc::new(Semaphore::new(permits(config.in_flight_bytes))),
            config,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Keeps a topic up to date until the producer is shut down.
    pub(super) fn keep(&self, topic: &TopicName, published: Arc<PublishedTopic>) {
        lock(&self.published).insert(topic.clone(), published);
    }

    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    pub(super) fn config(&self) -> &ProducerConfig {
        &self.config
    }

    fn check_open(&self) -> Result<(), ClientError> {
        if self.shut.load(Ordering::Acquire) { Err(ClientError::Shutdown(PRODUCER)) } else { Ok(()) }
    }

    /// `None` where nothing has to be published.
    pub(super) async fn publish(&self, topic: &TopicName) -> Result<Option<Arc<PublishedTopic>>, ClientError> {
        self.check_open()?;
        check_topic(topic)?;
        let Some(coordinator) = self.session.coordinator() else { return Ok(None) };
        Ok(Some(self.session.published().publish(&self.session, coordinator, topic).await?))
    }

    pub(super) fn check(&self, message: &Message) -> Result<(), ClientError> {
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
    pub(super) async fn room(&self, message: &Message) -> Result<[OwnedSemaphorePermit; 2], ClientError> {
        let bytes = u32::try_from(message.encoded_len()).unwrap_or(u32::MAX).clamp(1, self.config.in_flight_bytes);
        let shut = |_| ClientError::Shutdown(PRODUCER);
        let place = Arc::clone(&self.messages).acquire_owned().await.map_err(shut)?;
        let bytes = Arc::clone(&self.bytes).acquire_many_owned(bytes).await.map_err(shut)?;
        Ok([place, bytes])
    }

    pub(super) async fn start(
        self: &Arc<Self>,
        message: Message,
        time: (Instant, Duration),
        room: [OwnedSemaphorePermit; 2],
    ) -> Result<SendHandle, ClientError> {
        self.check_open()?;
        let place = match self.choose(&message, &[]) {
            Err(error @ ClientError::NoPartition { .. }) if self.config.wait_for_broker => {
                let Some(published) = self.session.published().find(message.topic()) else { return Err(error) };
                if tokio::time::timeout_at(after(time.0, time.1), published.offered()).await.is_err() {
                    return Err(error);
                }
                self.check_open()?;
                self.choose(&message, &[])?
            }
            chosen => chosen?,
        };
        let (reply, result) = oneshot::channel();
        self.dispatch(Entry::new(message, time, self.config.retries.attempts, reply, room), place);
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
        // It is asked again in the lane's task, which messages of others are waiting in.
        match caught(|| self.config.selector.select(topic, candidates, message)) {
            Ok(chosen) => chosen.map(Place::Partition).ok_or_else(no_partition),
            Err(panic) => Err(ClientError::Selector { topic: topic.clone(), panic }),
        }
    }

    fn dispatch(self: &Arc<Self>, entry: Entry, place: Place) {
        let mut lanes = lock(&self.lanes);
        let topic = entry.message.topic();
        let lane = lanes.entry((topic.clone(), place)).or_insert_with(|| {
            let (sender, queue) = mpsc::unbounded_channel();
            tokio::spawn(Lane::new(topic.clone(), place, self).run(queue));
            sender
        });
        let refused = lane.send(entry);
        drop(lanes);
        if let Err(mpsc::error::SendError(entry)) = refused {
            // Its task ends before us only if the runtime does.
            report_failure(&self.session, entry, ClientError::Shutdown(PRODUCER));
        }
    }

    /// Forgets a lane unless there is something in its queue; then it goes on.
    pub(super) fn lets_go(&self, topic: &TopicName, place: Place, queue: &mpsc::UnboundedReceiver<Entry>) -> bool {
        let mut lanes = lock(&self.lanes);
        // What is sent is sent under this lock.
        let is_idle = queue.is_empty();
        if is_idle {
            lanes.remove(&(topic.clone(), place));
        }
        is_idle
    }

    /// Sends a message once more if that is wanted and of use, else tells its error.
    pub(super) fn failed(self: Arc<Self>, mut entry: Entry, place: Place, error: ClientError) {
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
                let is_new = matches!(next, Place::Partition(partition) if !entry.tried.contains(&partition));
                if !is_new && entry.left() <= RETRY_PAUSE {
                    return report_failure(&self.session, entry, error);
                }
                self.session.metrics().send_retried(entry.message.topic(), &error);
                if is_new {
                    return self.dispatch(entry, next);
                }
                // Its place in the window bounds how many of these there are.
                tokio::spawn(async move {
                    tokio::time::sleep(RETRY_PAUSE).await;
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

    pub(super) async fn flush(&self) {
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
pub(super) fn report_failure(session: &Session, entry: Entry, error: ClientError) {
    session.metrics().send_failed(entry.message.topic(), &error);
    // Nobody may wait for the result any more.
    let _ = entry.reply.send(Err(error));
}
