//! Messages between Java and Rust clients through one broker.

use std::collections::HashSet;

use crate::common::broker::MetaqBroker;
use crate::messages::{Message, assert_same_log};
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
fn java_and_rust_producers_reach_a_java_group_once_and_in_order() {
    let Some(cluster) = Cluster::new("exchange") else { return };
    let home = cluster.home(0, &[("exchange", "numPartitions=4")]);
    let _broker = MetaqBroker::start(&home);
    let mut group = cluster.java_consume("exchange", "group");

    let mut sent = cluster.java_produce("exchange", &awkward_messages());
    let partitions: Vec<_> = sent.iter().map(|stored| stored.place.partition).collect();
    assert_eq!(partitions[..4].iter().collect::<HashSet<_>>().len(), 4, "round robin: {partitions:?}");
    assert!(partitions.windows(5).all(|turn| turn[0] == turn[4]), "round robin: {partitions:?}");

    // These come to every partition, behind the others: when they are there, nothing can follow.
    let from_rust = cluster.metaq_produce("exchange", "rust-", 16);
    assert_eq!(from_rust.iter().map(|stored| stored.place.partition).collect::<HashSet<_>>().len(), 4);
    sent.extend(from_rust);
    group.receive_until("all messages", |delivered| delivered.len() >= sent.len());

    assert_same_log(&group.stop(), &sent);
    assert_same_log(&cluster.metaq_log("exchange"), &sent);
    assert_same_log(&cluster.java_log("exchange"), &sent);
}
