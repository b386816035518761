//! Which brokers a command talks to: one given by its address, or those that ZooKeeper knows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use clap::ArgGroup;
use tokio::sync::OnceCell;

use crate::client::{BrokerClient, ClientConfig, ClientError, ConnectionOptions, MessageSessionFactory};
use crate::common::guard::lock;
use crate::id::{BrokerId, BrokerUrl, Partition, PartitionIndex, TopicName};
use crate::zk::{Cluster, Coordinator, ZooKeeper, ZooKeeperOptions, connected};

/// How to reach the brokers.
#[derive(Debug, Clone, clap::Args)]
#[command(group(ArgGroup::new("brokers").args(["zk", "server"]).required(true)))]
pub(super) struct TargetArguments {
    /// ZooKeeper that knows the brokers, HOST:PORT or several joined by commas, with a directory at the end if need be
    #[arg(long, value_name = "HOST:PORT")]
    zk: Option<String>,
    /// Directory of the cluster's nodes in ZooKeeper
    #[arg(long, value_name = "PATH", default_value = "/meta")]
    zk_root: String,
    /// Session time-out to ask ZooKeeper for, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 6000)]
    zk_session_ms: u32,
    /// One broker by its address, without ZooKeeper
    #[arg(long, value_name = "HOST:PORT")]
    server: Option<String>,
}

impl TargetArguments {
    /// The settings of a session factory for these brokers.
    pub(super) fn client_config(&self) -> anyhow::Result<ClientConfig> {
        match (&self.server, &self.zk) {
            (Some(server), _) => Ok(ClientConfig::server(&server_address(server)?)?),
            (None, Some(zk)) => {
                let session_timeout = Duration::from_millis(self.zk_session_ms.into());
                Ok(ClientConfig::zookeeper(zk)?
                    .zk_root(&self.zk_root)?
                    .zk_session_timeout(session_timeout)
                    .zk_connection_timeout(session_timeout))
            }
            (None, None) => bail!("name a ZooKeeper (--zk) or a broker (--server)"),
        }
    }

    /// Whether ZooKeeper knows the brokers.
    pub(super) fn is_cluster(&self) -> bool {
        self.server.is_none()
    }

    /// Connects.
    pub(super) async fn connect(&self, config: ClientConfig) -> anyhow::Result<MessageSessionFactory> {
        let connecting = MessageSessionFactory::connect(config).await;
        match (connecting, &self.zk) {
            (Err(error @ ClientError::NotConnected(_)), Some(zk)) => {
                Err(error).with_context(|| format!("no connection to ZooKeeper at {zk}"))
            }
            (connected, _) => Ok(connected?),
        }
    }

    /// One partition, given as `BROKER-NUMBER` or, with a broker's address, as its number alone.
    pub(super) fn partition(&self, text: &str) -> anyhow::Result<(Option<Partition>, PartitionIndex)> {
        match (parse_partition(text)?, &self.server) {
            ((_, index), Some(_)) => Ok((None, index)),
            ((Some(broker), index), None) => Ok((Some(Partition { broker, index }), index)),
            ((None, _), None) => Err(without_broker(text)),
        }
    }
}

/// A partition and where it is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// `None` for a broker that was given by its address.
    pub(super) broker: Option<BrokerId>,
    pub(super) index: PartitionIndex,
    pub(super) address: String,
}

impl Place {
    /// The number of the broker as the reference's client shows it: -1 for one that is known by its address only.
    pub(super) fn broker_number(&self) -> i32 {
        self.broker.map_or(-1, |broker| broker.get().into())
    }
}

/// The brokers, with a connection to each that was asked for.
#[derive(Debug)]
pub(super) struct Target {
    directory: Directory,
    options: ConnectionOptions,
    connections: Mutex<HashMap<String, Slot>>,
}

/// The connection to one broker, made by whoever needs it first while others wait for that broker only.
type Slot = Arc<OnceCell<Arc<BrokerClient>>>;

#[derive(Debug)]
enum Directory {
    Server(String),
    ZooKeeper { cluster: Cluster, coordinator: Arc<dyn Coordinator> },
}

impl Target {
    /// Finds the brokers.
    pub(super) async fn open(arguments: &TargetArguments, request_timeout: Duration) -> anyhow::Result<Self> {
        let options = ConnectionOptions { request_timeout, ..ConnectionOptions::default() };
        let directory = match (&arguments.server, &arguments.zk) {
            (Some(server), _) => Directory::Server(server_address(server)?),
            (None, Some(zk)) => zookeeper(zk, arguments).await?,
            (None, None) => bail!("name a ZooKeeper (--zk) or a broker (--server)"),
        };
        Ok(Self { directory, options, connections: Mutex::default() })
    }

    /// The partitions to read. A broker that was given by its address tells of those that hold messages.
    pub(super) async fn places_to_read(&self, topic: &TopicName) -> anyhow::Result<Vec<Place>> {
        match &self.directory {
            Directory::Server(address) => {
                let offsets = self.client(address).await?.topic_offsets(topic.as_str()).await?;
                let place = |(index, _)| Place { broker: None, index, address: address.clone() };
                Ok(offsets.into_iter().map(place).collect())
            }
            Directory::ZooKeeper { cluster, .. } => {
                let partitions = cluster.partitions_for_subscribe(topic).await?;
                self.places(cluster, partitions).await
            }
        }
    }

    /// One partition, given as `BROKER-NUMBER` or, with a broker's address, as its number alone.
    pub(super) async fn place(&self, text: &str) -> anyhow::Result<Place> {
        let (broker, index) = parse_partition(text)?;
        match (&self.directory, broker) {
            (Directory::Server(address), _) => Ok(Place { broker: None, index, address: address.clone() }),
            (Directory::ZooKeeper { cluster, .. }, Some(broker)) => {
                let address = cluster.master_url(broker).await?.authority();
                Ok(Place { broker: Some(broker), index, address })
            }
            (Directory::ZooKeeper { .. }, None) => Err(without_broker(text)),
        }
    }

    /// A connection to a broker, made anew if the last one has ended or was given up.
    pub(super) async fn client(&self, address: &str) -> Result<Arc<BrokerClient>, ClientError> {
        let slot = {
            let mut connections = self.lock();
            let slot = connections.entry(address.to_owned()).or_default();
            if slot.get().is_some_and(|client| client.is_lost()) {
                *slot = Slot::default();
            }
            Arc::clone(slot)
        };
        let connect = || async { BrokerClient::connect(address, self.options).await.map(Arc::new) };
        slot.get_or_try_init(connect).await.cloned()
    }

    /// Gives a connection up after an error; the next [`client`](Self::client) connects anew.
    pub(super) fn give_up(&self, client: &Arc<BrokerClient>) {
        let mut connections = self.lock();
        let present = connections.get(client.address()).and_then(|slot| slot.get());
        if present.is_some_and(|present| Arc::ptr_eq(present, client)) {
            connections.remove(client.address());
        }
    }

    /// Where the partition is served now; its broker may have come back under another address.
    pub(super) async fn address_of(&self, place: &Place) -> anyhow::Result<String> {
        match (&self.directory, place.broker) {
            (Directory::ZooKeeper { cluster, .. }, Some(broker)) => Ok(cluster.master_url(broker).await?.authority()),
            _ => Ok(place.address.clone()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Slot>> {
        lock(&self.connections)
    }

    /// Ends the ZooKeeper session, if there is one.
    pub(super) async fn close(&self) {
        if let Directory::ZooKeeper { coordinator, .. } = &self.directory {
            coordinator.close().await;
        }
    }

    async fn places(&self, cluster: &Cluster, partitions: Vec<Partition>) -> anyhow::Result<Vec<Place>> {
        let mut addresses: HashMap<BrokerId, String> = HashMap::new();
        let mut places = Vec::with_capacity(partitions.len());
        for Partition { broker, index } in partitions {
            let address = match addresses.get(&broker) {
                Some(address) => address.clone(),
                None => cluster.master_url(broker).await?.authority(),
            };
            addresses.entry(broker).or_insert_with(|| address.clone());
            places.push(Place { broker: Some(broker), index, address });
        }
        Ok(places)
    }
}

async fn zookeeper(connect: &str, arguments: &TargetArguments) -> anyhow::Result<Directory> {
    let session_timeout = Duration::from_millis(arguments.zk_session_ms.into());
    let options = ZooKeeperOptions { connect: connect.parse()?, session_timeout };
    let root = arguments.zk_root.parse()?;
    let coordinator: Arc<dyn Coordinator> = Arc::new(ZooKeeper::start(options));
    connected(&*coordinator, session_timeout)
        .await
        .with_context(|| format!("no connection to ZooKeeper at {connect}"))?;
    Ok(Directory::ZooKeeper { cluster: Cluster::new(Arc::clone(&coordinator), root), coordinator })
}

/// `BROKER-NUMBER`, or the number alone.
fn parse_partition(text: &str) -> anyhow::Result<(Option<BrokerId>, PartitionIndex)> {
    let number = |text: &str| text.parse().with_context(|| format!("'{text}' is not a partition number"));
    let text = text.trim();
    // A leading dash is a sign, not the end of a broker's number.
    let split = text.get(1..).and_then(|rest| rest.find('-')).and_then(|dash| text.split_at_checked(dash + 1));
    let Some((broker, index)) = split else { return Ok((None, number(text)?)) };
    let id = broker.parse().ok().and_then(BrokerId::new);
    Ok((
        Some(id.with_context(|| format!("'{broker}' is not a broker number"))?),
        number(index.trim_start_matches('-'))?,
    ))
}

fn without_broker(text: &str) -> anyhow::Error {
    anyhow!("name the partition as BROKER-NUMBER, for example 0-{}", text.trim())
}

/// `HOST:PORT`, also out of a `meta://` address.
pub(super) fn server_address(text: &str) -> anyhow::Result<String> {
    let url = if text.starts_with("meta://") { text.to_owned() } else { format!("meta://{text}") };
    let url: BrokerUrl = url.parse().with_context(|| format!("--server {text}: give HOST:PORT"))?;
    Ok(url.authority())
}
