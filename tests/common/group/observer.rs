//! An independent look at the tree.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use metaq::id::{GroupName, Partition, TopicName, TopicPartition};
use metaq::rebalance::{Group, LoadBalanceStrategy, sorted_consumers};
use metaq::zk::format::StoredOffset;
use metaq::zk::{
    Cluster, Coordinator, CoordinatorError, Node, Root, SessionId, ZooKeeper, ZooKeeperOptions, connected,
};
use tokio::runtime::Runtime;

use super::{GROUP_DEADLINE, SESSION_TIMEOUT, Subject};

/// Reads the nodes of one group with a session of its own; its calls block.
pub struct Observer {
    runtime: Runtime,
    coordinator: Arc<ZooKeeper>,
    root: Root,
    group: GroupName,
    topic: TopicName,
}

/// Who is there and owns what, as the tree says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ownership {
    /// Consumer ids and their sessions.
    pub members: BTreeMap<String, SessionId>,
    /// The owner of each partition that has one: consumer id and the session that the node belongs to.
    pub owners: BTreeMap<Partition, (String, SessionId)>,
}

impl Ownership {
    /// The partitions of a member, as lines of deliveries name them.
    pub fn partitions_of(&self, consumer: &str) -> Vec<(i64, i64)> {
        let own = self.owners.iter().filter(|(_, (owner, _))| owner == consumer);
        own.map(|(partition, _)| numbers(*partition)).collect()
    }
}

/// A partition as lines of deliveries name it.
fn numbers(partition: Partition) -> (i64, i64) {
    (partition.broker.get().into(), partition.index.get().into())
}

impl Observer {
    pub fn new(subject: &Subject) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let connect = subject.zk_connect.parse().unwrap();
        let coordinator = runtime.block_on(async {
            let zookeeper = ZooKeeper::start(ZooKeeperOptions { connect, session_timeout: SESSION_TIMEOUT });
            connected(&zookeeper, GROUP_DEADLINE).await.unwrap();
            Arc::new(zookeeper)
        });
        Self {
            runtime,
            coordinator,
            root: subject.zk_root.parse().unwrap(),
            group: subject.group.parse().unwrap(),
            topic: TopicName::new(subject.topic.clone()).unwrap(),
        }
    }

    /// Members and owners now.
    pub fn ownership(&self) -> Result<Ownership, CoordinatorError> {
        self.runtime.block_on(async {
            let mut ownership = Ownership::default();
            let ids = self.root.members(&self.group);
            for consumer in self.children(&ids).await? {
                if let Some(node) = self.get(&format!("{ids}/{consumer}")).await? {
                    ownership.members.insert(consumer, node.stat.ephemeral_owner.unwrap());
                }
            }
            let owners = format!("{}/owners/{}", self.group_directory(), self.topic);
            for name in self.children(&owners).await? {
                if let Some(node) = self.get(&format!("{owners}/{name}")).await? {
                    let owner = String::from_utf8(node.data).unwrap();
                    let session = node.stat.ephemeral_owner.expect("owner nodes are ephemeral");
                    ownership.owners.insert(name.parse().unwrap(), (owner, session));
                }
            }
            Ok(ownership)
        })
    }

    /// Where the group stands in each partition.
    pub fn offsets(&self) -> Result<BTreeMap<(i64, i64), i64>, CoordinatorError> {
        self.runtime.block_on(async {
            let mut offsets = BTreeMap::new();
            let directory = format!("{}/offsets/{}", self.group_directory(), self.topic);
            for name in self.children(&directory).await? {
                let partition: Partition = name.parse().unwrap();
                let of = TopicPartition { topic: self.topic.clone(), partition };
                if let Some(node) = self.get(&self.root.offset(&self.group, &of)).await? {
                    let stored = StoredOffset::parse(&node.data).unwrap();
                    offsets.insert(numbers(partition), stored.offset.get());
                }
            }
            Ok(offsets)
        })
    }

    /// Partitions that consumers find.
    pub fn partitions(&self) -> Vec<Partition> {
        let cluster = Cluster::new(Arc::clone(&self.coordinator) as Arc<dyn Coordinator>, self.root.clone());
        self.runtime.block_on(cluster.partitions_for_subscribe(&self.topic)).unwrap_or_default()
    }

    /// Every node below and including the group's, relative to it.
    pub fn tree(&self) -> BTreeMap<String, Node> {
        self.runtime.block_on(async {
            let top = self.group_directory();
            let mut nodes = BTreeMap::new();
            let mut open = vec![top];
            while let Some(path) = open.pop() {
                let Some(node) = self.get(&path).await.unwrap() else { continue };
                let children = self.children(&path).await.unwrap();
                open.extend(children.into_iter().map(|child| format!("{path}/{child}")));
                nodes.insert(path, node);
            }
            nodes
        })
    }

    /// Waits until the topic has so many partitions, and each is owned by the member that the strategy says, through the
    /// session that the member's own node belongs to. No node of another member is left.
    #[track_caller]
    pub fn await_ownership(
        &self,
        strategy: &dyn LoadBalanceStrategy,
        partitions: usize,
        members: impl IntoIterator<Item = String>,
    ) -> Ownership {
        let members = sorted_consumers(members);
        let started = Instant::now();
        loop {
            let found = self.partitions();
            let expected = assigned(strategy, &members, &found);
            let refusal = match self.ownership() {
                Ok(_) if found.len() != partitions => format!("{} partitions instead of {partitions}", found.len()),
                Ok(actual) if is_so(&actual, &members, &expected) => return actual,
                Ok(actual) => format!("{actual:?} instead of {expected:?}"),
                Err(error) => error.to_string(),
            };
            assert!(started.elapsed() < GROUP_DEADLINE, "the group of {members:?} does not come to rest: {refusal}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn group_directory(&self) -> String {
        self.root.members(&self.group).strip_suffix("/ids").unwrap().to_owned()
    }

    async fn children(&self, path: &str) -> Result<Vec<String>, CoordinatorError> {
        match self.coordinator.children(path).await {
            Err(CoordinatorError::NoNode(_)) => Ok(Vec::new()),
            other => other,
        }
    }

    async fn get(&self, path: &str) -> Result<Option<Node>, CoordinatorError> {
        match self.coordinator.get(path).await {
            Ok(node) => Ok(Some(node)),
            Err(CoordinatorError::NoNode(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.runtime.block_on(self.coordinator.close());
    }
}

/// The strategy's table.
fn assigned(
    strategy: &dyn LoadBalanceStrategy,
    members: &[String],
    partitions: &[Partition],
) -> BTreeMap<Partition, String> {
    let group = Group { consumers: members, partitions };
    let mut owners = BTreeMap::new();
    for member in members {
        owners.extend(strategy.partitions_of(member, group).into_iter().map(|partition| (partition, member.clone())));
    }
    owners
}

fn is_so(actual: &Ownership, members: &[String], expected: &BTreeMap<Partition, String>) -> bool {
    let owns = |(partition, owner): (&Partition, &String)| {
        let session = actual.members.get(owner);
        actual.owners.get(partition).is_some_and(|(name, of)| name == owner && Some(of) == session)
    };
    sorted_consumers(actual.members.keys().cloned()) == members
        && actual.owners.len() == expected.len()
        && expected.iter().all(owns)
}
