//! Our broker is killed, and the reference's broker goes on with its directory: after `metaq log recover` as after a
//! clean stop, without it as well as it can.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::common::DEADLINE;
use crate::common::broker::{BrokerHome, MetaqBroker};
use crate::messages::{Message, Stored, acknowledged, assert_all_there, assert_same_log};
use crate::rig::{Cluster, metaq};

/// Runs `metaq log`, which must succeed.
#[track_caller]
fn metaq_log_command(home: &BrokerHome, arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
    command.args(["log", arguments[0], "-f"]).arg(home.ini()).args(&arguments[1..]);
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "metaq log {arguments:?}: {}: {told}", output.status);
}

#[test]
fn after_a_kill_and_a_recovery_a_java_broker_serves_everything_acknowledged_and_goes_on() {
    let Some(cluster) = Cluster::new("recovered") else { return };
    // Rolls over and over.
    let topics = [("synced", "numPartitions=3"), ("lazy", "unflushThreshold=1000")];
    let home = cluster.home_with(0, "maxSegmentSize=4096", &topics);
    let names = topics.map(|(name, _)| name);
    let mut acknowledged = names.map(|_| Vec::new());
    for round in 0..2 {
        let broker = MetaqBroker::start(&home);
        let mut streams = names.map(|name| cluster.java_stream(name, &format!("round {round}, message ")));
        for stream in &mut streams {
            stream.go_on(150);
        }
        broker.kill();
        for (acknowledged, stream) in acknowledged.iter_mut().zip(streams) {
            acknowledged.extend(stream.stop());
        }
        metaq_log_command(&home, &["recover"]);

        let java = cluster.start_java_broker_after_kill(&home);
        for (name, acknowledged) in names.iter().zip(&mut acknowledged) {
            assert_all_there(&cluster.java_log_of(name, acknowledged.len()), acknowledged);
            let messages: Vec<_> = (0..30).map(|i| Message::new(format!("Java's, round {round}, {i}"))).collect();
            acknowledged.extend(cluster.java_produce(name, &messages));
        }
        java.stop();
    }
    let _ours = MetaqBroker::start(&home);
    for (name, acknowledged) in names.iter().zip(&acknowledged) {
        assert_all_there(&cluster.metaq_log(name), acknowledged);
    }
}

/// A directory in which a Java broker wrote where messages stood that only our log had.
struct Conflict {
    cluster: Cluster,
    home: BrokerHome,
    /// What is in the segments of partition 0,
    served: Vec<Stored>,
    /// what only our log has of it,
    in_quarantine: Vec<Stored>,
    /// and what is in partition 1.
    other: Vec<Stored>,
}

/// Partition 0 of the topic of these tests.
const CONTESTED: &str = "contested-0";

impl Conflict {
    /// Our broker was killed, a Java broker wrote, ours serves again and was stopped.
    fn new(name: &str) -> Option<Self> {
        let cluster = Cluster::new(name)?;
        let home = cluster.home(0, &[("contested", "numPartitions=2")]);
        let (mut served, mut other) = (Vec::new(), Vec::new());
        let started = Instant::now();
        let in_quarantine = loop {
            let ours = MetaqBroker::start(&home);
            let round = served.len();
            served.extend(produce(&home, 0, &format!("served {round}-"), 20));
            other.extend(produce(&home, 1, &format!("other {round}-"), 20));
            // Whoever reads has the messages brought into the segments.
            assert_same_log(&cluster.metaq_log("contested"), &[&served[..], &other].concat());
            let unread = produce(&home, 0, &format!("unread {round}-"), 5);
            ours.kill();
            if length_of_segments(&home.data().join(CONTESTED)) == unread[0].place.offset.unsigned_abs() {
                break unread;
            }
            // They were brought there before it was killed.
            served.extend(unread);
            assert!(started.elapsed() < DEADLINE, "the log was never ahead of the segments");
        };

        let java = cluster.start_java_broker_after_kill(&home);
        served.extend(produce(&home, 0, "java-", 20));
        other.extend(produce(&home, 1, "java-other-", 20));
        java.stop();

        let ours = MetaqBroker::start(&home);
        let mut conflict = Self { cluster, home, served, in_quarantine, other };
        conflict.assert_closed();
        conflict.assert_served();
        ours.stop();
        // It stays so.
        let ours = MetaqBroker::start(&conflict.home);
        conflict.assert_closed();
        ours.stop();
        Some(conflict)
    }

    fn assert_closed(&mut self) {
        let refusal = put(&self.home, 0);
        assert!(refusal.starts_with("result 500 "), "{refusal}");
        let way_out = "metaq log resolve -f server.ini contested 0";
        assert!(refusal.contains("are set aside in ") && refusal.contains(way_out), "{refusal}");
        self.other.extend(produce(&self.home, 1, &format!("beside {}-", self.other.len()), 5));
    }

    fn assert_served(&self) {
        let expected = [&self.served[..], &self.other].concat();
        assert_same_log(&self.cluster.metaq_log("contested"), &expected);
        assert_same_log(&self.cluster.java_log_of("contested", expected.len()), &expected);
    }

    /// Resolves and asserts that both brokers take messages again and serve everything.
    fn resolve(mut self, decision: &str) -> Self {
        metaq_log_command(&self.home, &["resolve", "contested", "0", decision]);
        if decision == "--append" {
            let before = self.served.last().unwrap();
            let mut offset = before.place.offset + stored_bytes(before);
            for one in &self.in_quarantine {
                let mut moved = one.clone();
                moved.place.offset = offset;
                offset += stored_bytes(one);
                self.served.push(moved);
            }
        }
        let ours = MetaqBroker::start(&self.home);
        self.assert_served();
        self.served.extend(produce(&self.home, 0, "resolved-", 5));
        self.assert_served();
        ours.stop();
        let java = self.cluster.start_java_broker(&self.home);
        self.assert_served();
        self.served.extend(produce(&self.home, 0, "java-again-", 5));
        java.stop();
        let _ours = MetaqBroker::start(&self.home);
        self.assert_served();
        self
    }
}

#[test]
fn messages_of_a_java_broker_are_not_overwritten_by_ours_which_are_appended_on_demand() {
    let Some(conflict) = Conflict::new("append") else { return };
    conflict.resolve("--append");
}

#[test]
fn messages_of_a_java_broker_are_not_overwritten_by_ours_which_are_left_out_on_demand() {
    let Some(conflict) = Conflict::new("keep-segment") else { return };
    conflict.resolve("--keep-segment");
}

/// Puts numbered messages into one partition of the broker, be it ours or Java's.
#[track_caller]
fn produce(home: &BrokerHome, partition: u32, prefix: &str, count: usize) -> Vec<Stored> {
    let (partition, number) = (partition.to_string(), count.to_string());
    let target = ["produce", "--server", &home.address(), "--topic", "contested", "--partition", &partition];
    let lines = metaq(&[&target[..], &["--count", &number, "--payload-prefix", prefix]].concat());
    let messages: Vec<_> = (0..count).map(|i| Message::new(format!("{prefix}{i}"))).collect();
    let mut stored = acknowledged(&lines, &messages);
    // A client that was given an address does not know the broker's number.
    stored.iter_mut().for_each(|one| one.place.broker = home.id().into());
    stored
}

/// The answer to a put, as it stands on the wire.
fn put(home: &BrokerHome, partition: u32) -> String {
    let mut connection = TcpStream::connect(home.address()).unwrap();
    connection.set_read_timeout(Some(DEADLINE)).unwrap();
    write!(connection, "put contested {partition} 1 0 -1 5\r\nxquit\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

/// Bytes of a record without attribute.
fn stored_bytes(one: &Stored) -> i64 {
    20 + i64::try_from(one.message.payload.len()).unwrap()
}

fn length_of_segments(partition: &Path) -> u64 {
    fs::read_dir(partition).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}
