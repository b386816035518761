//! A broker's registration and an independent observer of the tree.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use metaq::id::{BrokerId, BrokerUrl, TopicName};
use metaq::zk::{
    Coordinator, CoordinatorError, DesiredState, Node, Registration, RegistrationOptions, RegistrationState, Root,
    Session, SessionState, TopicRegistration, ZooKeeper, ZooKeeperOptions, connected,
};
use tokio::sync::watch;

use crate::common::zookeeper::Ensemble;
use crate::common::{DEADLINE, eventually};

pub(crate) const CHECKSUM: u32 = 467_468_303;
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(3);
/// Short, so that a repair which nothing but the periodic comparison can find is seen soon.
pub(crate) const COMPARE_PERIOD: Duration = Duration::from_millis(300);

pub(crate) fn zookeeper(connect: &str, session_timeout: Duration) -> Arc<ZooKeeper> {
    Arc::new(ZooKeeper::start(ZooKeeperOptions { connect: connect.parse().unwrap(), session_timeout }))
}

pub(crate) async fn session_of(coordinator: &dyn Coordinator) -> Session {
    connected(coordinator, DEADLINE).await.unwrap()
}

pub(crate) fn topic(name: &str) -> TopicName {
    TopicName::new(name.to_owned()).unwrap()
}

pub(crate) fn all(partitions: u32) -> TopicRegistration {
    TopicRegistration { partitions, accept_publish: true, accept_subscribe: true }
}

pub(crate) fn broker_id() -> BrokerId {
    BrokerId::new(0).unwrap()
}

pub(crate) fn url(port: u16) -> BrokerUrl {
    BrokerUrl::new("127.0.0.1", port)
}

/// A master with the topics of the recorded tree.
pub(crate) struct Broker {
    pub(crate) zookeeper: Arc<ZooKeeper>,
    pub(crate) desired: watch::Sender<Arc<DesiredState>>,
    pub(crate) registration: Registration,
}

impl Broker {
    pub(crate) fn start(connect: &str, port: u16) -> Self {
        Self::with(zookeeper(connect, SESSION_TIMEOUT), port)
    }

    pub(crate) fn with(zookeeper: Arc<ZooKeeper>, port: u16) -> Self {
        Self::comparing(COMPARE_PERIOD, zookeeper, port)
    }

    pub(crate) fn comparing(compare_period: Duration, zookeeper: Arc<ZooKeeper>, port: u16) -> Self {
        let topics = BTreeMap::from([(topic("test"), all(10)), (topic("meta-test"), all(4))]);
        let state = DesiredState { broker: broker_id(), url: url(port), checksum: CHECKSUM, topics };
        let desired = watch::Sender::new(Arc::new(state));
        let options = RegistrationOptions { compare_period };
        let registration = Registration::start(zookeeper.clone(), Root::default(), desired.subscribe(), options);
        Self { zookeeper, desired, registration }
    }

    pub(crate) fn change_topics(&self, change: impl FnOnce(&mut BTreeMap<TopicName, TopicRegistration>)) {
        self.desired.send_modify(|state| change(&mut Arc::make_mut(state).topics));
    }

    pub(crate) async fn reaches(
        &self,
        what: &str,
        wanted: impl FnMut(&RegistrationState) -> bool,
    ) -> RegistrationState {
        let mut states = self.registration.state();
        let reached = tokio::time::timeout(DEADLINE, states.wait_for(wanted)).await;
        match reached {
            Ok(state) => state.unwrap().clone(),
            Err(_) => panic!("registration is not {what} but: {}", self.registration),
        }
    }

    /// Ends the present session on the server and waits for the next one.
    pub(crate) async fn loses_its_session(&self, servers: &Ensemble) {
        let old = session_of(&*self.zookeeper).await;
        servers.expire(old.id.0);
        let mut sessions = self.zookeeper.session();
        let newer = |state: &SessionState| state.connected().is_some_and(|s| s.generation > old.generation);
        tokio::time::timeout(DEADLINE, sessions.wait_for(newer)).await.expect("a new session").unwrap();
    }

    /// Waits until the tree is complete and everything in it belongs to the present session.
    pub(crate) async fn settles(&self, observer: &dyn Coordinator) -> Session {
        let sessions = self.zookeeper.session();
        let states = self.registration.state();
        eventually("the broker is registered", || async {
            let SessionState::Connected(session) = *sessions.borrow() else {
                return Err(format!("{:?}", *sessions.borrow()));
            };
            let state = states.borrow().clone();
            if state != RegistrationState::Registered {
                return Err(state.to_string());
            }
            let tree = tree(observer, "/meta").await.map_err(|error| error.to_string())?;
            let state = self.desired.borrow().clone();
            let seen = plain(&tree);
            let expected = recorded(&state.url);
            if seen != expected {
                return Err(format!("tree is {seen:#?}"));
            }
            match tree.iter().find(|(_, n)| n.stat.ephemeral_owner.is_some_and(|owner| owner != session.id)) {
                Some((path, _)) => Err(format!("{path} is of another session")),
                None => Ok(session),
            }
        })
        .await
    }
}

/// Every node below and including `top`.
pub(crate) async fn tree(coordinator: &dyn Coordinator, top: &str) -> Result<BTreeMap<String, Node>, CoordinatorError> {
    let mut nodes = BTreeMap::new();
    let mut open = vec![top.to_owned()];
    while let Some(path) = open.pop() {
        let node = coordinator.get(&path).await?;
        open.extend(coordinator.children(&path).await?.into_iter().map(|child| format!("{path}/{child}")));
        nodes.insert(path, node);
    }
    Ok(nodes)
}

/// Data and kind of each node; `true` for an ephemeral one.
pub(crate) type Plain = BTreeMap<String, (String, bool)>;

pub(crate) fn plain(tree: &BTreeMap<String, Node>) -> Plain {
    tree.iter()
        .map(|(path, node)| {
            let data = String::from_utf8(node.data.clone()).unwrap();
            (path.clone(), (data, node.stat.ephemeral_owner.is_some()))
        })
        .collect()
}

/// Version of each node in the recorded tree.
pub(crate) fn recorded_versions() -> BTreeMap<String, i64> {
    records().map(|record| (text(&record, "path"), record["version"].as_i64().unwrap())).collect()
}

/// The tree that the reference leaves after the start of a master, with another address.
pub(crate) fn recorded(url: &BrokerUrl) -> Plain {
    records()
        .map(|record| {
            let data = text(&record, "data").replace("meta://127.0.0.1:8200", &url.to_string());
            (text(&record, "path"), (data, record["ephemeral"].as_bool().unwrap()))
        })
        .collect()
}

fn records() -> impl Iterator<Item = serde_json::Value> {
    let lines = include_str!("../fixtures/zk/01-master-started.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap())
}

fn text(record: &serde_json::Value, member: &str) -> String {
    record[member].as_str().unwrap().to_owned()
}

pub(crate) async fn created(coordinator: &dyn Coordinator, path: &str) -> Option<i64> {
    coordinator.exists(path).await.unwrap().map(|stat| stat.created)
}
