use std::collections::BTreeSet;
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::time::sleep;

use super::*;
use crate::client::config::ClientConfig;
use crate::client::consumer::testing::assignment;
use crate::client::session::Discovery;
use crate::client::{ClientError, Fault};
use crate::id::{BrokerId, TopicName};
use crate::rebalance::simulated::{Client, Service};
use crate::rebalance::{Assignee, DriverOptions, Membership, RangeStrategy};
use crate::zk::format::TopicBroker;
use crate::zk::{Coordinator, NodeKind, Root, TopicTree, connected};

const SESSION: Duration = Duration::from_secs(6);

/// A group of one member and a topic of one partition, whose broker is gone.
struct Site {
    client: Arc<Client>,
    session: Arc<Session>,
    group: GroupName,
    topic: TopicName,
}

impl Site {
    async fn new() -> Self {
        let client = Client::connect(&Arc::new(Service::default()), SESSION, 1);
        connected(&*client, SESSION).await.unwrap();
        let topic = TopicName::new("t").unwrap();
        let path = Root::default().master_topic(TopicTree::Subscribe, &topic, BrokerId::new(0).unwrap());
        client.create(&path, TopicBroker::to_json(1, "0-m").as_bytes(), NodeKind::Persistent).await.unwrap();
        let config = ClientConfig::zookeeper("127.0.0.1:1").unwrap();
        let session = Session::start(config, Discovery::Coordinator(client.clone()));
        Self { client, session, group: GroupName::new("g").unwrap(), topic }
    }

    fn driver(&self, assignee: Arc<dyn Assignee>) -> Driver {
        let topics = BTreeSet::from([self.topic.clone()]);
        let membership = Membership { group: self.group.clone(), consumer_id: "g_a".to_owned(), topics };
        let (root, options) = (Root::default(), DriverOptions::default());
        Driver::start(self.client.clone(), root, membership, Arc::new(RangeStrategy), assignee, options)
    }

    async fn has_nodes(&self) -> bool {
        let owner = TopicPartition { topic: self.topic.clone(), partition: "0-0".parse().unwrap() };
        let root = Root::default();
        for path in [root.member(&self.group, "g_a"), root.owner(&self.group, &owner)] {
            if self.client.exists(&path).await.unwrap().is_some() {
                return true;
            }
        }
        false
    }
}

fn is_told(error: ConsumerError) -> bool {
    matches!(&error, ConsumerError::Panicked(panic) if panic.contains("fault"))
        && ClientError::from(error).fault() == Fault::Library
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_ends_by_a_fault_is_told_and_its_member_leaves_the_group() {
    let site = Site::new().await;
    let mut events = site.session.subscribe();
    let assignment = assignment(&site.session, &site.group, &site.topic);
    let driver = site.driver(assignment.clone());
    let running = Running::member(&site.session, &site.group, assignment, driver);
    running.joined().await.unwrap();
    running.engine.fault();
    while !matches!(events.recv().await.unwrap(), ClientEvent::ConsumerPanicked { reason, .. } if reason == "a fault") {
    }
    assert_eq!(running.panicked().as_deref(), Some("a fault"));
    let others_may_read = async {
        while site.has_nodes().await {
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SESSION, others_may_read).await.unwrap();
    assert!(is_told(running.end().await.unwrap_err()));
}

/// Stands in for a fault of the driver, whose task calls it.
#[derive(Debug)]
struct FaultyAssignee;

impl Assignee for FaultyAssignee {
    fn assigned(&self, _: &[TopicPartition]) {
        panic!("a fault");
    }

    fn release<'a>(&'a self, _: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn lost(&self, _: &[TopicPartition]) {}

    fn fence(&self, _: bool) {}
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_ends_by_a_fault_is_told() {
    let site = Site::new().await;
    let mut events = site.session.subscribe();
    let assignment = assignment(&site.session, &site.group, &site.topic);
    let running = Running::member(&site.session, &site.group, assignment, site.driver(Arc::new(FaultyAssignee)));
    while !matches!(events.recv().await.unwrap(), ClientEvent::ConsumerPanicked { reason, .. } if reason == "a fault") {
    }
    assert!(is_told(running.joined().await.unwrap_err()));
    assert!(running.assigned().is_empty());
    assert!(is_told(running.end().await.unwrap_err()));
}
