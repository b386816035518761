//! A broker inside the test's own process, on a free port of the loopback address and without ZooKeeper.

use std::net::SocketAddr;
use std::path::PathBuf;

use metaq::broker::{Broker, BrokerOptions, RetentionTotals, StartError};
use metaq::config::{Environment, ServerConfig};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::raw::Raw;

/// What a test wants of its broker; text in the form of `server.ini`.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Lines of `[system]` that replace or join the usual ones.
    pub system: &'static str,
    /// Lines of `[metaq]`.
    pub metaq: &'static str,
    /// Topic sections; topic `test` with two partitions if empty.
    pub topics: &'static str,
}

/// A running broker and its directory, which is removed with it.
pub struct TestBroker {
    broker: Broker,
    dir: TempDir,
    setup: Setup,
}

impl TestBroker {
    /// Starts a broker with topic `test` of two partitions and group commit.
    pub async fn start() -> Self {
        Self::with(Setup::default()).await
    }

    /// Starts a broker.
    pub async fn with(setup: Setup) -> Self {
        Self::in_dir(tempfile::tempdir().unwrap(), setup).await.unwrap()
    }

    /// Starts a broker on a directory.
    pub async fn in_dir(dir: TempDir, setup: Setup) -> Result<Self, StartError> {
        let broker = Broker::start(config(&dir, &setup), BrokerOptions::default()).await?;
        Ok(Self { broker, dir, setup })
    }

    /// What its retention has done.
    pub fn retention(&self) -> RetentionTotals {
        self.broker.control().retention()
    }

    pub fn address(&self) -> SocketAddr {
        self.broker.address()
    }

    /// The directory that holds the partitions.
    pub fn data_path(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub async fn connect(&self) -> Raw {
        Raw::connect(self.address()).await
    }

    /// Stops the broker and leaves its directory.
    pub async fn stop(self) -> TempDir {
        self.broker.stop(CancellationToken::new()).await.unwrap();
        self.dir
    }

    /// Stops the broker and starts it again on the same directory, with another port.
    pub async fn restart(self) -> Self {
        let setup = self.setup.clone();
        Self::in_dir(self.stop().await, setup).await.unwrap()
    }
}

/// The configuration of a broker whose files lie in a directory.
pub fn config(dir: &TempDir, setup: &Setup) -> ServerConfig {
    let topics = if setup.topics.is_empty() { "[topic=test]\nnumPartitions=2\n" } else { setup.topics };
    let data_path = dir.path().join("data");
    let text = format!(
        "[system]\nbrokerId=0\nhostName=127.0.0.1\nserverPort=0\nnumPartitions=1\nunflushThreshold=0\n\
         unflushInterval=10000\nmaxSegmentSize=1048576\nmaxTransferSize=1048576\ndataPath={}\n{}\n\
         [zookeeper]\nzk.zkEnable=false\n[metaq]\nbindAddress=127.0.0.1\n{}\n{topics}",
        data_path.display(),
        setup.system,
        setup.metaq,
    );
    ServerConfig::parse(text.as_bytes(), None, &Environment::detect()).unwrap_or_else(|errors| panic!("{errors}"))
}
