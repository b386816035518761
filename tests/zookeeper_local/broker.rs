//! `metaq broker -l`: what it refuses, that it registers, and what kills leave.

use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use metaq::broker::{Broker, BrokerOptions};
use metaq::zk::Coordinator;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::common::eventually;
use crate::common::in_process::{Setup, config};
use crate::common::process::Process;
use crate::common::raw::Raw;
use crate::common::zookeeper::free_port;
use crate::raw::{Client, body, connect_request, create};
use crate::rig::{session_of, tree, zookeeper};

const LOCAL: BrokerOptions = BrokerOptions { local: true };

struct Site {
    dir: TempDir,
    /// Of the ZooKeeper.
    port: u16,
    /// Of the broker: one with another address would be another broker with the same id.
    server_port: u16,
}

impl Site {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), port: free_port(), server_port: free_port() }
    }

    fn start(&self) -> Process {
        let ini = self.dir.path().join("server.ini");
        let data = self.dir.path().join("data");
        let text = format!(
            "[system]\nbrokerId=3\nserverPort={}\ndashboardHttpPort=0\nnumPartitions=1\nunflushThreshold=0\n\
             unflushInterval=10000\nmaxSegmentSize=1048576\nmaxTransferSize=1048576\ndataPath={}\n\
             [zookeeper]\nzk.zkConnect=127.0.0.1:{}/some/where\n[topic=test]\nnumPartitions=2\n",
            self.server_port,
            data.display(),
            self.port
        );
        std::fs::write(&ini, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
        command.args(["broker", "-l", "-f"]).arg(ini).env("RUST_LOG", "info");
        let process = Process::start("the broker", &mut command, None);
        process.wait_for_line("registration state=registered in ZooKeeper");
        process
    }

    fn files(&self) -> PathBuf {
        self.dir.path().join("data/transactions/zookeeper")
    }
}

#[tokio::test]
async fn what_local_mode_cannot_serve_is_refused_before_anything_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    for (enable, connect, parts) in [
        (true, "localhost:2181,localhost:2182", ["names several", "start without -l"]),
        (true, "zk.example.com:2181", ["names zk.example.com:2181", "start without -l"]),
        (false, "localhost:2181", ["zk.zkEnable=false", "bindAddress=127.0.0.1"]),
    ] {
        let mut config = config(&dir, &Setup::default());
        config.zookeeper.enable = enable;
        config.zookeeper.connect = connect.to_owned();
        let error = Broker::start(config, LOCAL).await.unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    assert!(!dir.path().join("data").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_port_or_damaged_files_refuse_the_start_and_free_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let local = |port: u16| {
        let mut config = config(&dir, &Setup::default());
        config.zookeeper.enable = true;
        config.zookeeper.connect = format!("127.0.0.1:{port}");
        config
    };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let error = Broker::start(local(taken.local_addr().unwrap().port()), LOCAL).await.unwrap_err().to_string();
    assert!(error.contains("the ZooKeeper of local mode cannot listen on 127.0.0.1:"), "{error}");
    let log = dir.path().join("data/transactions/zookeeper/log");
    Broker::start(local(free_port()), LOCAL).await.unwrap().stop(CancellationToken::new()).await.unwrap();
    let good = std::fs::read(&log).unwrap();
    std::fs::write(&log, [&good[..10], b"?", &good[11..]].concat()).unwrap();
    let error = Broker::start(local(free_port()), LOCAL).await.unwrap_err().to_string();
    assert!(error.contains(&log.display().to_string()) && error.contains("is damaged"), "{error}");
    std::fs::write(&log, good).unwrap();
    Broker::start(local(free_port()), LOCAL).await.unwrap().stop(CancellationToken::new()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_registers_below_a_directory_serves_this_machine_only_and_leaves_when_it_stops() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(&dir, &Setup::default());
    config.metaq.bind_address = "0.0.0.0".parse().unwrap();
    config.system.host_name = None;
    config.zookeeper.enable = true;
    config.zookeeper.sync_time_ms = 60_000;
    let connect = format!("127.0.0.1:{}", free_port());
    config.zookeeper.connect = format!("{connect}/some/where");
    let broker = Broker::start(config, LOCAL).await.unwrap();
    broker.registered().await.unwrap();
    assert!(broker.address().ip().is_loopback());
    assert_eq!(broker.url().host(), "127.0.0.1");
    let observer = zookeeper(&connect, Duration::from_secs(4));
    session_of(&*observer).await;
    let master = "/some/where/meta/brokers/ids/0/master";
    assert_eq!(observer.get(master).await.unwrap().data, broker.url().to_string().as_bytes());
    assert!(observer.exists("/some/where/meta/brokers/topics-pub/test/0-m").await.unwrap().is_some());
    Raw::connect(broker.address()).await.put("test", 0, b"hello").await;
    let (_, gone) = observer.watch_exists(master).await.unwrap();
    let stop = tokio::spawn(broker.stop(CancellationToken::new()));
    // Clients hear of it while the server still serves, and the pause is not the one of a cluster.
    gone.await;
    assert_eq!(observer.exists(master).await, Ok(None));
    tokio::time::timeout(crate::common::DEADLINE, stop).await.unwrap().unwrap().unwrap();
    assert!(observer.session().borrow().connected().is_none() || eventually_lost(&*observer).await);
}

async fn eventually_lost(observer: &dyn Coordinator) -> bool {
    let mut states = observer.session();
    let lost = states.wait_for(|state| state.connected().is_none());
    tokio::time::timeout(crate::common::DEADLINE, lost).await.is_ok()
}

#[test]
fn a_kill_takes_nothing_that_was_answered_and_the_next_process_registers_at_once() {
    let site = Site::new();
    let mut broker = site.start();
    let mut expected = Vec::new();
    for round in 0..3 {
        let (sender, receiver) = channel();
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let sender = sender.clone();
                let mut client = Client::open(site.port);
                std::thread::spawn(move || {
                    for i in 0.. {
                        let path = format!("/{round}-{writer}-{i}");
                        client.send(1, &create(&path, b"data", 0));
                        match client.next() {
                            Some(answer) if answer.error == 0 => sender.send(path).unwrap(),
                            _ => return,
                        }
                    }
                })
            })
            .collect();
        drop(sender);
        // In the middle of the load.
        expected.extend(receiver.iter().take(300));
        broker.kill();
        // Killed while a write was sent, a writer may see an error of its socket.
        writers.into_iter().for_each(|writer| _ = writer.join());
        broker = site.start();
        let mut client = Client::open(site.port);
        for path in &expected {
            assert!(client.stat(path).is_some(), "{path} was answered and is gone");
        }
    }
    assert!(broker.terminate().success());
    let names: Vec<_> = std::fs::read_dir(site.files()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["log"], "nothing is left lying about");
    let output = Command::new(env!("CARGO_BIN_EXE_metaq"))
        .args(["log", "dump", "-f"])
        .arg(site.dir.path().join("server.ini"))
        .output()
        .unwrap();
    assert!(output.status.success(), "the log of messages does not mind: {output:?}");
}

/// Time in which the process does not run, on a machine that sleeps or is overloaded, is not the clients' silence.
#[test]
fn sessions_live_through_a_time_in_which_the_server_could_not_hear_them() {
    let site = Site::new();
    let broker = site.start();
    let mut client = Client::with(site.port, connect_request(2_000, 0, &[0; 16]));
    client.ask(1, &create("/mine", b"", 1)).good();
    broker.signal("STOP");
    std::thread::sleep(Duration::from_millis(3_000));
    client.send_as(-2, 11, &body());
    broker.signal("CONT");
    assert_eq!(client.next().expect("still connected").xid, -2);
    assert!(client.stat("/mine").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tree_is_the_one_that_any_zookeeper_would_hold() {
    let site = Site::new();
    let mut broker = tokio::task::block_in_place(|| site.start());
    let observer = zookeeper(&format!("127.0.0.1:{}/some/where", site.port), Duration::from_secs(4));
    session_of(&*observer).await;
    let nodes = tree(&*observer, "/meta").await.unwrap();
    let paths: Vec<_> = nodes.keys().map(String::as_str).filter(|path| path.contains("/test/")).collect();
    let expected = ["topics-pub", "topics-sub", "topics"].map(|tree| format!("/meta/brokers/{tree}/test/3-m"));
    assert_eq!(paths, expected);
    assert_eq!(nodes[&expected[0]].data, br#"{"numParts":2,"broker":"3-m"}"#);
    let restarted = tokio::task::block_in_place(|| {
        broker.kill();
        site.start()
    });
    // The session of the observer goes on, and what it sees is the new broker's.
    eventually("the nodes are the new broker's", || async {
        let now = tree(&*observer, "/meta").await.map_err(|error| error.to_string())?;
        let owner = |nodes: &std::collections::BTreeMap<_, metaq::zk::Node>| nodes[&expected[0]].stat.ephemeral_owner;
        if owner(&now) == owner(&nodes) { Err("they are the old one's".to_owned()) } else { Ok(()) }
    })
    .await;
    drop(restarted);
}
