use std::time::Duration;

use tokio::net::TcpListener;

use super::*;
use crate::store::OsFileSystem;
use crate::zk::local::{LocalAddresses, LocalServer, MAX_CONNECTIONS};
use crate::zk::{NodeKind, ZooKeeper, ZooKeeperOptions, connected};

/// A session over a tree that the test writes.
struct Site {
    session: Arc<Session>,
    coordinator: Arc<dyn Coordinator>,
    _server: LocalServer,
    _dir: tempfile::TempDir,
}

impl Site {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let connect = format!("127.0.0.1:{port}");
        let addresses = LocalAddresses::of(&connect.parse().unwrap()).unwrap();
        let server = LocalServer::start(&addresses, dir.path(), Arc::new(OsFileSystem), MAX_CONNECTIONS).await;
        let session_timeout = Duration::from_secs(10);
        let options = ZooKeeperOptions { connect: connect.parse().unwrap(), session_timeout };
        let coordinator: Arc<dyn Coordinator> = Arc::new(ZooKeeper::start(options));
        connected(&*coordinator, Duration::from_secs(30)).await.unwrap();
        let config = ClientConfig::zookeeper(&connect).unwrap().reconnect_backoff(Duration::ZERO);
        let session = Session::start(config, Discovery::Coordinator(Arc::clone(&coordinator)));
        Self { session, coordinator, _server: server.unwrap(), _dir: dir }
    }

    async fn set(&self, child: &str, address: &str) {
        let path = format!("/meta/brokers/ids/0/{child}");
        let _ = self.coordinator.delete(&path, None).await;
        let data = format!("meta://{address}");
        self.coordinator.create(&path, data.as_bytes(), NodeKind::Persistent).await.unwrap();
    }
}

async fn broker() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

fn zero() -> BrokerId {
    BrokerId::new(0).unwrap()
}

#[tokio::test]
async fn a_slave_serves_readers_while_the_master_cannot_be_reached_and_never_writers() {
    let site = Site::start().await;
    let session = &site.session;
    assert!(matches!(session.for_reading(zero()).await, Err(ClientError::Cluster(_))), "nobody is registered");
    let (_master, master) = broker().await;
    let (_slave, slave) = broker().await;
    let (gone, nobody) = broker().await;
    drop(gone);
    site.set("slave1", &slave).await;
    site.set("master", &nobody).await;
    session.brokers_changed();
    assert_eq!(session.for_reading(zero()).await.unwrap().address(), slave);
    assert!(matches!(session.for_writing(zero()).await, Err(ClientError::Connect { .. })));
    site.set("master", &master).await;
    session.brokers_changed();
    let reader = session.for_reading(zero()).await.unwrap();
    // With the slave at hand nobody waits for the master to be connected; afterwards it is preferred.
    let writer = session.for_writing(zero()).await.unwrap();
    assert_eq!((reader.address(), writer.address()), (&*slave, &*master));
    let reader = session.for_reading(zero()).await.unwrap();
    assert!(Arc::ptr_eq(&reader, &writer), "one connection for each broker");
    session.shutdown().await.unwrap();
    assert!(matches!(session.for_reading(zero()).await, Err(ClientError::Shutdown(_))));
}

#[tokio::test]
async fn addresses_that_no_broker_has_any_more_are_closed_and_all_others_stay() {
    let site = Site::start().await;
    let (_master, master) = broker().await;
    let (_slave, slave) = broker().await;
    let (_new, new) = broker().await;
    site.set("master", &master).await;
    site.set("slave1", &slave).await;
    let old = site.session.for_writing(zero()).await.unwrap();
    let kept = site.session.connections.get(&slave).await.unwrap();
    site.set("master", &new).await;
    site.session.brokers_changed();
    let moved = site.session.for_writing(zero()).await.unwrap();
    assert_eq!(moved.address(), new);
    let ended = old.ended();
    drop(old);
    tokio::time::timeout(Duration::from_secs(30), ended).await.expect("the old one is closed");
    assert!(Arc::ptr_eq(&site.session.connections.present(&slave).unwrap(), &kept));
}

#[derive(Debug)]
struct Noting(&'static str, Arc<Mutex<Vec<&'static str>>>, Result<(), ClientError>);

impl Child for Noting {
    fn reads(&self) -> bool {
        self.0 == "reader"
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), ClientError>> {
        Box::pin(async {
            lock(&self.1).push(self.0);
            self.2.clone()
        })
    }
}

#[tokio::test]
async fn what_reads_is_shut_down_first_then_the_others_in_their_order_and_an_error_ends_nothing() {
    let config = ClientConfig::server("127.0.0.1:1").unwrap();
    let session = Session::start(config, Discovery::Server(BrokerUrl::new("127.0.0.1", 1)));
    let order = Arc::new(Mutex::new(Vec::new()));
    let failure = |text: &str| Err(ClientError::InvalidMessage(text.to_owned()));
    let left = Arc::new(Noting("left before", Arc::clone(&order), Ok(())));
    session.register_child(Arc::clone(&left) as Arc<dyn Child>).unwrap();
    for (name, result) in [("a", Ok(())), ("b", failure("of b")), ("reader", failure("of the reader")), ("d", Ok(()))] {
        session.register_child(Arc::new(Noting(name, Arc::clone(&order), result))).unwrap();
    }
    session.leave(&*left);
    for _ in 0..2 {
        assert_eq!(session.shutdown().await.unwrap_err().to_string(), "of the reader");
    }
    assert_eq!(*lock(&order), ["reader", "a", "b", "d"]);
    assert!(matches!(session.register_child(left), Err(ClientError::Shutdown(_))));
}

#[tokio::test]
async fn ids_of_a_session_are_numbered_and_fit_the_protocols_fields() {
    let config = ClientConfig::server("127.0.0.1:1").unwrap();
    let session = Session::start(config, Discovery::Server(BrokerUrl::new("127.0.0.1", 1)));
    let (first, second) = (session.next_id(), session.next_id());
    assert!(first.ends_with("-1") && second.ends_with("-2"), "{first} {second}");
    assert!(!first.contains([':', ' ']), "{first}");
}
