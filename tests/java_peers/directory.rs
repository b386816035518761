//! A data directory that our broker and the reference's hand to each other.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::DEADLINE;
use crate::common::broker::{BrokerHome, MetaqBroker};
use crate::common::java::JavaBroker;
use crate::messages::{Message, Stored, assert_same_log};
use crate::rig::Cluster;

/// What one broker after the other adds to, and what must be there.
struct Directory {
    cluster: Cluster,
    home: BrokerHome,
    small: Vec<Stored>,
    large: Vec<Stored>,
    turns: usize,
}

enum Running {
    Ours(MetaqBroker),
    Java(JavaBroker),
}

impl Directory {
    fn new(name: &str) -> Option<Self> {
        let cluster = Cluster::new(name)?;
        // Segments of about a dozen messages. The reference's broker does not show large messages to consumers of a
        // topic with group commit, hence the flush by time.
        let topics = [("small", "numPartitions=3"), ("large", "unflushThreshold=1\nunflushInterval=100")];
        let home = cluster.home_with(0, "maxSegmentSize=8192", &topics);
        Some(Self { cluster, home, small: Vec::new(), large: Vec::new(), turns: 0 })
    }

    fn ours(&mut self) -> Running {
        Running::Ours(MetaqBroker::start(&self.home)).also(|| self.take_turn())
    }

    fn java(&mut self) -> Running {
        Running::Java(self.cluster.start_java_broker(&self.home)).also(|| self.take_turn())
    }

    /// The broker of this turn serves all that there is, takes more, and serves that, too.
    fn take_turn(&mut self) {
        self.assert_complete();
        self.turns += 1;
        let sizes = [0, 1, 700, 4096, 0, 1, 700, 4096, 0, 1, 700, 4096];
        let message = |(i, size): (usize, usize)| Message {
            attribute: [None, Some(""), Some("Größe ⇄")][i / 4].map(str::to_owned),
            payload: format!("{:\n<size$.size$}", format!("turn {} message {i}", self.turns)).into_bytes(),
        };
        let messages: Vec<_> = sizes.into_iter().enumerate().map(message).collect();
        self.small.extend(self.cluster.java_produce("small", &messages));
        self.large.extend(self.cluster.java_produce("large", &[Message::new(vec![b'x'; 1 << 20]), Message::new("y")]));
        self.assert_complete();
    }

    /// The hand-overs were about more than one file.
    fn assert_segments(&self) {
        for partition in 0..3 {
            let segments = std::fs::read_dir(self.home.data().join(format!("small-{partition}"))).unwrap().count();
            assert!(segments > 1, "segments of partition {partition}");
        }
    }

    fn assert_complete(&self) {
        for (topic, expected) in [("small", &self.small), ("large", &self.large)] {
            if !expected.is_empty() {
                assert_same_log(&self.cluster.java_log_of(topic, expected.len()), expected);
            }
        }
    }
}

impl Running {
    fn also(self, turn: impl FnOnce()) -> Self {
        turn();
        self
    }

    fn stop(self) {
        match self {
            Self::Ours(broker) => broker.stop(),
            Self::Java(broker) => broker.stop(),
        }
    }

    fn kill(self) {
        match self {
            Self::Ours(broker) => broker.kill(),
            Self::Java(broker) => broker.kill(),
        }
    }
}

#[test]
fn a_java_broker_serves_and_continues_what_ours_wrote_and_ours_what_it_wrote() {
    let Some(mut directory) = Directory::new("directory") else { return };
    directory.ours().stop();
    directory.java().stop();
    directory.ours().stop();
    directory.java().kill();
    directory.ours().stop();
    directory.java().stop();
    directory.assert_segments();
}

#[test]
fn ours_continues_what_a_java_broker_began_and_what_a_crash_of_either_left() {
    let Some(mut directory) = Directory::new("crash") else { return };
    directory.java().kill();
    directory.ours().kill();
    directory.ours().stop();
    directory.java().stop();
    directory.assert_segments();
}

/// Offsets in the names of the files of partition 0 that end in a suffix.
fn offsets(home: &BrokerHome, topic: &str, suffix: &str) -> Vec<i64> {
    let entries = std::fs::read_dir(home.data().join(format!("{topic}-0"))).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut offsets: Vec<_> = names.filter_map(|name| name.strip_suffix(suffix)?.parse().ok()).collect();
    offsets.sort_unstable();
    offsets
}

#[test]
fn a_java_broker_serves_a_directory_with_archives_of_ours() {
    let Some(cluster) = Cluster::new("archives") else { return };
    const ARCHIVE: &str = "deletePolicy=archive,1s,true\ndeleteWhen=* * * * * ?\n";
    let topics = [("zipped", ARCHIVE), ("renamed", "deletePolicy=archive,1s\ndeleteWhen=* * * * * ?\n")];
    let home = cluster.home_with(0, "maxSegmentSize=1000", &topics);
    let broker = MetaqBroker::start(&home);
    let mut stored = Vec::new();
    for (topic, suffix) in [("zipped", ".meta.zip"), ("renamed", ".meta.arc")] {
        stored.push(cluster.metaq_produce(topic, &format!("a message of some length for {topic} "), 100));
        let started = Instant::now();
        while offsets(&home, topic, ".meta").len() > 1 || offsets(&home, topic, suffix).is_empty() {
            assert!(started.elapsed() < DEADLINE, "segments of {topic} stay");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    broker.stop();
    // The Java broker obeys the policy as well; here it is to leave the rest alone.
    let ini = std::fs::read_to_string(home.ini()).unwrap().replace("deleteWhen=* * * * * ?", "deleteWhen=0 0 0 1 1 ?");
    std::fs::write(home.ini(), ini).unwrap();
    let broker = cluster.start_java_broker(&home);
    for (topic, stored) in ["zipped", "renamed"].iter().zip(stored) {
        let message = Message::new(format!("more of {topic}"));
        let more = cluster.java_produce(topic, &[message]);
        // What is in archives is no longer served; the rest is, to its end.
        let first = offsets(&home, topic, ".meta")[0];
        let lines = cluster.java("get", json!({ "topic": topic, "partition": "0-0", "offset": first })).finish();
        let log: Vec<_> = lines.iter().map(Stored::delivered).collect();
        let expected = [stored, more].concat();
        assert!((1..expected.len()).contains(&log.len()), "{} messages from {first} on", log.len());
        assert_same_log(&log, &expected[expected.len() - log.len()..]);
    }
    broker.stop();
}
