//! What stands behind a [`Consumer`](super::Consumer) and all its clones: its subscriptions, then its work, then its end.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use futures_core::future::BoxFuture;
use tokio::sync::{OnceCell, oneshot};
use tracing::error;

use super::assignment::Assignment;
use super::config::ConsumerConfig;
use super::dispatch::{Dispatch, Handler, Subscription};
use super::error::ConsumerError;
use super::identity::consumer_id;
use super::observer::Observer;
use super::running::Running;
use super::source::BrokerSource;
use super::subscription::SubscribeOptions;
use crate::client::message::check_topic;
use crate::client::session::{Child, Session};
use crate::client::{ClientError, ClientEvent};
use crate::common::guard::lock;
use crate::fetch::{FetchEngine, FetchOptions, MessageIdCache, NoStorage, OffsetStorage, ZooKeeperOffsets};
use crate::id::{TopicName, TopicPartition};
use crate::rebalance::{Driver, DriverOptions, JoinError, Membership};
use crate::zk::Lease;

/// What is shut down, in errors.
const CONSUMER: &str = "Consumer";

pub(super) struct Core {
    pub(super) session: Arc<Session>,
    pub(super) config: ConsumerConfig,
    pub(super) options: FetchOptions,
    pub(super) id: String,
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

impl Core {
    pub(super) fn new(
        session: Arc<Session>,
        config: ConsumerConfig,
        storage: Option<Arc<dyn OffsetStorage>>,
    ) -> Result<Arc<Self>, ConsumerError> {
        Self::in_state(session, config, storage, State::Subscribing(HashMap::new()))
    }

    /// One that works already.
    #[cfg(test)]
    pub(super) fn at_work(session: Arc<Session>, config: ConsumerConfig, running: Arc<Running>) -> Arc<Self> {
        Self::in_state(session, config, None, State::Running(running)).unwrap()
    }

    fn in_state(
        session: Arc<Session>,
        config: ConsumerConfig,
        storage: Option<Arc<dyn OffsetStorage>>,
        state: State,
    ) -> Result<Arc<Self>, ConsumerError> {
        let options = config.checked()?;
        Ok(Arc::new_cyclic(|itself| Self {
            session,
            options,
            id: consumer_id(config.group(), config.consumer_id.as_deref()),
            config,
            storage,
            state: Mutex::new(state),
            ended: OnceCell::new(),
            itself: Weak::clone(itself),
        }))
    }

    pub(super) fn check_open(&self) -> Result<(), ClientError> {
        match &*lock(&self.state) {
            State::Ended => Err(ClientError::Shutdown(CONSUMER)),
            _ => Ok(()),
        }
    }

    pub(super) fn running(&self) -> Result<Arc<Running>, ClientError> {
        match &*lock(&self.state) {
            State::Running(running) => match running.panicked() {
                None => Ok(Arc::clone(running)),
                Some(panic) => Err(ConsumerError::Panicked(panic).into()),
            },
            State::Subscribing(_) => Err(ConsumerError::NotStarted.into()),
            State::Ended => Err(ClientError::Shutdown(CONSUMER)),
        }
    }

    pub(super) fn subscribe(
        &self,
        topic: &TopicName,
        options: SubscribeOptions,
        handler: Handler,
    ) -> Result<(), ClientError> {
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
    pub(super) fn start(&self) -> Result<Arc<Running>, ClientError> {
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
    pub(super) async fn join(self: &Arc<Self>, running: Arc<Running>) -> Result<(), ClientError> {
        let (reply, joined) = oneshot::channel();
        let core = Arc::clone(self);
        tokio::spawn(async move {
            let result = running.joined().await;
            // The application's own doing is told only to who waits.
            let was_shut_down = matches!(result, Err(ConsumerError::Join(JoinError::Left)));
            if let Err(error) = &result {
                let _also_failed = core.end().await;
                let group = core.config.group().clone();
                if !was_shut_down {
                    core.session.emit(ClientEvent::JoinFailed { group, error: error.to_string() });
                }
            }
            if let Err(Err(error)) = reply.send(result.map_err(ClientError::from))
                && !was_shut_down
            {
                error!(
                    group = %core.config.group(), consumer = core.id, %error,
                    "the group was not joined and the consumer is shut down; nobody waits for complete_subscribe any more"
                );
            }
        });
        // It fails only while the runtime goes down.
        joined.await.unwrap_or(Err(ClientError::Shutdown(CONSUMER)))
    }

    pub(super) fn start_by_hand(&self, partitions: &[TopicPartition]) -> Result<Arc<Running>, ClientError> {
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
    pub(super) async fn end(&self) -> Result<(), ClientError> {
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
