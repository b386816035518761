//! `metaq bench`, run as a user runs it: what it counts is what it did.

#![cfg(feature = "broker")]
// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::process::{Command, Output, Stdio};

use common::DEADLINE;
use common::in_process::{Setup, TestBroker};
use common::output::{assert_status, text};
use metaq::client::{BrokerClient, ConnectionOptions};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// A broker for commands that run in processes of their own.
struct Server {
    runtime: Runtime,
    broker: TestBroker,
}

impl Server {
    fn start() -> Self {
        Self::with(Setup { system: "maxSegmentSize=100000000", ..Setup::default() })
    }

    fn with(setup: Setup) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let broker = runtime.block_on(TestBroker::with(setup));
        Self { runtime, broker }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        bench(&self.broker.address().to_string(), arguments)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.command(&[arguments, &["--output", "json"]].concat()).output().unwrap();
        json(&output, 0)
    }

    /// Bytes of all messages of topic `test`.
    fn stored(&self) -> i64 {
        self.runtime.block_on(async {
            let address = self.broker.address().to_string();
            let client = BrokerClient::connect(&address, ConnectionOptions::default()).await.unwrap();
            let offsets = client.topic_offsets("test").await.unwrap();
            offsets.iter().map(|(_, range)| range.max.get() - range.min.get()).sum()
        })
    }
}

fn bench(address: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
    command.args(["bench", arguments[0], "--server", address, "--topic", "test"]).args(&arguments[1..]);
    command.stdin(Stdio::null()).env_remove("RUST_LOG");
    command
}

/// The only line of an output.
#[track_caller]
fn json(output: &Output, status: i32) -> Value {
    assert_status(output, status);
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    serde_json::from_str(lines[0]).unwrap()
}

/// What is told of every run, and fits together.
#[track_caller]
fn assert_figures(figures: &Value, mode: &str, count: u64) {
    assert_eq!((&figures["mode"], &figures["count"]), (&mode.into(), &count.into()), "{figures}");
    assert_eq!((&figures["refused"], &figures["interrupted"]), (&0.into(), &false.into()), "{figures}");
    for field in ["seconds", "per_second", "messages_per_second", "mb_per_second", "mean_us"] {
        assert!(figures[field].as_f64().unwrap() > 0.0, "{field} in {figures}");
    }
    let percentiles =
        ["min_us", "p50_us", "p90_us", "p99_us", "p999_us", "max_us"].map(|field| figures[field].as_u64());
    assert!(percentiles.is_sorted() && percentiles[0].is_some(), "{figures}");
    let buckets = figures["histogram"].as_array().unwrap();
    assert_eq!(buckets.iter().map(|bucket| bucket["count"].as_u64().unwrap()).sum::<u64>(), count, "{figures}");
    let (first, last) = (buckets.first().unwrap(), buckets.last().unwrap());
    assert!(first["to_us"].as_u64() > percentiles[0] && last["from_us"].as_u64() <= percentiles[5], "{figures}");
}

#[test]
fn puts_are_counted_as_they_are_stored() {
    let server = Server::start();
    let put = ["put", "--partitions", "2", "--connections", "3", "--window", "4", "--size", "80"];
    let figures = server.json(&[&put[..], &["--count", "50"]].concat());
    assert_figures(&figures, "put", 150);
    assert_eq!(figures["messages"], 150);
    assert_eq!(server.stored(), 150 * 100);

    // What warms up is stored and not counted.
    let figures = server.json(&[&put[..], &["--count", "50", "--warm-up", "0.05"]].concat());
    assert_figures(&figures, "put", 150);
    assert!(server.stored() > 300 * 100);

    let figures = server.json(&["put", "--seconds", "1"]);
    assert_figures(&figures, "put", figures["count"].as_u64().unwrap());
    assert!(figures["seconds"].as_f64().unwrap() >= 1.0);
}

#[test]
fn latency_is_that_of_single_puts() {
    let server = Server::start();
    let figures = server.json(&["latency", "--connections", "2", "--count", "30", "--size", "1"]);
    assert_figures(&figures, "put", 60);
    assert_eq!(server.stored(), 60 * 21);
}

#[test]
fn gets_read_all_partitions_again_and_again() {
    let server = Server::start();
    server.json(&["put", "--partitions", "2", "--connections", "1", "--count", "100", "--size", "80"]);
    // A partition has 5 000 bytes: three answers of 20, 20 and 10 messages.
    let get = ["get", "--partitions", "2", "--connections", "1", "--max-size", "2099"];
    let figures = server.json(&[&get[..], &["--count", "12"]].concat());
    assert_figures(&figures, "get", 12);
    assert_eq!((&figures["unit"], &figures["messages"]), (&"answers".into(), &200.into()));

    let figures = server.json(&["get", "--partitions", "2", "--connections", "3", "--seconds", "1"]);
    assert_figures(&figures, "get", figures["count"].as_u64().unwrap());
    assert_eq!(figures["messages"].as_u64().unwrap(), figures["count"].as_u64().unwrap() * 50);
}

#[test]
fn gets_that_cannot_work_say_why() {
    let server = Server::start();
    let failed = |arguments: &[&str]| {
        let output = server.command(&[&["get"], arguments].concat()).output().unwrap();
        assert_status(&output, 1);
        text(&output.stderr).to_owned()
    };
    assert!(failed(&["--partitions", "2"]).contains("put messages into topic test first"));
    server.json(&["put", "--connections", "1", "--count", "1", "--size", "80"]);
    assert!(failed(&["--max-size", "99"]).contains("raise --max-size"));
}

#[test]
fn every_message_is_seen_from_end_to_end() {
    let server = Server::start();
    let run = ["e2e", "--partitions", "2", "--rate", "2000", "--size", "40"];
    let figures = server.json(&[&run[..], &["--count", "100"]].concat());
    assert_figures(&figures, "e2e", 100);
    assert_eq!((&figures["missing"], &figures["long_poll"]), (&0.into(), &true.into()));
    assert_eq!(server.stored(), 100 * 60);

    // A second one begins behind the messages of the first.
    let figures = server.json(&[&run[..], &["--count", "100", "--warm-up", "0.02"]].concat());
    assert_figures(&figures, "e2e", 100);

    let figures = server.json(&["e2e", "--seconds", "1"]);
    assert_figures(&figures, "e2e", figures["count"].as_u64().unwrap());
}

#[test]
fn periodically_flushed_messages_are_seen_too() {
    let system = "maxSegmentSize=100000000\nunflushThreshold=1000";
    let server = Server::with(Setup { system, ..Setup::default() });
    assert_figures(&server.json(&["e2e", "--rate", "500", "--count", "50"]), "e2e", 50);
}

#[test]
fn a_broker_that_does_not_hold_gets_back_is_asked_again_and_again() {
    let server = Server::start();
    let listener = server.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    server.runtime.spawn(without_long_poll(listener, server.broker.address().to_string()));
    let output = bench(&address, &["e2e", "--count", "20", "--output", "json"]).output().unwrap();
    let figures = json(&output, 0);
    assert_figures(&figures, "e2e", 20);
    assert_eq!((&figures["missing"], &figures["long_poll"]), (&0.into(), &false.into()));
}

/// Stands before a broker, announces no extension, and ends a connection that uses one all the same.
async fn without_long_poll(listener: TcpListener, broker: String) {
    while let Ok((client, _)) = listener.accept().await {
        let broker = TcpStream::connect(&broker).await.unwrap();
        tokio::spawn(async move {
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_broker, mut to_broker) = broker.into_split();
            let mut bytes = vec![0; 1 << 16];
            let mut read = from_client.read(&mut bytes).await.unwrap_or(0);
            if bytes.starts_with(b"version ") {
                let opaque = text(&bytes[..read]).split_ascii_whitespace().nth(1).unwrap();
                to_client.write_all(format!("result 200 7 {opaque}\r\n1.4.6.2").as_bytes()).await.unwrap();
                read = from_client.read(&mut bytes).await.unwrap_or(0);
            }
            tokio::spawn(async move { tokio::io::copy(&mut from_broker, &mut to_client).await });
            // What asks for an extension is not passed on: the run ends without its messages.
            while read > 0 && !bytes[..read].windows(5).any(|bytes| bytes == b"wait=") {
                to_broker.write_all(&bytes[..read]).await.unwrap();
                read = from_client.read(&mut bytes).await.unwrap_or(0);
            }
        });
    }
}

#[test]
fn an_interruption_ends_a_run_with_what_was_measured() {
    let server = Server::start();
    for arguments in [&["put", "--seconds", "600"][..], &["e2e", "--seconds", "600"]] {
        let stored = server.stored();
        let mut command = server.command(&[arguments, &["--output", "json"]].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let deadline = std::time::Instant::now() + DEADLINE;
        while server.stored() == stored {
            assert!(std::time::Instant::now() < deadline, "nothing was put");
            std::thread::yield_now();
        }
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let figures = json(&child.wait_with_output().unwrap(), 0);
        assert!(figures["count"].as_u64().unwrap() > 0 && figures["interrupted"] == true, "{figures}");
    }
}

#[test]
fn text_has_rates_percentiles_and_a_histogram() {
    let server = Server::start();
    let output = server.command(&["put", "--connections", "1", "--count", "10"]).output().unwrap();
    assert_status(&output, 0);
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    assert!(lines[0].starts_with("10 messages in ") && lines[0].ends_with(" MB/s"), "{lines:?}");
    assert!(lines[1].starts_with("latency  p50 ") && lines[1].contains("p99.9 "), "{lines:?}");
    assert!(lines[2..].iter().any(|line| line.ends_with(&"#".repeat(40))), "{lines:?}");

    let output = server.command(&["e2e", "--count", "5"]).output().unwrap();
    assert!(text(&output.stdout).contains("\nend to end, by long poll\n"), "{}", text(&output.stdout));
}

#[test]
fn what_is_refused_and_who_is_not_there_is_told() {
    let server = Server::start();
    let topic = |topic: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
        let address = server.broker.address().to_string();
        command.args(["bench", "e2e", "--server", &address, "--topic", topic, "--count", "5", "--output", "json"]);
        command.stdin(Stdio::null()).output().unwrap()
    };
    let figures = json(&topic("nope"), 1);
    assert_eq!((&figures["count"], &figures["refused"]), (&0.into(), &5.into()), "{figures}");
    assert!(figures["first_refusal"].as_str().unwrap().contains("do not accept topic nope"), "{figures}");
    assert_eq!(figures["histogram"], serde_json::json!([]));

    let nobody = format!("127.0.0.1:{}", common::zookeeper::free_port());
    let output = bench(&nobody, &["put", "--count", "1"]).output().unwrap();
    assert_status(&output, 1);
    assert!(text(&output.stderr).contains(&format!("cannot connect to {nobody}")), "{}", text(&output.stderr));
}

#[test]
fn arguments_that_make_no_sense_are_wrong_use() {
    for arguments in [
        &["e2e", "--size", "15"][..],
        &["e2e", "--rate", "0"],
        &["put", "--seconds", "1", "--count", "1"],
        &["put", "--seconds", "nan"],
        &["put", "--window", "65536"],
        &["get", "--warm-up", "-1"],
    ] {
        assert_status(&bench("127.0.0.1:1", arguments).output().unwrap(), 2);
    }
}
