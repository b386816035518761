//! A data directory that our broker and the reference's hand to each other.

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
