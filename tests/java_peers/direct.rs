//! One broker and one client that know nothing but each other's address.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::json;

use crate::common::broker::MetaqBroker;
use crate::messages::{Message, Stored, acknowledged, assert_same_log};
use crate::rig::{Cluster, metaq};

#[test]
fn our_command_line_works_with_a_java_broker() {
    let Some(cluster) = Cluster::new("command-line") else { return };
    let home = cluster.home(3, &[("lines", "numPartitions=2"), ("load", "numPartitions=2")]);
    let _broker = cluster.start_java_broker(&home);
    let address = home.address();

    let produce = |partition: &str| {
        let count = ["--count", "20", "--size", "1000"];
        let target = ["produce", "--server", &address, "--topic", "lines", "--partition", partition];
        let lines = metaq(&[&target[..], &count].concat());
        let messages: Vec<_> = (0..20).map(|i| Message::new(format!("{:.<1000}", format!("m-{i}")))).collect();
        acknowledged(&lines, &messages)
    };
    let sent = [produce("0"), produce("1")].concat();
    let lines = metaq(&["consume", "--server", &address, "--topic", "lines", "--payload", "base64"]);
    let read: Vec<_> = lines.iter().filter(|line| line["ok"] == true).map(Stored::delivered).collect();
    assert_same_log(&read, &sent);

    let own = metaq(&["stats", "--server", &address]);
    assert!(own[0]["broker_id"] == 3 && own[0]["cmd_put"] == 40, "{own:?}");
    let topics = metaq(&["topics", "list", "--server", &address]);
    assert!(topics.iter().any(|topic| topic["topic"] == "lines" && topic["partitions"] == 2), "{topics:?}");
    let partitions = metaq(&["topics", "describe", "lines", "--server", &address]);
    assert_eq!(partitions.iter().map(|partition| &partition["max_offset"]).collect::<Vec<_>>(), [20_400, 20_400]);

    for work in ["put", "get"] {
        let load = ["bench", work, "--topic", "load", "--partitions", "2", "--connections", "2", "--seconds", "1"];
        let figures = metaq(&[&load[..], &["--server", &address]].concat());
        assert_eq!(figures[0]["refused"], 0, "{figures:?}");
        assert!(figures[0]["count"].as_u64().unwrap() > 0, "{figures:?}");
    }
}

#[test]
fn heartbeats_keep_the_connection_of_an_idle_java_client() {
    let Some(cluster) = Cluster::new("heartbeat") else { return };
    let home = cluster.home(0, &[("idle", "")]);
    let _broker = MetaqBroker::start(&home);
    let relay = Relay::start(home.address());

    // The client sends a heartbeat after ten seconds of silence. It would drop a connection only after three that were
    // not answered, so what counts is the answer.
    let options = json!({ "topic": "idle", "count": 2, "intervalMs": 12_500 });
    let answers = cluster.java_direct("produce", &relay.address, options).finish();
    assert!(answers.iter().all(|line| line["ok"] == true), "{answers:?}");

    let (connections, sent, received) = relay.seen();
    assert_eq!(connections, 1, "the second message took the same connection");
    // Nothing ends a payload, so either begins anywhere.
    let heartbeat = sent.split("version ").nth(1).expect("a heartbeat").lines().next().unwrap();
    let answers: Vec<_> = received.split("result ").filter_map(|answer| answer.lines().next()).collect();
    let answered = |line: &&str| line.starts_with("200 ") && line.ends_with(&format!(" {heartbeat}"));
    assert!(answers.iter().any(answered), "heartbeat {heartbeat} was not answered well: {answers:?}");
}

/// Passes connections on and notes what went through.
struct Relay {
    address: String,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    connections: usize,
    sent: Vec<u8>,
    received: Vec<u8>,
}

impl Relay {
    fn start(to: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::<Mutex<Seen>>::default();
        let notes = Arc::clone(&seen);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let Ok(broker) = TcpStream::connect(&to) else { continue };
                notes.lock().unwrap().connections += 1;
                let (client_too, broker_too) = (client.try_clone().unwrap(), broker.try_clone().unwrap());
                pass(client, broker, Arc::clone(&notes), |seen| &mut seen.sent);
                pass(broker_too, client_too, Arc::clone(&notes), |seen| &mut seen.received);
            }
        });
        Self { address, seen }
    }

    /// The number of connections, and all that went through in both directions.
    fn seen(&self) -> (usize, String, String) {
        let seen = self.seen.lock().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (seen.connections, text(&seen.sent), text(&seen.received))
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, notes: Arc<Mutex<Seen>>, side: fn(&mut Seen) -> &mut Vec<u8>) {
    thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            side(&mut notes.lock().unwrap()).extend_from_slice(&buffer[..count]);
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        // Either side may be gone already.
        let _ = to.shutdown(Shutdown::Both);
    });
}
