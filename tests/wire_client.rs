//! The broker's side of a recorded conversation with a consumer, replayed to a member of a group: it is handed what the
//! reference's client logged (01 §15). Those with producers are in `client_producer.rs`.

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

use std::process::Command;

use common::output::{assert_status, json_lines};
use logged::Received;
use metaq::protocol::Request;
use script::Script;
use scripted::ScriptedBroker;
use tree::Tree;

#[test]
fn a_member_of_a_group_is_handed_what_the_reference_was_handed() {
    let broker = ScriptedBroker::start(Script::of("03-receive-10.jsonl"));
    let tree = Tree::with(broker.address(), "test", 10);
    let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
    command.args(["consume", "--zk", &tree.connect_string(), "--topic", "test", "--group", "g1", "--output", "json"]);
    command.args(["--idle-ms", "1500", "--max-delay-ms", "500"]);
    let output = command.output().unwrap();
    assert_eq!(broker.unexpected(), Vec::<Request>::new(), "requests other than gets at the ends of messages");
    assert_status(&output, 0);
    let lines = json_lines(&output);
    let mut received: Vec<_> = lines.iter().filter(|line| line["ok"] == true).map(Received::of_line).collect();
    // Partitions come in any order.
    received.sort();
    let mut expected = logged::received("03-receive-10");
    expected.sort();
    assert_eq!(received, expected);
    // The reference went on asking at the ends, and so did this.
    assert!(broker.answered() > received.len() * 2, "{} gets", broker.answered());
}
