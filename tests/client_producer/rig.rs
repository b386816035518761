//! What the tests of producers share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use metaq::client::{ClientConfig, ClientEvent, Message, MessageSessionFactory, Producer, ProducerConfig};
use metaq::id::TopicName;
use metaq::store::OsFileSystem;
use metaq::zk::local::{LocalAddresses, LocalServer, MAX_CONNECTIONS};
use metaq::zk::{Coordinator, NodeKind, SessionState, ZooKeeper, ZooKeeperOptions, connected};
use tempfile::TempDir;
use tokio::sync::broadcast;

use crate::common::DEADLINE;
use crate::common::zookeeper::free_port;

/// Of the clients' sessions: short, so that one without a server ends soon.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

pub(crate) fn topic(name: &str) -> TopicName {
    TopicName::new(name.to_owned()).unwrap()
}

/// A message to topic `test`.
pub(crate) fn message(payload: &str) -> Message {
    Message::new(topic("test"), payload.to_owned())
}

/// A factory for one broker, which is tried again at once when it could not be reached.
pub(crate) async fn direct(address: SocketAddr) -> MessageSessionFactory {
    let config = ClientConfig::server(&address.to_string()).unwrap().reconnect_backoff(Duration::ZERO);
    MessageSessionFactory::connect(config).await.unwrap()
}

pub(crate) async fn direct_producer(address: SocketAddr, config: ProducerConfig) -> Producer {
    direct(address).await.create_producer_with(config).unwrap()
}

/// Takes something that must come soon.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(DEADLINE, future).await.unwrap_or_else(|_| panic!("not within {DEADLINE:?}: {what}"))
}

/// Waits for an event that fits.
pub(crate) async fn event(
    events: &mut broadcast::Receiver<ClientEvent>,
    fits: impl Fn(&ClientEvent) -> bool,
) -> ClientEvent {
    soon("an event", async {
        loop {
            let event = events.recv().await.unwrap();
            if fits(&event) {
                return event;
            }
        }
    })
    .await
}

/// A ZooKeeper whose tree the test writes as brokers would.
pub(crate) struct Tree {
    server: Option<LocalServer>,
    observer: Option<Arc<dyn Coordinator>>,
    dir: TempDir,
    port: u16,
}

impl Tree {
    pub(crate) async fn start() -> Self {
        let mut tree = Self { server: None, observer: None, dir: tempfile::tempdir().unwrap(), port: free_port() };
        tree.open().await;
        tree
    }

    /// Starts the server, on the same port and files as before.
    pub(crate) async fn open(&mut self) {
        let addresses = LocalAddresses::of(&self.connect_string().parse().unwrap()).unwrap();
        let path = self.dir.path().join("zookeeper");
        let server = LocalServer::start(&addresses, &path, Arc::new(OsFileSystem), MAX_CONNECTIONS).await.unwrap();
        self.server = Some(server);
        let options =
            ZooKeeperOptions { connect: self.connect_string().parse().unwrap(), session_timeout: SESSION_TIMEOUT };
        let observer: Arc<dyn Coordinator> = Arc::new(ZooKeeper::start(options));
        connected(&*observer, DEADLINE).await.unwrap();
        self.observer = Some(observer);
    }

    /// Stops the server.
    pub(crate) async fn close(&mut self) {
        self.observer = None;
        self.server.take().unwrap().stop().await;
    }

    pub(crate) fn connect_string(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn observer(&self) -> &dyn Coordinator {
        &**self.observer.as_ref().unwrap()
    }

    /// Writes a node, which outlives every session.
    pub(crate) async fn set(&self, path: &str, data: &str) {
        let path = format!("/meta/brokers/{path}");
        self.observer().create(&path, data.as_bytes(), NodeKind::Persistent).await.unwrap();
    }

    pub(crate) async fn remove(&self, path: &str) {
        self.observer().delete(&format!("/meta/brokers/{path}"), None).await.unwrap();
    }

    /// Registers a master with partitions of topic `test`.
    pub(crate) async fn register(&self, broker: u16, address: SocketAddr, partitions: u32) {
        self.set(&format!("ids/{broker}/master"), &format!("meta://{address}")).await;
        self.offer(broker, partitions).await;
    }

    pub(crate) async fn offer(&self, broker: u16, partitions: u32) {
        let data = format!(r#"{{"numParts":{partitions},"broker":"{broker}-m"}}"#);
        self.set(&format!("topics-pub/test/{broker}-m"), &data).await;
    }

    /// Removes it, in the order in which brokers do.
    pub(crate) async fn unregister(&self, broker: u16) {
        self.remove(&format!("ids/{broker}/master")).await;
        self.remove(&format!("topics-pub/test/{broker}-m")).await;
    }

    pub(crate) fn config(&self) -> ClientConfig {
        let config = ClientConfig::zookeeper(&self.connect_string()).unwrap();
        config.zk_session_timeout(SESSION_TIMEOUT).zk_connection_timeout(DEADLINE).reconnect_backoff(Duration::ZERO)
    }

    pub(crate) async fn factory(&self) -> MessageSessionFactory {
        MessageSessionFactory::connect(self.config()).await.unwrap()
    }

    /// Whether the observer is connected.
    pub(crate) fn is_open(&self) -> bool {
        matches!(*self.observer().session().borrow(), SessionState::Connected(_))
    }
}
