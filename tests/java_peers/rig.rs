//! What the tests share: one ZooKeeper and one Java client for all that run at the same time, a tree of its own for each.

use std::process::Command;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use serde_json::{Value, json};

use crate::clients::{Member, Stream};
use crate::common::DEADLINE;
use crate::common::broker::BrokerHome;
use crate::common::group::{Members, Subject};
use crate::common::java::{Java, JavaBroker, JavaClient, JavaCommand};
use crate::common::zookeeper::{Ensemble, free_port};
use crate::messages::{Message, Stored, acknowledged};

/// Largest record that the brokers hand out (`BrokerHome`), and that the clients ask for.
const MAX_SIZE: u32 = 1_114_112;

pub(crate) struct Rig {
    java: Java,
    client: JavaClient,
    zookeeper: Ensemble,
}

/// Ends with the last test that uses it, so that no process outlives the tests.
static SHARED: Mutex<Weak<Rig>> = Mutex::new(Weak::new());

impl Rig {
    /// `None`, and a line that says so, where something is not installed.
    fn shared() -> Option<Arc<Self>> {
        let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(rig) = shared.upgrade() {
            return Some(rig);
        }
        let java = Java::build()?;
        let mut zookeeper = Ensemble::prepare(1)?;
        let client = JavaClient::start(&java);
        zookeeper.start_all();
        let rig = Arc::new(Self { java, client, zookeeper });
        *shared = Arc::downgrade(&rig);
        Some(rig)
    }
}

/// Brokers and clients that know of each other: all that is below one node of the ZooKeeper.
pub(crate) struct Cluster {
    rig: Arc<Rig>,
    zk_connect: String,
    root: String,
}

impl Cluster {
    /// `None`, and a line that says so, where Java, Maven or ZooKeeper is not installed.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let rig = Rig::shared()?;
        Some(Self { zk_connect: rig.zookeeper.connect_string(), rig, root: format!("/{name}") })
    }

    /// Of one broker in local mode, which is the ZooKeeper too.
    pub(crate) fn local() -> Option<Self> {
        let zk_connect = format!("127.0.0.1:{}", free_port());
        Some(Self { rig: Rig::shared()?, zk_connect, root: "/meta".to_owned() })
    }

    /// A Java client in a process of its own, which can be killed.
    pub(crate) fn another_java_client(&self) -> JavaClient {
        JavaClient::start(&self.rig.java)
    }

    /// Configuration and directories of a broker, see [`BrokerHome::new`].
    pub(crate) fn home(&self, id: u32, topics: &[(&str, &str)]) -> BrokerHome {
        self.home_with(id, "", topics)
    }

    /// As [`home`](Self::home), with further lines for the section `[system]`.
    pub(crate) fn home_with(&self, id: u32, system: &str, topics: &[(&str, &str)]) -> BrokerHome {
        BrokerHome::new(id, &self.zk_connect, &self.root, system, topics)
    }

    pub(crate) fn start_java_broker(&self, home: &BrokerHome) -> JavaBroker {
        JavaBroker::start(&self.rig.java, home)
    }

    /// See [`JavaBroker::start_after_kill`].
    pub(crate) fn start_java_broker_after_kill(&self, home: &BrokerHome) -> JavaBroker {
        JavaBroker::start_after_kill(&self.rig.java, home)
    }

    /// A command of the Java client in this cluster.
    pub(crate) fn java(&self, command: &str, options: Value) -> JavaCommand<'_> {
        self.java_by(&self.rig.client, command, options)
    }

    fn java_by<'a>(&self, client: &'a JavaClient, command: &str, mut options: Value) -> JavaCommand<'a> {
        options["zk"] = self.zk_connect.as_str().into();
        options["zkRoot"] = self.root.as_str().into();
        options["maxSize"] = MAX_SIZE.into();
        client.command(command, options)
    }

    /// A command of the Java client that knows nothing but one broker.
    pub(crate) fn java_direct(&self, command: &str, address: &str, mut options: Value) -> JavaCommand<'_> {
        options["server"] = format!("meta://{address}").into();
        self.rig.client.command(command, options)
    }

    /// Sends with the Java client; every message must be stored.
    pub(crate) fn java_produce(&self, topic: &str, messages: &[Message]) -> Vec<Stored> {
        let json: Vec<_> = messages.iter().map(Message::to_json).collect();
        let answers = self.java("produce", json!({ "topic": topic, "messages": json })).finish();
        acknowledged(&answers, messages)
    }

    /// Starts a Java producer that goes on until it is stopped.
    pub(crate) fn java_stream(&self, topic: &str, prefix: &str) -> Stream<'_> {
        let options = json!({ "topic": topic, "prefix": prefix, "intervalMs": 3 });
        Stream::new(self.java("produce", options), prefix)
    }

    /// Starts a Java consumer and waits until it has subscribed.
    pub(crate) fn java_consume(&self, topic: &str, group: &str) -> Member<'_> {
        self.java_consume_by(&self.rig.client, topic, group)
    }

    /// The same in another process.
    pub(crate) fn java_consume_by<'a>(&self, client: &'a JavaClient, topic: &str, group: &str) -> Member<'a> {
        let options = json!({ "topic": topic, "group": group, "commitMs": 200 });
        Member::subscribed(self.java_by(client, "consume", options))
    }

    /// What a run or a group of ours is about.
    pub(crate) fn subject(&self, topic: &str, group: &str) -> Subject {
        let [zk_connect, zk_root] = [&self.zk_connect, &self.root].map(String::clone);
        Subject { zk_connect, zk_root, topic: topic.to_owned(), group: group.to_owned() }
    }

    /// Members of ours, none yet.
    pub(crate) fn rust_members(&self, topic: &str, group: &str) -> Members {
        Members::new(self.subject(topic, group), &["--max-size", &MAX_SIZE.to_string()])
    }

    /// Starts a Java member of a group with a name of its own; the shared client's if no other is given.
    pub(crate) fn java_member<'a>(
        &'a self,
        client: Option<&'a JavaClient>,
        subject: &Subject,
        name: &str,
    ) -> JavaCommand<'a> {
        let options = json!({ "topic": subject.topic, "group": subject.group, "consumerId": name });
        self.java_by(client.unwrap_or(&self.rig.client), "consume", options)
    }

    /// Waits until Java producers find so many partitions.
    pub(crate) fn await_partitions(&self, topic: &str, count: usize) {
        let started = Instant::now();
        loop {
            let partitions = self.java_partitions(topic);
            if partitions.len() == count {
                return;
            }
            assert!(started.elapsed() < DEADLINE, "partitions of {topic}: {partitions:?}");
        }
    }

    /// The whole log of a topic, read by the Java client.
    pub(crate) fn java_log(&self, topic: &str) -> Vec<Stored> {
        let mut log = Vec::new();
        for partition in self.java_partitions(topic) {
            let lines = self.java("get", json!({ "topic": topic, "partition": partition })).finish();
            log.extend(lines.iter().map(Stored::delivered));
        }
        log
    }

    /// The log once it has so many messages, or more. A message in a topic that is flushed by time is not visible at once.
    pub(crate) fn java_log_of(&self, topic: &str, count: usize) -> Vec<Stored> {
        let started = Instant::now();
        loop {
            let log = self.java_log(topic);
            if log.len() >= count || started.elapsed() > DEADLINE {
                return log;
            }
        }
    }

    /// The partitions that a Java producer finds, in the form `0-1`.
    pub(crate) fn java_partitions(&self, topic: &str) -> Vec<String> {
        let lines = self.java("partitions", json!({ "topic": topic })).finish();
        lines[0]["partitions"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    }

    /// The whole log of a topic, read by `metaq consume`.
    pub(crate) fn metaq_log(&self, topic: &str) -> Vec<Stored> {
        let max_size = MAX_SIZE.to_string();
        let lines = self.metaq(&["consume", "--topic", topic, "--payload", "base64", "--max-size", &max_size]);
        lines.iter().filter(|line| line["ok"] == true).map(Stored::delivered).collect()
    }

    /// Sends numbered messages with `metaq produce`.
    pub(crate) fn metaq_produce(&self, topic: &str, prefix: &str, count: usize) -> Vec<Stored> {
        let lines =
            self.metaq(&["produce", "--topic", topic, "--count", &count.to_string(), "--payload-prefix", prefix]);
        let messages: Vec<_> = (0..count).map(|i| Message::new(format!("{prefix}{i}"))).collect();
        acknowledged(&lines, &messages)
    }

    fn metaq(&self, arguments: &[&str]) -> Vec<Value> {
        metaq(&[arguments, &["--zk", &self.zk_connect, "--zk-root", &self.root]].concat())
    }
}

/// Runs our command line, which must succeed, and returns the lines that it prints.
pub(crate) fn metaq(arguments: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_metaq")).args(arguments).args(["--output", "json"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "metaq {arguments:?} failed: {told}; it printed\n{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
