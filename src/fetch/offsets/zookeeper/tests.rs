use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;

use super::*;
use crate::fetch::testing::partition;
use crate::id::Offset;
use crate::zk::{Call, NodeStat, Session, SessionId, Watch};

const OURS: SessionId = SessionId(1);
const CONSUMER: &str = "g_a";

/// Nodes of one session, with the troubles that a test wants.
#[derive(Debug)]
struct Tree {
    nodes: Mutex<BTreeMap<String, Node>>,
    states: watch::Sender<SessionState>,
    /// The next write has no answer: it was carried out, or it was not.
    silent: Mutex<Option<bool>>,
    /// What the next write answers instead.
    refusal: Mutex<Option<CoordinatorError>>,
    /// Calls that have begun.
    begun: Mutex<usize>,
    /// Whether answers wait until all of a test's writes have begun.
    gate: Mutex<Option<Arc<tokio::sync::Barrier>>>,
}

impl Tree {
    fn new() -> Arc<Self> {
        let session = Session { id: OURS, generation: 1, timeout: Duration::from_secs(30) };
        Arc::new(Self {
            nodes: Mutex::default(),
            states: watch::Sender::new(SessionState::Connected(session)),
            silent: Mutex::default(),
            refusal: Mutex::default(),
            begun: Mutex::default(),
            gate: Mutex::default(),
        })
    }

    /// Somebody writes, as Java members do.
    fn put(&self, path: &str, data: &str, owner: Option<SessionId>) {
        let mut nodes = lock(&self.nodes);
        let version = nodes.get(path).map_or(0, |node| node.stat.version + 1);
        let stat = NodeStat { version, ephemeral_owner: owner, created: 0 };
        nodes.insert(path.to_owned(), Node { data: data.as_bytes().to_vec(), stat });
    }

    fn data(&self, path: &str) -> Option<String> {
        lock(&self.nodes).get(path).map(|node| String::from_utf8(node.data.clone()).unwrap())
    }

    fn own(&self, index: i32, consumer: &str, session: SessionId) {
        self.put(&Root::default().owner(&group(), &partition(index)), consumer, Some(session));
    }

    fn write(&self, path: &str, data: &[u8], version: Option<i32>) -> Result<NodeStat, CoordinatorError> {
        if let Some(error) = lock(&self.refusal).take() {
            return Err(error);
        }
        let silent = lock(&self.silent).take();
        let unknown = || CoordinatorError::Unknown {
            operation: "set",
            path: path.to_owned(),
            reason: "the connection was lost".to_owned(),
        };
        if silent == Some(false) {
            return Err(unknown());
        }
        let present = lock(&self.nodes).get(path).map(|node| node.stat);
        match (present, version) {
            (Some(_), None) => return Err(CoordinatorError::NodeExists(path.to_owned())),
            (None, Some(_)) => return Err(CoordinatorError::NoNode(path.to_owned())),
            (Some(stat), Some(version)) if stat.version != version => {
                return Err(CoordinatorError::BadVersion(path.to_owned()));
            }
            _ => self.put(path, std::str::from_utf8(data).unwrap(), None),
        }
        if silent.is_some() { Err(unknown()) } else { Ok(lock(&self.nodes)[path].stat) }
    }

    async fn begin(&self) {
        *lock(&self.begun) += 1;
        let gate = lock(&self.gate).clone();
        if let Some(gate) = gate {
            gate.wait().await;
        }
    }
}

impl Coordinator for Tree {
    fn session(&self) -> watch::Receiver<SessionState> {
        self.states.subscribe()
    }

    fn create<'a>(&'a self, path: &'a str, data: &'a [u8], kind: NodeKind) -> Call<'a, ()> {
        assert_eq!(kind, NodeKind::Persistent);
        Box::pin(async move {
            self.begin().await;
            self.write(path, data, None).map(|_| ())
        })
    }

    fn get<'a>(&'a self, path: &'a str) -> Call<'a, Node> {
        Box::pin(async move {
            lock(&self.nodes).get(path).cloned().ok_or_else(|| CoordinatorError::NoNode(path.to_owned()))
        })
    }

    fn set<'a>(&'a self, path: &'a str, data: &'a [u8], version: Option<i32>) -> Call<'a, NodeStat> {
        assert!(version.is_some(), "every write has a condition");
        Box::pin(async move {
            self.begin().await;
            self.write(path, data, version)
        })
    }

    fn delete<'a>(&'a self, _: &'a str, _: Option<i32>) -> Call<'a, ()> {
        unreachable!()
    }

    fn children<'a>(&'a self, _: &'a str) -> Call<'a, Vec<String>> {
        unreachable!()
    }

    fn exists<'a>(&'a self, _: &'a str) -> Call<'a, Option<NodeStat>> {
        unreachable!()
    }

    fn sync<'a>(&'a self, _: &'a str) -> Call<'a, ()> {
        unreachable!()
    }

    fn watch_data<'a>(&'a self, _: &'a str) -> Call<'a, (Node, Watch)> {
        unreachable!()
    }

    fn watch_children<'a>(&'a self, _: &'a str) -> Call<'a, (Vec<String>, Watch)> {
        unreachable!()
    }

    fn watch_exists<'a>(&'a self, _: &'a str) -> Call<'a, (Option<NodeStat>, Watch)> {
        unreachable!()
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        unreachable!()
    }
}

fn group() -> GroupName {
    GroupName::new("g").unwrap()
}

fn path(index: i32) -> String {
    format!("/meta/consumers/g/offsets/test/0-{index}")
}

fn commit(index: i32, offset: i64) -> OffsetCommit {
    let offset = StoredOffset { offset: Offset::new(offset), message_id: Some(crate::id::MessageId::new(7)) };
    OffsetCommit { of: TopicPartition::clone(&partition(index)), offset }
}

fn storage(tree: &Arc<Tree>) -> ZooKeeperOffsets {
    ZooKeeperOffsets::new(tree.clone(), Root::default(), CONSUMER)
}

async fn load(storage: &ZooKeeperOffsets, index: i32) -> Result<Option<i64>, String> {
    let stored = storage.load(&group(), &partition(index)).await.map_err(|error| error.to_string())?;
    Ok(stored.map(|stored| stored.offset.get()))
}

async fn store(storage: &ZooKeeperOffsets, offset: i64) -> Result<(), CommitError> {
    storage.commit(&group(), &[commit(0, offset)]).await.pop().unwrap()
}

#[tokio::test]
async fn the_first_commit_makes_the_node_and_later_ones_change_it() {
    let tree = Tree::new();
    let storage = storage(&tree);
    assert_eq!(load(&storage, 0).await, Ok(None));
    assert_eq!(tree.data(&path(0)), None, "loading makes no node");
    store(&storage, 100).await.unwrap();
    assert_eq!(tree.data(&path(0)).as_deref(), Some("7-100"));
    store(&storage, 200).await.unwrap();
    assert_eq!(tree.data(&path(0)).as_deref(), Some("7-200"));
    assert_eq!(load(&storage, 0).await, Ok(Some(200)));
    store(&storage, 300).await.unwrap();
    assert_eq!(tree.data(&path(0)).as_deref(), Some("7-300"));
}

#[tokio::test]
async fn a_partition_whose_owner_node_is_not_ours_is_not_written() {
    for owner in [None, Some(("g_b", OURS)), Some((CONSUMER, SessionId(2)))] {
        for was_there in [true, false] {
            let tree = Tree::new();
            let storage = storage(&tree);
            if was_there {
                tree.put(&path(0), "-1-50", None);
            }
            load(&storage, 0).await.unwrap();
            tree.put(&path(0), "9-90", None);
            if let Some((consumer, session)) = owner {
                tree.own(0, consumer, session);
            }
            assert!(matches!(store(&storage, 100).await, Err(CommitError::NotOwner)), "{owner:?}");
            assert_eq!(tree.data(&path(0)).as_deref(), Some("9-90"));
        }
    }
}

#[tokio::test]
async fn a_late_commit_of_an_earlier_owner_is_written_over() {
    let tree = Tree::new();
    let storage = storage(&tree);
    tree.own(0, CONSUMER, OURS);
    tree.put(&path(0), "-1-50", None);
    load(&storage, 0).await.unwrap();
    tree.put(&path(0), "9-90", None);
    store(&storage, 70).await.unwrap();
    assert_eq!(tree.data(&path(0)).as_deref(), Some("7-70"));
    lock(&tree.nodes).remove(&path(0));
    store(&storage, 80).await.unwrap();
    assert_eq!(tree.data(&path(0)).as_deref(), Some("7-80"));
}

#[tokio::test]
async fn a_write_without_an_answer_is_read_back() {
    for carried_out in [true, false] {
        let tree = Tree::new();
        let storage = storage(&tree);
        load(&storage, 0).await.unwrap();
        for offset in [100, 200] {
            *lock(&tree.silent) = Some(carried_out);
            store(&storage, offset).await.unwrap();
            assert_eq!(tree.data(&path(0)), Some(format!("7-{offset}")));
        }
        // No owner node was looked at: nobody else has written.
        assert_eq!(*lock(&tree.begun), if carried_out { 2 } else { 4 });
    }
}

#[tokio::test]
async fn without_a_session_the_commit_fails_and_a_later_one_succeeds() {
    let tree = Tree::new();
    let storage = storage(&tree);
    load(&storage, 0).await.unwrap();
    *lock(&tree.refusal) = Some(CoordinatorError::NoSession { operation: "set", path: path(0) });
    assert!(matches!(store(&storage, 100).await, Err(CommitError::Failed(_))));
    store(&storage, 100).await.unwrap();
    tree.states.send_replace(SessionState::Connecting);
    tree.own(0, CONSUMER, OURS);
    tree.put(&path(0), "9-90", None);
    let error = store(&storage, 200).await.unwrap_err();
    assert!(matches!(&error, CommitError::Failed(_)), "nobody can tell whose it is: {error}");
    assert_eq!(tree.data(&path(0)).as_deref(), Some("9-90"));
}

#[tokio::test]
async fn what_is_no_offset_is_an_error_that_names_the_node_and_never_zero() {
    for text in ["", "x", "12-"] {
        let tree = Tree::new();
        tree.put(&path(0), text, None);
        let error = load(&storage(&tree), 0).await.unwrap_err();
        assert!(error.contains(&path(0)) && error.contains("delete it"), "{error}");
    }
}

#[tokio::test]
async fn many_partitions_are_written_at_once() {
    let tree = Tree::new();
    let storage = storage(&tree);
    *lock(&tree.gate) = Some(Arc::new(tokio::sync::Barrier::new(500)));
    let commits: Vec<_> = (0..500).map(|index| commit(index, i64::from(index))).collect();
    let results = tokio::time::timeout(Duration::from_secs(60), storage.commit(&group(), &commits)).await;
    assert!(results.unwrap().iter().all(Result::is_ok));
    assert_eq!(tree.data(&path(321)).as_deref(), Some("7-321"));
}

#[tokio::test]
async fn results_are_in_the_order_of_the_commits() {
    let tree = Tree::new();
    let storage = storage(&tree);
    for index in 0..4 {
        load(&storage, index).await.unwrap();
    }
    tree.put(&path(2), "9-90", None);
    let commits: Vec<_> = (0..4).map(|index| commit(index, 10)).collect();
    let results = storage.commit(&group(), &commits).await;
    let lost: Vec<_> = results.iter().map(|result| matches!(result, Err(CommitError::NotOwner))).collect();
    assert_eq!(lost, [false, false, true, false]);
}

#[tokio::test]
async fn a_partition_that_comes_back_is_seen_anew() {
    let tree = Tree::new();
    let storage = storage(&tree);
    load(&storage, 0).await.unwrap();
    store(&storage, 100).await.unwrap();
    storage.released(&group(), &partition(0));
    tree.put(&path(0), "9-500", None);
    assert_eq!(load(&storage, 0).await, Ok(Some(500)));
    store(&storage, 600).await.unwrap();
    assert_eq!(tree.data(&path(0)).as_deref(), Some("7-600"));
}

#[tokio::test]
async fn a_commit_that_hangs_writes_over_nothing_that_was_stored_since() {
    let tree = Tree::new();
    let storage = storage(&tree);
    tree.own(0, CONSUMER, OURS);
    load(&storage, 0).await.unwrap();
    store(&storage, 50).await.unwrap();
    for back in [false, true] {
        // The write gets no further, and nobody waits for it any more.
        let gate = Arc::new(tokio::sync::Barrier::new(2));
        *lock(&tree.gate) = Some(gate.clone());
        let begun = *lock(&tree.begun);
        let hanging = tokio::time::timeout(Duration::from_millis(50), store(&storage, 100)).await;
        assert!(hanging.is_err() && *lock(&tree.begun) == begun + 1);
        *lock(&tree.gate) = None;
        if back {
            storage.released(&group(), &partition(0));
            load(&storage, 0).await.unwrap();
        }
        store(&storage, 200).await.unwrap();
        gate.wait().await;
        // Its task has ended when nothing but the test and this storage hold what it shares.
        let ends = async {
            while Arc::strong_count(&storage.shared) > 1 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), ends).await.expect("the hanging write ends");
        assert_eq!(tree.data(&path(0)).as_deref(), Some("7-200"), "{back}");
    }
}
