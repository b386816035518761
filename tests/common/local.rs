//! A broker in local mode inside the test's own process: one port for messages, one for its ZooKeeper, both free ones of
//! the loopback address. What the README offers to a service's own tests.

use std::sync::Arc;

use metaq::broker::{Broker, BrokerOptions};
use metaq::client::{ClientConfig, MessageSessionFactory};
use metaq::config::{Environment, ServerConfig};
use metaq::zk::{ZooKeeper, ZooKeeperOptions, connected};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::DEADLINE;
use super::zookeeper::free_port;

/// Session time-out of clients: the shortest that the ZooKeeper of local mode grants.
const SESSION_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

/// A running broker and its directory, which is removed with it.
pub struct LocalBroker {
    broker: Broker,
    home: LocalHome,
}

/// What stays of a broker that is stopped: its ports, its configuration and its files.
pub struct LocalHome {
    ini: String,
    port: u16,
    zookeeper_port: u16,
    dir: TempDir,
}

impl LocalHome {
    /// Topics are names with their partitions; `system` are further lines of `[system]`.
    fn new(topics: &[(&str, u32)], system: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (port, zookeeper_port) = (free_port(), free_port());
        let topics: String =
            topics.iter().map(|(name, partitions)| format!("[topic={name}]\nnumPartitions={partitions}\n")).collect();
        let ini = format!(
            "[system]\nbrokerId=0\nserverPort={port}\ndashboardHttpPort=0\nnumPartitions=1\nunflushThreshold=0\nunflushInterval=10000\n\
             maxSegmentSize=1048576\nmaxTransferSize=1048576\ndataPath={}\n{system}\n\
             [zookeeper]\nzk.zkConnect=127.0.0.1:{zookeeper_port}\nzk.zkSessionTimeoutMs=4000\nzk.zkSyncTimeMs=10\n{topics}",
            dir.path().join("data").display()
        );
        Self { ini, port, zookeeper_port, dir }
    }

    /// Starts the broker and waits until it is registered.
    pub async fn start(self) -> LocalBroker {
        let config = ServerConfig::parse(self.ini.as_bytes(), None, &Environment::detect())
            .unwrap_or_else(|errors| panic!("{errors}"));
        let broker = Broker::start(config, BrokerOptions { local: true }).await.unwrap();
        tokio::time::timeout(DEADLINE, broker.registered()).await.expect("no registration").unwrap();
        LocalBroker { broker, home: self }
    }
}

impl LocalBroker {
    /// A broker with these topics, each with its number of partitions.
    pub async fn start(topics: &[(&str, u32)]) -> Self {
        Self::with(topics, "").await
    }

    /// The same with further lines of `[system]`.
    pub async fn with(topics: &[(&str, u32)], system: &str) -> Self {
        LocalHome::new(topics, system).start().await
    }

    /// Where it serves messages, `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.home.port)
    }

    /// Where its ZooKeeper is.
    pub fn zookeeper_address(&self) -> String {
        format!("127.0.0.1:{}", self.home.zookeeper_port)
    }

    /// Its `dataPath`.
    pub fn data_path(&self) -> std::path::PathBuf {
        self.home.dir.path().join("data")
    }

    /// How clients reach it.
    pub fn client_config(&self) -> ClientConfig {
        ClientConfig::zookeeper(&self.zookeeper_address())
            .unwrap()
            .zk_session_timeout(SESSION_TIMEOUT)
            .zk_connection_timeout(DEADLINE)
    }

    /// A client of it.
    pub async fn factory(&self) -> MessageSessionFactory {
        MessageSessionFactory::connect(self.client_config()).await.unwrap()
    }

    /// A look at its tree that is independent of any client.
    pub async fn zookeeper(&self) -> Arc<ZooKeeper> {
        let options = ZooKeeperOptions {
            connect: self.zookeeper_address().parse().unwrap(),
            session_timeout: std::time::Duration::from_secs(20),
        };
        let zookeeper = ZooKeeper::start(options);
        connected(&zookeeper, DEADLINE).await.unwrap();
        Arc::new(zookeeper)
    }

    /// Stops the broker and with it its ZooKeeper.
    pub async fn stop(self) -> LocalHome {
        let hurry = CancellationToken::new();
        hurry.cancel();
        self.broker.stop(hurry).await.unwrap();
        self.home
    }
}
