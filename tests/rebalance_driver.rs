//! Members of a group against a real ZooKeeper server: a session that expires, a member that leaves.
#![cfg(feature = "client")]
// Helpers outside of test functions fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metaq::id::{BrokerId, GroupName, TopicName, TopicPartition};
use metaq::rebalance::{Assignee, Driver, DriverOptions, Left, Membership, RangeStrategy};
use metaq::zk::format::TopicBroker;
use metaq::zk::{Coordinator, NodeKind, Root, TopicTree, ZooKeeper, ZooKeeperOptions, connected};

use crate::common::zookeeper::Ensemble;
use crate::common::{DEADLINE, eventually};

const SESSION_TIMEOUT: Duration = Duration::from_secs(3);
const PARTITIONS: u32 = 40;

/// Keeps what it is told.
#[derive(Debug, Default)]
struct Reader {
    reads: Mutex<BTreeSet<TopicPartition>>,
    lost: Mutex<usize>,
}

impl Reader {
    fn reads(&self) -> BTreeSet<TopicPartition> {
        self.reads.lock().unwrap().clone()
    }

    fn forget(&self, partitions: &[TopicPartition]) {
        let mut reads = self.reads.lock().unwrap();
        for of in partitions {
            assert!(reads.remove(of), "{of} was not assigned");
        }
    }
}

impl Assignee for Reader {
    fn assigned(&self, partitions: &[TopicPartition]) {
        let mut reads = self.reads.lock().unwrap();
        for of in partitions {
            assert!(reads.insert(of.clone()), "{of} is assigned twice");
        }
    }

    fn release<'a>(&'a self, partitions: &'a [TopicPartition]) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async {
            tokio::task::yield_now().await;
            self.forget(partitions);
        })
    }

    fn lost(&self, partitions: &[TopicPartition]) {
        *self.lost.lock().unwrap() += partitions.len();
        self.forget(partitions);
    }

    fn fence(&self, _: bool) {}
}

struct Member {
    zookeeper: Arc<ZooKeeper>,
    driver: Driver,
    reader: Arc<Reader>,
}

fn zookeeper(server: &Ensemble) -> Arc<ZooKeeper> {
    let connect = server.connect_string().parse().unwrap();
    Arc::new(ZooKeeper::start(ZooKeeperOptions { connect, session_timeout: SESSION_TIMEOUT }))
}

fn topic() -> TopicName {
    TopicName::new("orders").unwrap()
}

fn group() -> GroupName {
    GroupName::new("g").unwrap()
}

async fn join(server: &Ensemble, name: &str) -> Member {
    let (zookeeper, reader) = (zookeeper(server), Arc::<Reader>::default());
    let membership = Membership { group: group(), consumer_id: name.to_owned(), topics: BTreeSet::from([topic()]) };
    let driver = Driver::start(
        zookeeper.clone(),
        Root::default(),
        membership,
        Arc::new(RangeStrategy),
        reader.clone(),
        DriverOptions::default(),
    );
    driver.joined().await.unwrap();
    Member { zookeeper, driver, reader }
}

/// Waits until the members read everything, each its share, and the owner nodes say so.
async fn share(observer: &dyn Coordinator, members: &[(&str, &Member)]) {
    let partitions = usize::try_from(PARTITIONS).unwrap();
    eventually("the members share the partitions", || async {
        let mut all = BTreeSet::new();
        for (name, member) in members {
            let (state, reads) = (member.driver.state().borrow().clone(), member.reader.reads());
            if !state.is_settled() || *state.owned != reads || reads.len() != partitions / members.len() {
                return Err(format!("{name} reads {reads:?} as {state:?}"));
            }
            for of in &reads {
                let node =
                    observer.get(&Root::default().owner(&group(), of)).await.map_err(|error| error.to_string())?;
                if node.data != name.as_bytes() || node.stat.ephemeral_owner.is_none() {
                    return Err(format!("the owner of {of} is {node:?}"));
                }
            }
            all.extend(reads);
        }
        if all.len() == partitions { Ok(()) } else { Err(format!("{all:?} are read")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_members_share_a_topic_through_the_end_of_a_session_and_a_leave() {
    let Some(server) = Ensemble::single() else { return };
    let observer = zookeeper(&server);
    connected(&*observer, DEADLINE).await.unwrap();
    let node = Root::default().master_topic(TopicTree::Subscribe, &topic(), BrokerId::new(0).unwrap());
    let share_of_broker = TopicBroker::to_json(PARTITIONS, "0-m");
    observer.create(&node, share_of_broker.as_bytes(), NodeKind::Ephemeral).await.unwrap();

    let a = join(&server, "g_a").await;
    share(&*observer, &[("g_a", &a)]).await;
    let b = join(&server, "g_b").await;
    share(&*observer, &[("g_a", &a), ("g_b", &b)]).await;
    assert_eq!(*a.reader.lost.lock().unwrap(), 0);

    let session = connected(&*a.zookeeper, DEADLINE).await.unwrap();
    server.expire(session.id.0);
    eventually("the session is replaced", || async {
        let now = a.zookeeper.session().borrow().connected();
        if now.is_some_and(|now| now.generation > session.generation) { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    share(&*observer, &[("g_a", &a), ("g_b", &b)]).await;
    assert!(*a.reader.lost.lock().unwrap() > 0);
    assert_eq!(*b.reader.lost.lock().unwrap(), 0);

    assert_eq!(b.driver.leave().await, Left::Complete);
    assert_eq!(b.reader.reads(), BTreeSet::new());
    share(&*observer, &[("g_a", &a)]).await;
    assert_eq!(a.driver.leave().await, Left::Complete);
    assert_eq!(observer.children(&Root::default().members(&group())).await.unwrap(), Vec::<String>::new());
    assert_eq!(observer.children(&Root::default().owners(&group(), &topic())).await.unwrap(), Vec::<String>::new());
}
