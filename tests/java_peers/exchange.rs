//! Messages between Java and Rust clients through one broker, ours or the reference's.

use std::collections::{BTreeSet, HashSet};

use serde_json::json;

use crate::common::broker::MetaqBroker;
use crate::common::wait_until;
use crate::messages::{Message, Stored, acknowledged, assert_same_log};
use crate::rig::Cluster;

/// Payloads and attributes in every combination that could go wrong.
fn awkward_messages() -> Vec<Message> {
    let pattern = |len: usize| (0..len).map(|i| u8::try_from(i % 251).unwrap()).collect::<Vec<_>>();
    let crlf = b"\r\nget t g 0 0 1 1\r\n\r\n".to_vec();
    let payloads = [pattern(0), pattern(1), pattern(4 << 10), crlf];
    let attributes = [None, Some(""), Some("grün \u{1f680} 属性")];
    let mut messages = vec![Message::new(pattern(1 << 20))];
    for attribute in attributes {
        messages.extend(
            payloads
                .iter()
                .map(|payload| Message { attribute: attribute.map(str::to_owned), payload: payload.clone() }),
        );
    }
    messages
}

#[test]
fn java_and_rust_producers_reach_java_and_rust_groups_once_and_in_order_through_our_broker() {
    let Some(cluster) = Cluster::new("exchange") else { return };
    let home = cluster.home(0, &[("exchange", "numPartitions=4")]);
    let _broker = MetaqBroker::start(&home);
    exchange(&cluster, &awkward_messages());
}

#[test]
fn java_and_rust_producers_reach_java_and_rust_groups_once_and_in_order_through_a_java_broker() {
    let Some(cluster) = Cluster::new("exchange-java") else { return };
    let home = cluster.home(0, &[("exchange", "numPartitions=4")]);
    let _broker = cluster.start_java_broker(&home);
    // In a topic with group commit it does not show a large message before a small one follows, and may answer late.
    let mut messages = awkward_messages();
    messages.retain(|message| message.payload.len() < 512 << 10);
    exchange(&cluster, &messages);
}

/// Every kind of producer and every kind of group, with the broker that there is.
fn exchange(cluster: &Cluster, messages: &[Message]) {
    let mut java = cluster.java_consume("exchange", "java-group");
    let mut rust = cluster.rust_members("exchange", "rust-group");
    rust.join("r1");

    let mut sent = cluster.java_produce("exchange", messages);
    let partitions: Vec<_> = sent.iter().map(|stored| stored.place.partition).collect();
    assert_eq!(partitions[..4].iter().collect::<HashSet<_>>().len(), 4, "round robin: {partitions:?}");
    assert!(partitions.windows(5).all(|turn| turn[0] == turn[4]), "round robin: {partitions:?}");

    // These come to every partition, behind the others: when they are there, nothing can follow.
    let from_rust = cluster.metaq_produce("exchange", "rust-", 16);
    assert_eq!(from_rust.iter().map(|stored| stored.place.partition).collect::<HashSet<_>>().len(), 4);
    sent.extend(from_rust);
    java.receive_until("all messages", |delivered| delivered.len() >= sent.len());
    wait_until("all messages are delivered to the Rust group", || rust.inbox("r1").len() >= sent.len());

    assert_same_log(&java.stop(), &sent);
    rust.leave("r1");
    let delivered: Vec<_> = rust.inbox("r1").deliveries().iter().map(Stored::from).collect();
    assert_same_log(&delivered, &sent);
    assert_same_log(&cluster.metaq_log("exchange"), &sent);
    assert_same_log(&cluster.java_log("exchange"), &sent);
}

#[test]
fn the_first_message_of_a_wildcard_topic_makes_it_known_to_java_clients() {
    let Some(cluster) = Cluster::new("wildcard") else { return };
    let home = cluster.home(0, &[("base", ""), ("wild-*", "")]);
    let _broker = MetaqBroker::start(&home);

    // Nothing can be published before it exists; the reference's way is a default topic that leads to the broker.
    let first = json!({
        "topic": "wild-life", "defaultTopic": "base", "partition": "0-0", "messages": [Message::new("first").to_json()],
    });
    let answers = cluster.java("produce", first).finish();
    let mut sent = acknowledged(&answers, &[Message::new("first")]);
    cluster.await_partitions("wild-life", 1);

    let mut group = cluster.java_consume("wild-life", "group");
    sent.extend(cluster.java_produce("wild-life", &[Message::new("second")]));
    group.receive_until("both messages", |delivered| delivered.len() >= 2);
    assert_same_log(&group.stop(), &sent);
}

#[test]
fn a_java_client_browses_and_asks_for_offsets_and_statistics() {
    let Some(cluster) = Cluster::new("questions") else { return };
    let home = cluster.home(7, &[("questions", "numPartitions=2")]);
    let _broker = MetaqBroker::start(&home);
    let sent = cluster.java_produce("questions", &awkward_messages());

    let browsed = cluster.java("browse", json!({ "topic": "questions" })).finish();
    let ids = |messages: Vec<i64>| messages.into_iter().collect::<BTreeSet<_>>();
    let browsed_ids = ids(browsed.iter().map(|line| line["messageId"].as_i64().unwrap()).collect());
    assert_eq!(browsed.len(), sent.len());
    assert_eq!(browsed_ids, ids(sent.iter().map(|stored| stored.id).collect()));

    // Beyond the end the answer is the end, which is where the next message goes.
    let query = json!({ "topic": "questions", "partition": "7-1", "broker": home.url(), "offset": i64::MAX });
    let end = cluster.java("offset", query).finish()[0]["offset"].as_i64().unwrap();
    let next = cluster.java_produce("questions", &[Message::new("a"), Message::new("b")]);
    assert!(next.iter().any(|stored| stored.place.partition == 1 && stored.place.offset == end), "{end}: {next:?}");

    let stats = cluster.java("stats", json!({ "topic": "questions" })).finish();
    assert_eq!(stats[0]["values"]["broker_id"], "7", "{stats:?}");
    assert_eq!(stats[0]["values"]["cmd_put"], (sent.len() + next.len()).to_string(), "{stats:?}");
}
