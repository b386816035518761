//! The real process: HUP, and what ZooKeeper shows.

use std::fs;
use std::process::Command;
use std::time::Duration;

use metaq::zk::{Coordinator, CoordinatorError, Node, ZooKeeper, ZooKeeperOptions, connected};

use crate::common::broker::BrokerHome;
use crate::common::process::Process;
use crate::common::raw::Raw;
use crate::common::zookeeper::Ensemble;
use crate::common::{DEADLINE, eventually};

async fn node(zookeeper: &ZooKeeper, path: &str) -> Option<Node> {
    match zookeeper.get(path).await {
        Ok(node) => Some(node),
        Err(CoordinatorError::NoNode { .. }) => None,
        Err(error) => panic!("{path}: {error}"),
    }
}

fn change(home: &BrokerHome, from: &str, to: &str) {
    let text = fs::read_to_string(home.ini()).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(home.ini(), text.replace(from, to)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hup_reloads_and_zookeeper_shows_what_changed_and_nothing_else_is_touched() {
    let Some(ensemble) = Ensemble::single() else { return };
    let topics = [("kept", "numPartitions=2"), ("grown", "numPartitions=2"), ("gone", "numPartitions=1")];
    let home = BrokerHome::new(0, &ensemble.connect_string(), "/meta", "", &topics);
    let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
    command.args(["broker", "-f"]).arg(home.ini()).env("RUST_LOG", "info");
    let mut broker = Process::start("the broker", &mut command, None);
    broker.wait_for_line("READY ");
    broker.wait_for_line("nodes in zookeeper brought up to date");
    let address = home.address().parse().unwrap();
    Raw::connect(address).await.put("gone", 0, b"still to be read").await;

    let connect = ensemble.connect_string().parse().unwrap();
    let zookeeper = ZooKeeper::start(ZooKeeperOptions { connect, session_timeout: Duration::from_secs(6) });
    connected(&zookeeper, DEADLINE).await.unwrap();
    let path = |tree: &str, topic: &str| format!("/meta/brokers/{tree}/{topic}/0-m");
    let kept = node(&zookeeper, &path("topics-sub", "kept")).await.unwrap();
    let id = node(&zookeeper, "/meta/brokers/ids/0/master").await.unwrap();

    change(&home, "[topic=grown]\nnumPartitions=2", "[topic=grown]\nnumPartitions=5\nacceptPublish=false");
    change(&home, "[topic=gone]\nnumPartitions=1", "[topic=new]\nnumPartitions=3");
    broker.signal("HUP");
    broker.wait_for_line("configuration reloaded");
    let checksum = crc32fast::hash(&fs::read(home.ini()).unwrap()).to_string();
    eventually("the tree follows the file", async || {
        let mut seen = Vec::new();
        for path in [
            "/meta/brokers/ids/0/master_config_checksum".to_owned(),
            path("topics", "grown"),
            path("topics-pub", "grown"),
            path("topics-sub", "grown"),
            path("topics-sub", "gone"),
            path("topics-pub", "new"),
        ] {
            let data = node(&zookeeper, &path).await.map(|node| String::from_utf8(node.data).unwrap());
            seen.push(data.unwrap_or_default());
        }
        let json = |count: u32| format!(r#"{{"numParts":{count},"broker":"0-m"}}"#);
        let wanted = [checksum.clone(), "5".to_owned(), String::new(), json(5), String::new(), json(3)];
        if seen == wanted { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
    let created = |node: Option<Node>| node.map(|node| (node.stat.created, node.stat.version));
    assert_eq!(created(node(&zookeeper, &path("topics-sub", "kept")).await), created(Some(kept)));
    assert_eq!(created(node(&zookeeper, "/meta/brokers/ids/0/master").await), created(Some(id)));
    assert!(Raw::connect(address).await.get("gone", 0, 0).await.is_some());

    // A file that is wrong is told of in the log, and nobody ends.
    change(&home, "[topic=new]", "[topic=new]\nnumPartitons=1");
    broker.signal("HUP");
    let refusal = broker.wait_for_line("Reload config failed");
    assert!(refusal.contains("everything goes on as before"), "{refusal}");
    assert_eq!(Raw::connect(address).await.put("new", 0, b"m").await, 0);
    assert!(broker.terminate().success());
}
