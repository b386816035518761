//! What everything of one factory stands on: the coordinator, the brokers' connections, events, and who is to be shut
//! down with it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use futures_core::future::BoxFuture;
use tokio::sync::{Notify, OnceCell, broadcast};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

use super::config::{ClientConfig, Target};
use super::connections::{Connections, FACTORY};
use super::consumer::Subscriptions;
use super::directory::{Directory, Mapping};
use super::events::{ClientEvent, Events};
use super::metrics::ClientMetrics;
use super::producer::PublishedTopics;
use super::upkeep::{Upkeep, keep_up};
use super::{BrokerClient, ClientError};
use crate::common::guard::lock;
use crate::common::host::default_host;
use crate::id::{BrokerId, BrokerUrl};
use crate::zk::{Cluster, Coordinator, Root};

/// The inner part of a factory.
pub(crate) struct Session {
    config: ClientConfig,
    brokers: Brokers,
    connections: Arc<Connections>,
    events: Events,
    /// In the order of their creation.
    children: Mutex<Vec<Arc<dyn Child>>>,
    closing: CancellationToken,
    closed: OnceCell<Result<(), ClientError>>,
    /// `<local ip>-<start in milliseconds>` (07 §3).
    id: String,
    numbers: AtomicU64,
    subscriptions: Subscriptions,
    brokers_changed: Arc<Notify>,
    published: PublishedTopics,
    _upkeep: Option<AbortOnDropHandle<()>>,
}

/// How brokers are found.
#[derive(Debug)]
pub(crate) enum Discovery {
    /// Every broker is this one.
    Server(BrokerUrl),
    /// Through the nodes of ZooKeeper.
    Coordinator(Arc<dyn Coordinator>),
}

#[derive(Debug)]
enum Brokers {
    One(String),
    Registered { coordinator: Arc<dyn Coordinator>, directory: Arc<Directory> },
}

/// A producer or consumer of a factory.
pub(crate) trait Child: fmt::Debug + Send + Sync {
    /// Whether it reads: those that do are shut down first, as their listeners may send with the others.
    fn reads(&self) -> bool;

    /// Ends it cleanly; also when it has ended already. Once polled, it may have ended in part when the future is
    /// dropped; another call goes on.
    fn shutdown(&self) -> BoxFuture<'_, Result<(), ClientError>>;
}

impl Session {
    /// Starts without waiting for anybody.
    pub(crate) fn start(config: ClientConfig, discovery: Discovery) -> Arc<Self> {
        let events = Events::new();
        let connections = Arc::new(Connections::new(config.connection(), config.backoff(), events.clone()));
        let brokers_changed = Arc::new(Notify::new());
        let (brokers, upkeep) = match discovery {
            Discovery::Server(url) => (Brokers::One(url.authority()), None),
            Discovery::Coordinator(coordinator) => {
                let cluster = Cluster::new(Arc::clone(&coordinator), config.root().clone());
                let mapping = Mapping(config.mapping().cloned());
                let directory = Arc::new(Directory::new(cluster, mapping, coordinator.session()));
                let upkeep = Upkeep {
                    sessions: coordinator.session(),
                    directory: Arc::clone(&directory),
                    connections: Arc::clone(&connections),
                    events: events.clone(),
                    brokers_changed: Arc::clone(&brokers_changed),
                };
                let upkeep = AbortOnDropHandle::new(tokio::spawn(keep_up(upkeep)));
                (Brokers::Registered { coordinator, directory }, Some(upkeep))
            }
        };
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        Arc::new(Self {
            config,
            brokers,
            connections,
            events,
            children: Mutex::default(),
            closing: CancellationToken::new(),
            closed: OnceCell::new(),
            // A colon would end the field of the command line that it becomes part of (06 §2).
            id: format!("{}-{started}", default_host()).replace(':', "_"),
            numbers: AtomicU64::new(0),
            subscriptions: Subscriptions::default(),
            brokers_changed,
            published: PublishedTopics::default(),
            _upkeep: upkeep,
        })
    }

    /// ZooKeeper; `None` with one broker by its address.
    pub(crate) fn coordinator(&self) -> Option<&Arc<dyn Coordinator>> {
        match &self.brokers {
            Brokers::One(_) => None,
            Brokers::Registered { coordinator, .. } => Some(coordinator),
        }
    }

    /// Partitions and addresses in ZooKeeper; `None` with one broker by its address.
    pub(crate) fn cluster(&self) -> Option<Cluster> {
        Some(Cluster::new(Arc::clone(self.coordinator()?), self.root().clone()))
    }

    /// Directory of the cluster's nodes.
    pub(crate) fn root(&self) -> &Root {
        self.config.root()
    }

    /// What tells this cluster from others: where its ZooKeeper is, and where it is in there; or its one broker.
    pub(crate) fn cluster_name(&self) -> String {
        match self.config.target() {
            Target::ZooKeeper(servers) => format!("{servers}{}", self.root()),
            Target::Server(url) => url.to_string(),
        }
    }

    /// The settings.
    pub(crate) fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// What the factory's consumers read.
    pub(crate) fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    /// Tells everybody who listens.
    pub(crate) fn emit(&self, event: ClientEvent) {
        self.events.emit(event);
    }

    /// Events from now on.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<ClientEvent> {
        self.events.subscribe()
    }

    /// The hook for metrics.
    pub(crate) fn metrics(&self) -> &dyn ClientMetrics {
        &**self.config.metrics_hook()
    }

    /// The next session id: `<local ip>-<start in milliseconds>-<n>` (07 §3).
    pub(crate) fn next_id(&self) -> String {
        format!("{}-{}", self.id, self.numbers.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Refuses what comes after the shutdown has begun.
    ///
    /// # Errors
    /// [`ClientError::Shutdown`].
    pub(crate) fn check_open(&self) -> Result<(), ClientError> {
        if self.closing.is_cancelled() { Err(ClientError::Shutdown(FACTORY)) } else { Ok(()) }
    }

    /// Takes something that is to be shut down with the factory, after everything that was taken before.
    ///
    /// # Errors
    /// [`ClientError::Shutdown`].
    pub(crate) fn register_child(&self, child: Arc<dyn Child>) -> Result<(), ClientError> {
        let mut children = lock(&self.children);
        self.check_open()?;
        children.push(child);
        Ok(())
    }

    /// Forgets what has been shut down by itself.
    pub(crate) fn leave(&self, child: &dyn Child) {
        lock(&self.children).retain(|present| !std::ptr::addr_eq(Arc::as_ptr(present), child));
    }

    /// A connection to whoever takes messages for a broker: its master. Cancellation-safe.
    ///
    /// # Errors
    /// [`ClientError::Cluster`] if no master is registered; [`ClientError::Connect`], at once while a failed attempt is
    /// not long ago.
    pub(crate) async fn for_writing(&self, broker: BrokerId) -> Result<Arc<BrokerClient>, ClientError> {
        let directory = match &self.brokers {
            Brokers::One(address) => return self.connections.get(address).await,
            Brokers::Registered { directory, .. } => directory,
        };
        let address = directory.master(broker).await?;
        let error = match self.connections.get(&address).await {
            Ok(client) => return Ok(client),
            Err(error) => error,
        };
        directory.doubt(broker);
        match directory.master(broker).await? {
            same if same == address => Err(error),
            moved => self.connections.get(&moved).await,
        }
    }

    /// A connection to whoever serves a broker's messages: its master, or one of its slaves while the master cannot be
    /// reached. Cancellation-safe.
    ///
    /// # Errors
    /// As [`for_writing`](Self::for_writing).
    pub(crate) async fn for_reading(&self, broker: BrokerId) -> Result<Arc<BrokerClient>, ClientError> {
        let directory = match &self.brokers {
            Brokers::One(address) => return self.connections.get(address).await,
            Brokers::Registered { directory, .. } => directory,
        };
        let addresses = directory.addresses(broker).await?;
        if let Some(client) = addresses.master.as_ref().and_then(|master| self.connections.ready(master)) {
            return Ok(client);
        }
        // While the master is being connected, a slave at hand serves.
        if let Some(client) = addresses.slaves.iter().find_map(|slave| self.connections.present(slave)) {
            return Ok(client);
        }
        let mut slaves = addresses.slaves.clone();
        fastrand::shuffle(&mut slaves);
        let mut first_error = None;
        for address in addresses.master.iter().chain(&slaves) {
            match self.connections.get(address).await {
                Ok(client) => return Ok(client),
                Err(error) => _ = first_error.get_or_insert(error),
            }
        }
        directory.doubt(broker);
        let again = directory.addresses(broker).await?;
        let moved = again.master.iter().chain(&again.slaves);
        for address in moved.filter(|a| addresses.master.as_ref() != Some(a) && !addresses.slaves.contains(a)) {
            match self.connections.get(address).await {
                Ok(client) => return Ok(client),
                Err(error) => _ = first_error.get_or_insert(error),
            }
        }
        Err(first_error.unwrap_or_else(|| directory.no_master(broker)))
    }

    /// Gives a connection up after a request whose outcome is unknown: the next use makes a new one, where the broker is
    /// then. Requests under way on it go on for those who hold it.
    pub(crate) fn failed(&self, broker: BrokerId, client: &Arc<BrokerClient>) {
        self.connections.give_up(client);
        if let Brokers::Registered { directory, .. } = &self.brokers {
            directory.doubt(broker);
        }
    }

    /// The same for the one broker of the direct mode.
    pub(super) fn only_broker_failed(&self, client: &Arc<BrokerClient>) {
        self.connections.give_up(client);
    }

    /// Brokers have come, gone or moved, as their topics tell: addresses are read again, connections that lead to none
    /// of them are closed.
    pub(crate) fn brokers_changed(&self) {
        if let Brokers::Registered { directory, .. } = &self.brokers {
            directory.changed();
            self.brokers_changed.notify_one();
        }
    }

    /// The topics that producers publish.
    pub(super) fn published(&self) -> &PublishedTopics {
        &self.published
    }

    /// Connections that are there now.
    pub(super) fn connected(&self) -> Vec<Arc<BrokerClient>> {
        self.connections.all_present()
    }

    /// The one broker of the direct mode. Cancellation-safe.
    pub(crate) async fn only_broker(&self) -> Option<Result<Arc<BrokerClient>, ClientError>> {
        match &self.brokers {
            Brokers::One(address) => Some(self.connections.get(address).await),
            Brokers::Registered { .. } => None,
        }
    }

    /// Shuts everything down: consumers, then producers, each in the order of their creation, connections, the session with
    /// ZooKeeper. Another call waits for the same end. Once polled, it is done all the same: in a task of its own, so that
    /// a listener that waits for it does not stop it when it is cancelled.
    ///
    /// # Errors
    /// The first error of a child; the others have been shut down all the same.
    pub(super) async fn shutdown(self: &Arc<Self>) -> Result<(), ClientError> {
        let session = Arc::clone(self);
        let end = tokio::spawn(async move { session.closed.get_or_init(|| session.close()).await.clone() });
        // It fails only while the runtime goes down.
        end.await.unwrap_or(Err(ClientError::Shutdown(FACTORY)))
    }

    async fn close(&self) -> Result<(), ClientError> {
        self.closing.cancel();
        let mut result = Ok(());
        loop {
            let Some(child) = self.first_child() else { break };
            if let Err(error) = child.shutdown().await {
                if result.is_ok() {
                    result = Err(error);
                } else {
                    warn!(%error, "shutdown of a producer or consumer failed, going on");
                }
            }
            self.leave(&*child);
        }
        self.published.clear();
        self.connections.close();
        if let Some(coordinator) = self.coordinator() {
            coordinator.close().await;
        }
        result
    }

    /// The one to be shut down next.
    fn first_child(&self) -> Option<Arc<dyn Child>> {
        let children = lock(&self.children);
        children.iter().find(|child| child.reads()).or_else(|| children.first()).cloned()
    }

    /// Lets everything go without waiting, when nobody is left who could ask for a shutdown.
    fn abandon(&self) {
        self.closing.cancel();
        // Children and the default topic hold the session; this ends the circle.
        let children = std::mem::take(&mut *lock(&self.children));
        drop(children);
        self.published.clear();
        self.connections.close();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.id).field("config", &self.config).finish_non_exhaustive()
    }
}

/// A share of the session in the hands of the application, through the factory or anything that it made. With the last
/// one everything of the factory ends.
#[derive(Debug)]
pub(crate) struct SessionHandle(Arc<Session>);

impl SessionHandle {
    pub(super) fn new(session: Arc<Session>) -> Arc<Self> {
        Arc::new(Self(session))
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.0
    }
}

impl Drop for SessionHandle {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

#[cfg(test)]
#[cfg(feature = "broker")]
mod tests;
