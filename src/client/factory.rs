//! The entrance to the library.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::broadcast;

use super::config::{ClientConfig, Target};
use super::events::ClientEvent;
use super::producer::{Producer, ProducerConfig};
use super::session::{Discovery, Session, SessionHandle};
use super::stats::{BrokerStats, STATS_TIMEOUT, ask};
use super::{BrokerClient, ClientError};
use crate::id::{BrokerUrl, Partition, TopicName};
use crate::zk::{Cluster, ClusterError, Coordinator, ZooKeeper, ZooKeeperOptions, connected};

/// Makes producers and consumers that share one connection for each broker and one session with ZooKeeper (07 §3).
///
/// Clones are the same factory. End it with [`shutdown`](Self::shutdown). If it is dropped instead, together with all
/// that it made, connections are closed in the background and nobody waits for what is under way.
#[derive(Debug, Clone)]
pub struct MessageSessionFactory {
    handle: Arc<SessionHandle>,
}

impl MessageSessionFactory {
    /// Connects to ZooKeeper, or to the one broker that the configuration names.
    ///
    /// # Errors
    /// [`ClientError::NotConnected`] if ZooKeeper did not answer within its connection time-out;
    /// [`ClientError::Connect`] if the one broker did not.
    ///
    /// # Cancellation
    /// Cancellation-safe: a dropped future leaves nothing.
    pub async fn connect(config: ClientConfig) -> Result<Self, ClientError> {
        let discovery = match config.target() {
            Target::Server(url) => Discovery::Server(url.clone()),
            Target::ZooKeeper(servers) => {
                let session_timeout = config.session_timeout();
                let options = ZooKeeperOptions { connect: servers.clone(), session_timeout };
                let zookeeper: Arc<dyn Coordinator> = Arc::new(ZooKeeper::start(options));
                connected(&*zookeeper, config.connection_timeout()).await?;
                Discovery::Coordinator(zookeeper)
            }
        };
        let factory = Self { handle: SessionHandle::new(Session::start(config, discovery)) };
        if let Some(broker) = factory.session().only_broker().await {
            broker?;
        }
        Ok(factory)
    }

    /// A producer whose messages take turns over the partitions.
    ///
    /// # Errors
    /// [`ClientError::Shutdown`].
    pub fn create_producer(&self) -> Result<Producer, ClientError> {
        self.create_producer_with(ProducerConfig::default())
    }

    /// A producer with settings of its own.
    ///
    /// # Errors
    /// [`ClientError::Shutdown`]; [`ClientError::Config`] for a setting out of its range.
    pub fn create_producer_with(&self, config: ProducerConfig) -> Result<Producer, ClientError> {
        Producer::create(&self.handle, config)
    }

    /// What happens from now on. A receiver that is more than [`EVENT_CAPACITY`](super::EVENT_CAPACITY) events behind
    /// loses the oldest.
    pub fn events(&self) -> broadcast::Receiver<ClientEvent> {
        self.session().subscribe()
    }

    /// The partitions that a topic can be sent to, by broker and number; none if no broker offers it.
    ///
    /// # Errors
    /// [`ClientError::NeedsZooKeeper`]; [`ClientError::Cluster`] when ZooKeeper does not answer.
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn partitions_for_topic(&self, topic: &TopicName) -> Result<Vec<Partition>, ClientError> {
        match self.cluster()?.partitions_for_publish(topic).await {
            Err(ClusterError::NoPartitions { .. }) => Ok(Vec::new()),
            other => Ok(other?),
        }
    }

    /// Statistics of every broker that is connected now; a broker that refuses is left out. `item` is one of `topics`,
    /// `offsets`, `realtime`, `help`, `config`, or a topic's name; the broker's own statistics if it is empty (07 §13).
    ///
    /// # Errors
    /// The error of the first broker that did not answer.
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn stats(&self, item: &str) -> Result<BTreeMap<String, BrokerStats>, ClientError> {
        self.session().check_open()?;
        let mut all = BTreeMap::new();
        for client in self.session().connected() {
            if let Some(stats) = ask(&client, item, STATS_TIMEOUT).await? {
                all.insert(client.address().to_owned(), stats);
            }
        }
        Ok(all)
    }

    /// Statistics of one broker by its address; `None` if it is not connected now, or refuses.
    ///
    /// # Errors
    /// The broker did not answer.
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn stats_of(&self, broker: &BrokerUrl, item: &str) -> Result<Option<BrokerStats>, ClientError> {
        self.session().check_open()?;
        let is_meant = |client: &Arc<BrokerClient>| client.address() == broker.authority();
        match self.session().connected().into_iter().find(is_meant) {
            Some(client) => ask(&client, item, STATS_TIMEOUT).await,
            None => Ok(None),
        }
    }

    /// Shuts down the consumers, then the producers, which their listeners may send with, each in the order in which they
    /// were made, then the connections and the session with ZooKeeper. Another call waits for the same end and has the same
    /// result.
    ///
    /// # Errors
    /// The first error; everything has been shut down all the same.
    ///
    /// # Cancellation
    /// Once polled, it is done all the same; another call waits for it.
    pub async fn shutdown(&self) -> Result<(), ClientError> {
        self.session().shutdown().await
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        self.handle.session()
    }

    /// What the handles of producers and consumers hold, so that the factory lives as long as any of them.
    pub(super) fn handle(&self) -> &Arc<SessionHandle> {
        &self.handle
    }

    fn cluster(&self) -> Result<Cluster, ClientError> {
        self.session().check_open()?;
        let needs = ClientError::NeedsZooKeeper("Could not talk with zookeeper to get partitions list");
        self.session().cluster().ok_or(needs)
    }
}
