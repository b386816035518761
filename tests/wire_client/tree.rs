//! The tree that leads to a scripted broker: our ZooKeeper, in the test's own process.

use std::net::SocketAddr;
use std::sync::Arc;

use metaq::id::{BrokerId, TopicName};
use metaq::store::OsFileSystem;
use metaq::zk::format::TopicBroker;
use metaq::zk::local::{LocalAddresses, LocalServer, MAX_CONNECTIONS};
use metaq::zk::{Coordinator as _, NodeKind, Root, TopicTree, ZooKeeper, ZooKeeperOptions, connected, master_child};
use tokio::runtime::Runtime;

use crate::common::DEADLINE;
use crate::common::zookeeper::free_port;

/// Serves while it is held.
pub(crate) struct Tree {
    connect: String,
    /// The session that the broker's nodes belong to.
    _zookeeper: ZooKeeper,
    _server: LocalServer,
    _runtime: Runtime,
    _directory: tempfile::TempDir,
}

impl Tree {
    /// Broker 0 at the address, with a topic of so many partitions.
    pub(crate) fn with(broker: SocketAddr, topic: &str, partitions: u32) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let connect = format!("127.0.0.1:{}", free_port());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (server, zookeeper) = runtime.block_on(async {
            let addresses = LocalAddresses::of(&connect.parse().unwrap()).unwrap();
            let files = directory.path().join("zookeeper");
            let server = LocalServer::start(&addresses, &files, Arc::new(OsFileSystem), MAX_CONNECTIONS).await.unwrap();
            let options = ZooKeeperOptions { connect: connect.parse().unwrap(), session_timeout: DEADLINE };
            let zookeeper = ZooKeeper::start(options);
            connected(&zookeeper, DEADLINE).await.unwrap();
            register(&zookeeper, broker, topic, partitions).await;
            (server, zookeeper)
        });
        Self { connect, _zookeeper: zookeeper, _server: server, _runtime: runtime, _directory: directory }
    }

    pub(crate) fn connect_string(&self) -> String {
        self.connect.clone()
    }
}

async fn register(zookeeper: &ZooKeeper, address: SocketAddr, topic: &str, partitions: u32) {
    let (root, broker) = (Root::default(), BrokerId::new(0).unwrap());
    let url = format!("meta://{address}");
    zookeeper.create(&root.master(broker), url.as_bytes(), NodeKind::Ephemeral).await.unwrap();
    let topic = TopicName::new(topic.to_owned()).unwrap();
    let path = root.master_topic(TopicTree::Subscribe, &topic, broker);
    let data = TopicBroker::to_json(partitions, &master_child(broker));
    zookeeper.create(&path, data.as_bytes(), NodeKind::Ephemeral).await.unwrap();
}
