//! The broker's side of recorded conversations, replayed to our command line, which is our client library: what it prints
//! is what the reference's client logged (01 §15).

#![cfg(feature = "broker")]
// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

#[path = "wire_client/script.rs"]
mod script;

#[path = "wire_client/scripted.rs"]
mod scripted;

#[path = "wire_client/logged.rs"]
mod logged;

#[path = "wire_client/tree.rs"]
mod tree;

use std::process::{Command, Output};

use common::output::{assert_status, json_lines};
use logged::Logged;
use metaq::protocol::Request;
use script::Script;
use scripted::ScriptedBroker;
use tree::Tree;

/// Runs our command line against a scripted broker of the recording's partitions.
fn metaq(broker: &ScriptedBroker, arguments: &[&str]) -> Output {
    let tree = Tree::with(broker.address(), &[("test", 10), ("meta-test", 4)]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
    command.args(arguments).args(["--zk", &tree.connect_string(), "--output", "json"]);
    command.output().unwrap()
}

/// Sends what the recorded producer sent.
fn produce(recording: &str, topic: &str, options: &[&str]) {
    let script = Script::of(&format!("{recording}.jsonl"));
    let payloads = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(payloads.path(), script.payloads().join("\n")).unwrap();
    let broker = ScriptedBroker::start(script);
    let fixed = ["produce", "--topic", topic, payloads.path().to_str().unwrap()];
    let output = metaq(&broker, &[&fixed, options].concat());
    assert_eq!(broker.unexpected(), Vec::<Request>::new(), "requests that the reference did not send");
    assert_status(&output, 0);
    let lines = json_lines(&output);
    let results = lines.iter().filter(|line| !line["i"].is_null()).map(Logged::of_line).collect::<Vec<_>>();
    assert_eq!(results, logged::sends(recording));
}

#[test]
fn a_producer_sends_what_the_reference_sent_and_tells_what_it_told() {
    produce("01-send-10", "test", &[]);
}

#[test]
fn so_does_one_that_sends_attributes() {
    produce("02-send-attribute", "meta-test", &["--attribute", "myattr"]);
}

#[test]
fn a_member_of_a_group_is_handed_what_the_reference_was_handed() {
    let broker = ScriptedBroker::start(Script::of("03-receive-10.jsonl"));
    let options = ["--topic", "test", "--group", "g1", "--idle-ms", "1500", "--max-delay-ms", "500"];
    let output = metaq(&broker, &[&["consume"], &options[..]].concat());
    assert_eq!(broker.unexpected(), Vec::<Request>::new(), "requests other than gets at the ends of messages");
    assert_status(&output, 0);
    let lines = json_lines(&output);
    let mut received: Vec<_> = lines.iter().filter(|line| line["ok"] == true).map(Logged::of_line).collect();
    // Partitions come in any order.
    received.sort();
    let mut expected = logged::receipts("03-receive-10");
    expected.sort();
    assert_eq!(received, expected);
}
