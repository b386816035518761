//! What groups leave in ZooKeeper: the same as the reference's, recorded in the same situations (04 §2, §8, §9). Session
//! ids aside, and the random parts of consumer ids and message ids.

#![cfg(feature = "broker")]
// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

#[path = "consumer_tree/recorded.rs"]
mod recorded;

use std::collections::BTreeMap;
use std::process::Command;

use common::broker::{BrokerHome, MetaqBroker};
use common::group::{Members, Observer, Subject};
use common::output::{assert_status, json_lines};
use common::wait_until;
use common::zookeeper::{Ensemble, free_port};
use metaq::rebalance::RangeStrategy;
use recorded::{Ids, Tree};

const ZK_ROOT: &str = "/meta";

/// Of the recorded broker.
const TOPICS: [(&str, &str); 2] = [("test", "numPartitions=10"), ("meta-test", "numPartitions=4")];

#[test]
fn groups_leave_the_recorded_nodes_in_zookeeper() {
    let Some(ensemble) = Ensemble::single() else { return };
    let zk_connect = ensemble.connect_string();
    let home = BrokerHome::new(0, &zk_connect, ZK_ROOT, "", &TOPICS);
    let _broker = MetaqBroker::start(&home);
    groups_leave_the_recorded_nodes(&zk_connect);
}

#[test]
fn and_in_local_mode() {
    let zk_connect = format!("127.0.0.1:{}", free_port());
    let home = BrokerHome::new(0, &zk_connect, ZK_ROOT, "", &TOPICS);
    let _broker = MetaqBroker::start_local(&home);
    groups_leave_the_recorded_nodes(&zk_connect);
}

fn groups_leave_the_recorded_nodes(zk_connect: &str) {
    // One message in each partition of one topic; one, or two, in those of the other.
    let tests = produce(zk_connect, "test", &["--count", "10", "--size", "64"]);
    assert_eq!(tests.len(), 10, "each partition has a message: {tests:?}");
    let mut meta_tests = Ids::new();
    for (partition, count) in [("0-0", "1"), ("0-1", "2"), ("0-2", "2"), ("0-3", "2")] {
        let arguments = ["--partition", partition, "--count", count, "--size", "40"];
        meta_tests.extend(produce(zk_connect, "meta-test", &arguments));
    }
    let group = |topic: &str, group: &str| Group::new(zk_connect, topic, group);

    for (topic, name, messages, ids) in [("test", "g1", 10, &tests), ("meta-test", "gtx", 7, &meta_tests)] {
        let mut group = group(topic, name);
        group.members.join_without_id("only");
        wait_until("all messages are delivered", || group.members.inbox("only").len() == messages);
        group.members.leave_all();
        assert_eq!(group.tree(ids), Tree::recorded("03-consumers-closed-offsets-left", name));
    }

    let mut gz = group("test", "gz");
    gz.members.join_without_id("first");
    wait_until("all messages are delivered", || gz.members.inbox("first").len() == 10);
    wait_until("they are committed", || {
        gz.observer.offsets().unwrap().values().filter(|&&end| end == 84).count() == 10
    });
    gz.members.join_without_id("second");
    let ids = || gz.observer.ownership().unwrap().members.into_keys();
    wait_until("both are there", || ids().len() == 2);
    gz.observer.await_ownership(&RangeStrategy, 10, ids());
    for name in ["first", "second"] {
        let process = gz.members.process(name).id();
        assert!(ids().any(|id| is_generated(&id, "gz", process)), "of process {process}: {:?}", ids());
    }
    assert_eq!(gz.tree(&tests), Tree::recorded("02-two-consumers-active", "gz"));
    gz.members.leave_all();
    assert_eq!(gz.tree(&tests), Tree::recorded("03-consumers-closed-offsets-left", "gz"));
}

struct Group {
    name: String,
    observer: Observer,
    members: Members,
}

impl Group {
    fn new(zk_connect: &str, topic: &str, name: &str) -> Self {
        let subject = Subject {
            zk_connect: zk_connect.to_owned(),
            zk_root: ZK_ROOT.to_owned(),
            topic: topic.to_owned(),
            group: name.to_owned(),
        };
        Self { name: name.to_owned(), observer: Observer::new(&subject), members: Members::new(subject, &[]) }
    }

    fn tree(&self, ids: &Ids) -> Tree {
        Tree::of(&self.observer.tree(), &self.name, ids)
    }
}

/// Sends generated messages and tells the id of the last message of each partition.
fn produce(zk_connect: &str, topic: &str, arguments: &[&str]) -> Ids {
    let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
    command.args(["produce", "--zk", zk_connect, "--topic", topic, "--output", "json"]).args(arguments);
    let output = command.output().unwrap();
    assert_status(&output, 0);
    let lines = json_lines(&output);
    let sent = lines.iter().filter(|line| line["ok"] == true);
    sent.map(|line| (format!("{}-{}", line["broker"], line["partition"]), line["id"].to_string()))
        .collect::<BTreeMap<_, _>>()
}

/// `<group>_<local host>-<process>-<random UUID>` (04 §9).
fn is_generated(id: &str, group: &str, process: u32) -> bool {
    let Some(rest) = id.strip_prefix(group).and_then(|rest| rest.strip_prefix('_')) else { return false };
    let Some((host, uuid)) = rest.split_once(&format!("-{process}-")) else { return false };
    let lengths: Vec<_> = uuid.split('-').map(str::len).collect();
    let hex = uuid.chars().all(|c| c == '-' || c.is_ascii_hexdigit());
    !host.is_empty() && hex && lengths == [8, 4, 4, 4, 12]
}
