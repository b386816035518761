//! Conversations recorded between the Java client and the Java broker: every byte decodes and encodes back.

// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::collections::BTreeMap;

use bytes::BytesMut;
use common::wire::conversation;
use metaq::protocol::{Command, Decoder, Limits};

fn decodes_and_encodes_back(name: &str, expected_frames: usize) {
    let mut streams: BTreeMap<(u32, String), BytesMut> = BTreeMap::new();
    for turn in conversation(name) {
        streams.entry((turn.stream, turn.from.clone())).or_default().extend_from_slice(&turn.bytes());
    }
    let mut frames = 0;
    for ((stream, from), bytes) in streams {
        let mut decoder = Decoder::new(Limits::default());
        let mut buffer = bytes.clone();
        let mut encoded = BytesMut::new();
        while let Some(command) = decoder.decode(&mut buffer).unwrap_or_else(|e| panic!("{name}, {from}: {e}")) {
            let is_request = matches!(command, Command::Request(_));
            // In recording 12 the client is a master, and in all of them only clients ask.
            assert_eq!(is_request, from == "client", "{name}, stream {stream}, {from}: {command:?}");
            command.encode(&mut encoded);
            frames += 1;
        }
        assert!(decoder.is_at_boundary(&buffer), "{name}, stream {stream}, {from}: {} bytes left", buffer.len());
        assert!(encoded == bytes, "{name}, stream {stream}, {from}: encoded bytes differ");
    }
    assert_eq!(frames, expected_frames, "{name}");
}

macro_rules! recordings {
    ($($test:ident: $name:literal, $frames:literal;)*) => {
        $(#[test] fn $test() { decodes_and_encodes_back($name, $frames); })*
    };
}

recordings! {
    plain_puts: "01-send-10.jsonl", 20;
    puts_with_attribute: "02-send-attribute.jsonl", 8;
    a_consumer: "03-receive-10.jsonl", 60;
    local_transactions: "04-local-tx-commit-and-rollback.jsonl", 20;
    xa_transactions: "06-xa-all.jsonl", 72;
    an_xa_transaction_left_prepared: "07-xa-prepare-left.jsonl", 9;
    an_xa_transaction_recovered: "08-xa-recover-commit.jsonl", 6;
    large_messages: "09-send-large-1M.jsonl.gz", 4;
    an_asynchronous_slave: "11-async-slave-replicates.jsonl", 574;
    a_master_and_its_synchronous_slave: "12-samsa-to-gregor-sync.jsonl", 8;
}
