//! The consumer itself.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::sync::{OnceCell, oneshot};
use tracing::error;

use super::assignment::Assignment;
use super::config::ConsumerConfig;
use super::dispatch::{Dispatch, Handler, OneByOne, Subscription};
use super::error::ConsumerError;
use super::identity::consumer_id;
use super::observer::Observer;
use super::running::Running;
use super::source::BrokerSource;
use super::stream::{MessageStream, stream};
use super::subscription::{Fetch, SubscribeOptions};
use super::{BatchListener, MessageListener};
use crate::client::message::check_topic;
use crate::client::session::{Child, Session, SessionHandle};
use crate::client::{ClientError, ClientEvent, MessageSessionFactory};
use crate::common::guard::lock;
use crate::fetch::{FetchEngine, FetchOptions, MessageIdCache, NoStorage, OffsetStorage, SeekTo, ZooKeeperOffsets};
use crate::id::{GroupName, Offset, Partition, TopicName, TopicPartition};
use crate::rebalance::{Driver, DriverOptions, Membership};
use crate::zk::Lease;

/// Messages that a stream holds ready before its listeners wait, one a partition at most.
const STREAM_READ_AHEAD: usize = 64;

/// What is shut down, in errors.
const CONSUMER: &str = "Consumer";

/// Reads topics, as a member of a group or partitions chosen by hand (05).
///
/// Clones are the same consumer. It works until [`shutdown`](Self::shutdown), or that of its factory; dropping it does not
/// end it as long as the factory lives. A listener or handler that holds the consumer, or anything else of the factory, keeps
/// the factory alive: then only a shutdown ends it. Should a fault of this library end it, every call fails with
/// [`ConsumerError::Panicked`] from then on.
#[derive(Debug, Clone)]
pub struct Consumer {
    core: Arc<Core>,
    _handle: Arc<SessionHandle>,
}

pub(super) struct Core {
    session: Arc<Session>,
    config: ConsumerConfig,
    options: FetchOptions,
    id: String,
    /// Given by the application.
    storage: Option<Arc<dyn OffsetStorage>>,
    state: Mutex<State>,
    ended: OnceCell<Result<(), ClientError>>,
    /// For the end, which goes on whoever waits for it.
    itself: Weak<Self>,
}

enum State {
    Subscribing(HashMap<TopicName, Subscription>),
    Running(Arc<Running>),
    Ended,
}

impl MessageSessionFactory {
    /// A consumer whose offsets are kept in ZooKeeper; nowhere, if the factory knows one broker only.
    ///
    /// # Errors
    /// [`ConsumerError`] for settings that cannot be; [`ClientError::Shutdown`].
    pub fn create_consumer(&self, config: ConsumerConfig) -> Result<Consumer, ClientError> {
        self.consumer(config, None)
    }

    /// A consumer whose offsets are kept elsewhere, in a [file](crate::fetch::FileOffsets) for example. All members of a
    /// group must use the same place.
    ///
    /// # Errors
    /// As [`create_consumer`](Self::create_consumer).
    pub fn create_consumer_with(
        &self,
        config: ConsumerConfig,
        storage: Arc<dyn OffsetStorage>,
    ) -> Result<Consumer, ClientError> {
        self.consumer(config, Some(storage))
    }

    fn consumer(
        &self,
        config: ConsumerConfig,
        storage: Option<Arc<dyn OffsetStorage>>,
    ) -> Result<Consumer, ClientError> {
        let options = config.checked()?;
        let core = Arc::new_cyclic(|itself| Core {
            session: Arc::clone(self.session()),
            options,
            id: consumer_id(config.group(), config.consumer_id.as_deref()),
            config,
            storage,
            state: Mutex::new(State::Subscribing(HashMap::new())),
            ended: OnceCell::new(),
            itself: Weak::clone(itself),
        });
        self.session().register_child(core.clone())?;
        Ok(Consumer { core, _handle: Arc::clone(self.handle()) })
    }
}

impl Consumer {
    /// The group.
    pub fn group(&self) -> &GroupName {
        self.core.config.group()
    }

    /// The member's name in ZooKeeper, `<group>_<id>`.
    pub fn consumer_id(&self) -> &str {
        &self.core.id
    }

    /// Reads a topic with a listener, asking for `max_size` bytes at a time. Nothing is read before
    /// [`complete_subscribe`](Self::complete_subscribe).
    ///
    /// # Errors
    /// [`ConsumerError`]: the topic's name or size cannot be, it is subscribed to already, by this or another consumer of
    /// the factory with the same group, or the work has begun; [`ClientError::Shutdown`].
    pub fn subscribe(
        &self,
        topic: &TopicName,
        max_size: i32,
        listener: impl MessageListener,
    ) -> Result<(), ClientError> {
        self.subscribe_with(topic, SubscribeOptions::new(max_size), listener)
    }

    /// [`subscribe`](Self::subscribe) with all options.
    ///
    /// # Errors
    /// As there.
    pub fn subscribe_with(
        &self,
        topic: &TopicName,
        options: SubscribeOptions,
        listener: impl MessageListener,
    ) -> Result<(), ClientError> {
        self.core.subscribe(topic, options, Handler::OneByOne(OneByOne::Listener(Box::new(listener))))
    }

    /// Reads a topic with a listener that takes messages several at a time.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub fn subscribe_batches(
        &self,
        topic: &TopicName,
        options: SubscribeOptions,
        listener: impl BatchListener,
    ) -> Result<(), ClientError> {
        self.core.subscribe(topic, options, Handler::Batches(Box::new(listener)))
    }

    /// Reads a topic as a stream.
    ///
    /// A message that waits in the stream, or for its answer, takes one of
    /// [`fetch_runner_count`](ConsumerConfig::fetch_runner_count), as a listener at work does: with more than one topic,
    /// read all streams at the same time, or allow for as many runners as there are partitions.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub fn subscribe_stream(&self, topic: &TopicName, max_size: i32) -> Result<MessageStream, ClientError> {
        self.subscribe_stream_with(topic, SubscribeOptions::new(max_size))
    }

    /// [`subscribe_stream`](Self::subscribe_stream) with all options.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub fn subscribe_stream_with(
        &self,
        topic: &TopicName,
        options: SubscribeOptions,
    ) -> Result<MessageStream, ClientError> {
        let (feed, messages) = stream(STREAM_READ_AHEAD);
        self.core.subscribe(topic, options, Handler::OneByOne(OneByOne::Stream(feed)))?;
        Ok(messages)
    }

    /// Joins the group and begins to read. It is done when the member has its node in ZooKeeper, the watches and the first
    /// plan. Its partitions follow: a moment later, those that others still own as they are given up;
    /// [`ClientEvent::Rebalanced`](super::super::ClientEvent::Rebalanced) and the
    /// [rebalance listener](ConsumerConfig::rebalance_listener) tell. With a factory that knows one broker only,
    /// reads [`ConsumerConfig::partition`] of each topic without a group (05 §3).
    ///
    /// # Errors
    /// [`ConsumerError`]: it was called before, there is nothing to read, or the group could not be joined; the consumer
    /// is shut down then. [`ClientError::Shutdown`].
    ///
    /// # Cancellation
    /// Once polled, joining goes on without the future; if it fails then,
    /// [`ClientEvent::JoinFailed`](super::super::ClientEvent::JoinFailed) and the log tell, and the consumer is shut down.
    pub async fn complete_subscribe(&self) -> Result<(), ClientError> {
        let running = self.core.start()?;
        self.core.join(running).await
    }

    /// Reads exactly these partitions, chosen by hand: no group is joined, nobody else is kept from reading them. A second
    /// call replaces the first: those that stay go on untouched. Each topic needs a subscription. Offsets are stored and
    /// begun from only with a storage given to
    /// [`create_consumer_with`](MessageSessionFactory::create_consumer_with).
    ///
    /// # Errors
    /// [`ConsumerError`]: a topic has no subscription, or this consumer is a member of its group.
    /// [`ClientError::Shutdown`].
    ///
    /// # Cancellation
    /// Once polled, those that are given up are given up; call it again for the rest.
    pub async fn assign(&self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        let running = self.core.start_by_hand(partitions)?;
        running.assign(partitions).await?;
        Ok(())
    }

    /// What is read now.
    pub fn assigned(&self) -> Vec<TopicPartition> {
        self.core.running().map(|running| running.assigned()).unwrap_or_default()
    }

    /// No more deliveries of these partitions from now on, a running listener aside. They stay owned.
    ///
    /// # Errors
    /// [`ConsumerError`]: the work has not begun, or has ended.
    ///
    /// # Cancellation
    /// Once polled, it is done.
    pub async fn pause(&self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        Ok(self.core.running()?.engine.pause(partitions).await.map_err(ConsumerError::from)?)
    }

    /// Ends [`pause`](Self::pause).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancellation
    /// Once polled, it is done.
    pub async fn resume(&self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        Ok(self.core.running()?.engine.resume(partitions).await.map_err(ConsumerError::from)?)
    }

    /// Goes on elsewhere in a partition. Messages that were handled before are delivered again, whatever
    /// [`duplicate_suppression`](ConsumerConfig::duplicate_suppression) says.
    ///
    /// # Errors
    /// [`ConsumerError`]: the partition is not assigned.
    ///
    /// # Cancellation
    /// Once polled, it is done.
    pub async fn seek(&self, partition: &TopicPartition, to: SeekTo) -> Result<(), ClientError> {
        Ok(self.core.running()?.seek(partition, to).await.map_err(ConsumerError::from)?)
    }

    /// Where the next message begins that is not handled yet; `None` while that is not known.
    ///
    /// # Errors
    /// [`ConsumerError`]: the work has not begun, or has ended.
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn position(&self, partition: &TopicPartition) -> Result<Option<Offset>, ClientError> {
        let position = self.core.running()?.engine.position(partition).await.map(|stored| stored.offset);
        // As long as the broker has not told where the end is.
        Ok(position.filter(|&offset| offset != Offset::LATEST))
    }

    /// The offset that is stored, as far as this consumer knows.
    ///
    /// # Errors
    /// As [`position`](Self::position).
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn committed(&self, partition: &TopicPartition) -> Result<Option<Offset>, ClientError> {
        Ok(self.core.running()?.engine.committed(partition).await.map(|stored| stored.offset))
    }

    /// Bytes from the position to the end of the partition, for which its broker is asked; `None` while the position is
    /// not known or the broker has nothing of the partition.
    ///
    /// # Errors
    /// [`ConsumerError`]: the partition is not assigned, or its broker does not answer.
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn lag(&self, partition: &TopicPartition) -> Result<Option<u64>, ClientError> {
        let lag = self.core.running()?.engine.lag(partition).await.map_err(ConsumerError::from)?;
        if let Some(bytes) = lag {
            self.core.session.metrics().lag(partition, bytes);
        }
        Ok(lag)
    }

    /// Stores all offsets now.
    ///
    /// # Errors
    /// [`ConsumerError`]: some were not stored; they are tried again periodically.
    ///
    /// # Cancellation
    /// Once polled, it is done.
    pub async fn commit(&self) -> Result<(), ClientError> {
        Ok(self.core.running()?.engine.commit().await.map_err(ConsumerError::from)?)
    }

    /// Reads messages once, from the master of the partition, without any subscription; nothing is stored. At most
    /// `max_size` bytes.
    ///
    /// # Errors
    /// The broker cannot be reached, refuses, or does not answer within the fetch time-out; [`ConsumerError::Damaged`].
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn get(
        &self,
        topic: &TopicName,
        partition: Partition,
        offset: Offset,
        max_size: i32,
    ) -> Result<Fetch, ClientError> {
        self.get_with_timeout(topic, partition, offset, max_size, self.core.options.fetch_timeout).await
    }

    /// [`get`](Self::get) with another time-out.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn get_with_timeout(
        &self,
        topic: &TopicName,
        partition: Partition,
        offset: Offset,
        max_size: i32,
        timeout: Duration,
    ) -> Result<Fetch, ClientError> {
        if max_size <= 0 {
            return Err(ConsumerError::MaxSize(max_size).into());
        }
        self.core.check_open()?;
        let of = TopicPartition { topic: topic.clone(), partition };
        let source = BrokerSource::impatient(Arc::clone(&self.core.session), self.group(), timeout);
        let fetched = source.once(&of, offset, max_size).await?;
        Fetch::of(of, offset, fetched, &self.core.options)
    }

    /// Where a partition ends now; `None` if its broker has nothing of it.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn end_offset(&self, partition: &TopicPartition) -> Result<Option<Offset>, ClientError> {
        match self.get(&partition.topic, partition.partition, Offset::LATEST, 1).await? {
            Fetch::Moved(end) => Ok(Some(end)),
            Fetch::Messages(_) | Fetch::Nothing => Ok(None),
        }
    }

    /// The nearest offset at or before the given one at which a message is sure to begin: the start of its segment.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn nearest_offset(&self, partition: &TopicPartition, offset: Offset) -> Result<Offset, ClientError> {
        self.core.check_open()?;
        let timeout = self.core.options.fetch_timeout;
        BrokerSource::new(Arc::clone(&self.core.session), self.group(), timeout).nearest(partition, offset).await
    }

    /// Ends the consumer: listeners end within the drain time-out or are cancelled, offsets are stored, the partitions and
    /// the member's nodes are given up. Another call waits for the same end.
    ///
    /// # Errors
    /// [`ConsumerError::Unclean`], [`ConsumerError::Left`]: it has ended all the same.
    ///
    /// # Cancellation
    /// Once polled, it is done all the same; another call waits for it. A listener that waits for it waits for itself and is
    /// cancelled after the drain time-out: let a task of its own do that.
    pub async fn shutdown(&self) -> Result<(), ClientError> {
        self.core.end().await
    }
}

impl Core {
    fn check_open(&self) -> Result<(), ClientError> {
        match &*lock(&self.state) {
            State::Ended => Err(ClientError::Shutdown(CONSUMER)),
            _ => Ok(()),
        }
    }

    fn running(&self) -> Result<Arc<Running>, ClientError> {
        match &*lock(&self.state) {
            State::Running(running) => match running.panicked() {
                None => Ok(Arc::clone(running)),
                Some(panic) => Err(ConsumerError::Panicked(panic).into()),
            },
            State::Subscribing(_) => Err(ConsumerError::NotStarted.into()),
            State::Ended => Err(ClientError::Shutdown(CONSUMER)),
        }
    }

    fn subscribe(&self, topic: &TopicName, options: SubscribeOptions, handler: Handler) -> Result<(), ClientError> {
        let mut state = lock(&self.state);
        let subscriptions = match &mut *state {
            State::Subscribing(subscriptions) => subscriptions,
            State::Running(_) => return Err(ConsumerError::Registered.into()),
            State::Ended => return Err(ClientError::Shutdown(CONSUMER)),
        };
        check_topic(topic)?;
        let subscription = options.with(handler)?;
        if subscriptions.contains_key(topic) {
            return Err(ConsumerError::Subscribed(topic.clone()).into());
        }
        if !self.session.subscriptions().claim(self.config.group(), topic, &self.id) {
            let (topic, group) = (topic.clone(), self.config.group().clone());
            return Err(ConsumerError::SubscribedByGroup { topic, group }.into());
        }
        subscriptions.insert(topic.clone(), subscription);
        Ok(())
    }

    /// Begins the work: as a member, or with the one partition of a broker known by its address.
    fn start(&self) -> Result<Arc<Running>, ClientError> {
        self.begin(|subscriptions| {
            let topics: BTreeSet<TopicName> = subscriptions.keys().cloned().collect();
            match (self.session.coordinator(), self.config.partition) {
                (Some(coordinator), _) => {
                    let storage = self.storage.clone().unwrap_or_else(|| {
                        let root = self.session.root().clone();
                        Arc::new(ZooKeeperOffsets::new(Arc::clone(coordinator), root, self.id.clone()))
                    });
                    let seen = self.config.seen(&self.session.cluster_name());
                    let lease = Lease::new();
                    let assignment = self.assignment(std::mem::take(subscriptions), storage, seen, Some(lease.clone()));
                    let membership =
                        Membership { group: self.config.group().clone(), consumer_id: self.id.clone(), topics };
                    let options = DriverOptions {
                        connection_timeout: self.session.config().connection_timeout(),
                        lease,
                        ..DriverOptions::default()
                    };
                    let driver = Driver::start(
                        Arc::clone(coordinator),
                        self.session.root().clone(),
                        membership,
                        Arc::clone(&self.config.strategy),
                        Arc::clone(&assignment) as _,
                        options,
                    );
                    Ok(Running::member(&self.session, self.config.group(), assignment, driver))
                }
                (None, Some(partition)) => {
                    let storage = self.storage.clone().unwrap_or_else(|| Arc::new(NoStorage));
                    let running = Running::by_hand(self.assignment(std::mem::take(subscriptions), storage, None, None));
                    let of = topics.into_iter().map(|topic| TopicPartition { topic, partition });
                    running.read(&of.collect::<Vec<_>>());
                    Ok(running)
                }
                (None, None) => Err(ConsumerError::NoPartition),
            }
        })
    }

    /// Waits until the member has joined, in a task of its own: what could not join is shut down whoever waits for it.
    async fn join(self: &Arc<Self>, running: Arc<Running>) -> Result<(), ClientError> {
        let (reply, joined) = oneshot::channel();
        let core = Arc::clone(self);
        tokio::spawn(async move {
            let result = running.joined().await.map_err(ClientError::from);
            if let Err(error) = &result {
                let _also_failed = core.end().await;
                let group = core.config.group().clone();
                core.session.emit(ClientEvent::JoinFailed { group, error: error.to_string() });
            }
            if let Err(Err(error)) = reply.send(result) {
                error!(
                    group = %core.config.group(), consumer = core.id, %error,
                    "the group was not joined and the consumer is shut down; nobody waits for complete_subscribe any more"
                );
            }
        });
        // It fails only while the runtime goes down.
        joined.await.unwrap_or(Err(ClientError::Shutdown(CONSUMER)))
    }

    fn start_by_hand(&self, partitions: &[TopicPartition]) -> Result<Arc<Running>, ClientError> {
        match self.running() {
            Err(ClientError::Consumer(ConsumerError::NotStarted)) => {}
            Ok(running) if running.is_member() => return Err(ConsumerError::AssignedByGroup.into()),
            result => return result,
        }
        self.begin(|subscriptions| {
            if let Some(of) = partitions.iter().find(|of| !subscriptions.contains_key(&of.topic)) {
                return Err(ConsumerError::NoListener(of.topic.clone()));
            }
            let storage = self.storage.clone().unwrap_or_else(|| Arc::new(NoStorage));
            Ok(Running::by_hand(self.assignment(std::mem::take(subscriptions), storage, None, None)))
        })
    }

    /// Begins the work; what refuses leaves the subscriptions.
    fn begin(
        &self,
        begin: impl FnOnce(&mut HashMap<TopicName, Subscription>) -> Result<Running, ConsumerError>,
    ) -> Result<Arc<Running>, ClientError> {
        let mut state = lock(&self.state);
        match &mut *state {
            State::Subscribing(subscriptions) if subscriptions.is_empty() => {
                Err(ConsumerError::NothingSubscribed.into())
            }
            State::Subscribing(subscriptions) => {
                let running = Arc::new(begin(subscriptions)?);
                *state = State::Running(Arc::clone(&running));
                Ok(running)
            }
            State::Running(_) => Err(ConsumerError::Registered.into()),
            State::Ended => Err(ClientError::Shutdown(CONSUMER)),
        }
    }

    fn assignment(
        &self,
        subscriptions: HashMap<TopicName, Subscription>,
        storage: Arc<dyn OffsetStorage>,
        seen: Option<Arc<dyn MessageIdCache>>,
        lease: Option<Lease>,
    ) -> Arc<Assignment> {
        let group = self.config.group().clone();
        let dispatch = Arc::new(Dispatch::new(group.clone(), subscriptions, Arc::clone(&self.config.reject), seen));
        let observer = Arc::new(Observer {
            session: Arc::clone(&self.session),
            group: group.clone(),
            dispatch: Arc::clone(&dispatch),
        });
        let options = FetchOptions { observer: Some(observer), lease, ..self.options.clone() };
        let source = Arc::new(BrokerSource::new(Arc::clone(&self.session), &group, options.fetch_timeout));
        let engine = Arc::new(FetchEngine::start(source, dispatch.clone(), storage, group, options));
        Arc::new(Assignment {
            engine,
            dispatch,
            listener: self.config.rebalance_listener.clone(),
            patience: self.options.drain_timeout,
            at_the_end: Mutex::default(),
        })
    }

    /// Ends the consumer, in a task of its own: a listener that waits for the end is cancelled by it.
    async fn end(&self) -> Result<(), ClientError> {
        // Whoever calls holds it.
        let Some(core) = self.itself.upgrade() else { return Ok(()) };
        let end = tokio::spawn(async move { core.ended.get_or_init(|| core.end_now()).await.clone() });
        // It fails only while the runtime goes down.
        end.await.unwrap_or(Err(ClientError::Shutdown(CONSUMER)))
    }

    async fn end_now(&self) -> Result<(), ClientError> {
        let running = {
            let mut state = lock(&self.state);
            match &*state {
                State::Running(running) => Ok(Arc::clone(running)),
                // Nobody may begin any more.
                _ => Err(std::mem::replace(&mut *state, State::Ended)),
            }
        };
        let result = match running {
            Ok(running) => running.end().await,
            Err(_never_begun) => Ok(()),
        };
        let before = std::mem::replace(&mut *lock(&self.state), State::Ended);
        // Listeners go with it, and they are not ours to trust under a lock.
        drop(before);
        self.session.subscriptions().give_up(&self.id);
        self.session.leave(self);
        Ok(result?)
    }
}

impl Child for Core {
    fn reads(&self) -> bool {
        true
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), ClientError>> {
        Box::pin(self.end())
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("id", &self.id).field("config", &self.config).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
