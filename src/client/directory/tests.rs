use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use futures_core::future::BoxFuture;
use tokio::sync::watch;

use super::*;
use crate::zk::{
    Call, Coordinator, CoordinatorError, Node, NodeKind, NodeStat, Root, Session, SessionId, SessionState, Watch,
};

/// Nodes below `/meta/brokers/ids/0` that can be read, and nothing else. It counts reads.
#[derive(Debug, Default)]
struct Nodes {
    children: Mutex<BTreeMap<&'static str, String>>,
    reads: AtomicUsize,
    fails: AtomicBool,
    hangs: AtomicBool,
}

impl Nodes {
    fn set(&self, child: &'static str, address: &str) {
        lock(&self.children).insert(child, format!("meta://{address}"));
    }

    fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }
}

fn missing<'a, T>(path: &'a str) -> Call<'a, T> {
    Box::pin(async move { Err(CoordinatorError::NoNode(path.to_owned())) })
}

impl Coordinator for Nodes {
    fn session(&self) -> watch::Receiver<SessionState> {
        watch::Sender::new(SessionState::Connecting).subscribe()
    }

    fn get<'a>(&'a self, path: &'a str) -> Call<'a, Node> {
        Box::pin(async move {
            let name = path.rsplit('/').next().unwrap_or_default();
            let Some(data) = lock(&self.children).get(name).cloned() else { return missing(path).await };
            let stat = NodeStat { version: 0, ephemeral_owner: None, created: 0 };
            Ok(Node { data: data.into_bytes(), stat })
        })
    }

    fn children<'a>(&'a self, path: &'a str) -> Call<'a, Vec<String>> {
        Box::pin(async move {
            self.reads.fetch_add(1, Ordering::SeqCst);
            if self.hangs.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            if self.fails.load(Ordering::SeqCst) {
                return Err(CoordinatorError::NoSession { operation: "list", path: path.to_owned() });
            }
            Ok(lock(&self.children).keys().map(|&name| name.to_owned()).collect())
        })
    }

    fn create<'a>(&'a self, path: &'a str, _: &'a [u8], _: NodeKind) -> Call<'a, ()> {
        missing(path)
    }

    fn delete<'a>(&'a self, path: &'a str, _: Option<i32>) -> Call<'a, ()> {
        missing(path)
    }

    fn set<'a>(&'a self, path: &'a str, _: &'a [u8], _: Option<i32>) -> Call<'a, NodeStat> {
        missing(path)
    }

    fn exists<'a>(&'a self, path: &'a str) -> Call<'a, Option<NodeStat>> {
        missing(path)
    }

    fn sync<'a>(&'a self, path: &'a str) -> Call<'a, ()> {
        missing(path)
    }

    fn watch_data<'a>(&'a self, path: &'a str) -> Call<'a, (Node, Watch)> {
        missing(path)
    }

    fn watch_children<'a>(&'a self, path: &'a str) -> Call<'a, (Vec<String>, Watch)> {
        missing(path)
    }

    fn watch_exists<'a>(&'a self, path: &'a str) -> Call<'a, (Option<NodeStat>, Watch)> {
        missing(path)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

fn connected() -> SessionState {
    SessionState::Connected(Session { id: SessionId(1), generation: 1, timeout: Duration::from_secs(4) })
}

fn directory() -> (Arc<Nodes>, Directory) {
    let (nodes, directory, _) = with_sessions();
    (nodes, directory)
}

fn with_sessions() -> (Arc<Nodes>, Directory, watch::Sender<SessionState>) {
    let nodes = Arc::new(Nodes::default());
    let cluster = Cluster::new(Arc::clone(&nodes) as Arc<dyn Coordinator>, Root::default());
    let sessions = watch::Sender::new(connected());
    let directory = Directory::new(cluster, Mapping(None), sessions.subscribe());
    (nodes, directory, sessions)
}

fn zero() -> BrokerId {
    BrokerId::new(0).unwrap()
}

#[tokio::test(start_paused = true)]
async fn addresses_are_read_once_and_again_when_they_are_in_doubt() {
    let (nodes, directory) = directory();
    nodes.set("master", "a:1");
    nodes.set("slave3", "b:2");
    let expected = Addresses { master: Some("a:1".to_owned()), slaves: vec!["b:2".to_owned()] };
    for _ in 0..3 {
        assert_eq!(*directory.addresses(zero()).await.unwrap(), expected);
    }
    assert_eq!(nodes.reads(), 1);
    nodes.set("master", "c:3");
    directory.changed();
    assert_eq!(directory.master(zero()).await.unwrap(), "c:3", "a change is seen at once");
    assert_eq!(directory.in_use().await.unwrap(), ["b:2", "c:3"].map(str::to_owned).into());
    assert_eq!(nodes.reads(), 2);
}

#[tokio::test(start_paused = true)]
async fn failures_cause_reads_at_a_bounded_rate() {
    let (nodes, directory) = directory();
    nodes.set("master", "a:1");
    directory.master(zero()).await.unwrap();
    tokio::time::advance(REREAD_PAUSE).await;
    for _ in 0..100 {
        directory.doubt(zero());
        directory.master(zero()).await.unwrap();
    }
    assert_eq!(nodes.reads(), 2);
    nodes.set("master", "c:3");
    tokio::time::advance(REREAD_PAUSE).await;
    assert_eq!(directory.master(zero()).await.unwrap(), "c:3", "the doubt is not forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_is_not_registered_is_looked_for_again_at_a_bounded_rate() {
    let (nodes, directory) = directory();
    for _ in 0..100 {
        let error = directory.master(zero()).await.unwrap_err();
        assert!(matches!(error, ClientError::Cluster(ClusterError::NoMaster { .. })), "{error}");
    }
    assert_eq!(nodes.reads(), 1);
    nodes.set("master", "a:1");
    tokio::time::advance(REREAD_PAUSE).await;
    assert_eq!(directory.master(zero()).await.unwrap(), "a:1");
}

#[tokio::test(start_paused = true)]
async fn what_was_known_counts_while_zookeeper_does_not_answer() {
    let (nodes, directory) = directory();
    nodes.fails.store(true, Ordering::SeqCst);
    assert!(matches!(directory.master(zero()).await, Err(ClientError::Cluster(ClusterError::Coordinator(_)))));
    nodes.fails.store(false, Ordering::SeqCst);
    nodes.set("master", "a:1");
    assert_eq!(directory.master(zero()).await.unwrap(), "a:1");
    nodes.set("master", "c:3");
    nodes.fails.store(true, Ordering::SeqCst);
    directory.changed();
    assert_eq!(directory.master(zero()).await.unwrap(), "a:1");
    nodes.fails.store(false, Ordering::SeqCst);
    assert_eq!(directory.master(zero()).await.unwrap(), "c:3", "the change is not forgotten");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_zookeeper_that_is_away_if_an_address_is_known() {
    let (nodes, directory, sessions) = with_sessions();
    nodes.set("master", "a:1");
    directory.master(zero()).await.unwrap();
    sessions.send_replace(SessionState::Connecting);
    nodes.hangs.store(true, Ordering::SeqCst);
    directory.changed();
    assert_eq!(directory.master(zero()).await.unwrap(), "a:1");
    nodes.hangs.store(false, Ordering::SeqCst);
    nodes.set("master", "c:3");
    sessions.send_replace(connected());
    assert_eq!(directory.master(zero()).await.unwrap(), "c:3");
}

#[tokio::test(start_paused = true)]
async fn a_reader_who_gives_up_takes_no_change_with_it() {
    let (nodes, directory) = directory();
    nodes.set("master", "a:1");
    directory.master(zero()).await.unwrap();
    nodes.set("master", "c:3");
    directory.changed();
    nodes.hangs.store(true, Ordering::SeqCst);
    tokio::time::timeout(Duration::from_millis(1), directory.master(zero())).await.unwrap_err();
    nodes.hangs.store(false, Ordering::SeqCst);
    assert_eq!(directory.master(zero()).await.unwrap(), "c:3");
}
