//! Properties of the protocol over generated input: round trip, any split, garbage.

// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use bytes::{Bytes, BytesMut};
use metaq::id::{MessageId, Offset, PartitionIndex};
use metaq::protocol::{
    Command, DecodeError, Decoder, Get, Limits, OffsetQuery, Opaque, Put, Request, Response, Stats, Status, Sync,
    Transaction, TransactionKey, TransactionType,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// A token that is not empty.
fn word() -> impl Strategy<Value = String> {
    "[!-~é测]{1,12}"
}

fn body() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..200).prop_map(Bytes::from)
}

fn opaque() -> impl Strategy<Value = Opaque> {
    any::<i32>().prop_map(Opaque::new)
}

fn partition() -> impl Strategy<Value = PartitionIndex> {
    any::<i32>().prop_map(PartitionIndex::new)
}

fn key() -> impl Strategy<Value = TransactionKey> {
    prop_oneof![
        Just("null".to_owned()),
        ("[a-z0-9.:-]{0,10}", any::<i64>()).prop_map(|(session, n)| format!("TX:{session}:{n}")),
        (any::<i32>(), "[0-9a-f]{0,8}", "[0-9a-fA-F]{0,8}", "[a-z-]{0,5}")
            .prop_map(|(format, global, branch, uq)| format!("XID:{format}:{global}:{branch}:{uq}")),
    ]
    .prop_map(|key| TransactionKey::new(key.into()).unwrap())
}

fn request() -> impl Strategy<Value = Request> {
    let get = (word(), word(), partition(), any::<i64>(), any::<i32>(), opaque(), option::of(word())).prop_map(
        |(topic, group, partition, offset, max_size, opaque, surplus)| {
            Request::Get(Get {
                topic: topic.into(),
                group: group.into(),
                partition,
                offset: Offset::new(offset),
                max_size,
                opaque,
                surplus: surplus.unwrap_or_default().into(),
            })
        },
    );
    let put = (word(), partition(), any::<i32>(), option::of(any::<i32>()), option::of(key()), opaque(), body())
        .prop_map(|(topic, partition, flag, checksum, transaction, opaque, body)| {
            Request::Put(Put { topic: topic.into(), partition, flag, checksum, transaction, opaque, body })
        });
    let sync = (word(), partition(), any::<i32>(), any::<i64>(), option::of(any::<i32>()), opaque(), body()).prop_map(
        |(topic, partition, flag, id, checksum, opaque, body)| {
            let id = MessageId::new(id);
            Request::Sync(Sync { topic: topic.into(), partition, flag, id, checksum, opaque, body })
        },
    );
    let offset =
        (word(), word(), partition(), any::<i64>(), opaque()).prop_map(|(topic, group, partition, offset, opaque)| {
            let offset = Offset::new(offset);
            Request::Offset(OffsetQuery { topic: topic.into(), group: group.into(), partition, offset, opaque })
        });
    let stats = (option::of(word()), opaque())
        .prop_map(|(item, opaque)| Request::Stats(Stats { item: item.unwrap_or_default().into(), opaque }));
    let transaction =
        (key(), word(), 0..TransactionType::ALL.len(), option::of(0..i32::MAX), option::of("[a-z-]{1,10}"), opaque())
            .prop_map(|(key, session, kind, timeout_s, qualifier, opaque)| {
                Request::Transaction(Transaction {
                    key,
                    session: session.into(),
                    kind: TransactionType::ALL[kind],
                    timeout_s,
                    qualifier: qualifier.map(Into::into),
                    opaque,
                })
            });
    prop_oneof![get, put, sync, offset, stats, transaction, opaque().prop_map(Request::Version), Just(Request::Quit)]
}

fn response() -> impl Strategy<Value = Response> {
    prop_oneof![
        (any::<i32>(), body(), opaque()).prop_map(|(code, body, opaque)| Response::result(
            Status::new(code),
            body,
            opaque
        )),
        (body(), opaque()).prop_map(|(data, opaque)| Response::Value(metaq::protocol::ValueResponse { data, opaque })),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![request().prop_map(Command::Request), response().prop_map(Command::Response)]
}

/// Feeds the input in pieces that end at the given places, and decodes all that is there after each.
fn decode_in_pieces(input: &[u8], ends: &[usize], limits: Limits) -> (Vec<Command>, Option<DecodeError>) {
    let mut decoder = Decoder::new(limits);
    let mut buffer = BytesMut::new();
    let mut commands = Vec::new();
    let mut start = 0;
    for &end in ends.iter().chain([&input.len()]) {
        buffer.extend_from_slice(&input[start..end]);
        start = end;
        loop {
            match decoder.decode(&mut buffer) {
                Ok(Some(command)) => commands.push(command),
                Ok(None) => break,
                Err(error) => return (commands, Some(error)),
            }
        }
        // A line in progress may end in a CR that waits for its LF.
        let bound = (limits.line_bytes + 1).max(limits.body_bytes);
        assert!(buffer.len() <= bound, "{} bytes are held that should have been refused", buffer.len());
    }
    (commands, None)
}

fn cuts(input_len: usize, places: &[prop::sample::Index]) -> Vec<usize> {
    let mut ends: Vec<usize> = places.iter().map(|place| place.index(input_len + 1)).collect();
    ends.sort_unstable();
    ends
}

proptest! {
    #[test]
    fn commands_survive_encoding_and_any_split_of_the_stream(
        commands in vec(command(), 1..6),
        places in vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut stream = BytesMut::new();
        for command in &commands {
            command.encode(&mut stream);
        }
        let ends = cuts(stream.len(), &places);
        prop_assert_eq!(decode_in_pieces(&stream, &ends, Limits::default()), (commands, None));
    }

    #[test]
    fn a_stream_fed_byte_by_byte_gives_the_same_commands(commands in vec(command(), 1..3)) {
        let mut stream = BytesMut::new();
        for command in &commands {
            command.encode(&mut stream);
        }
        let ends: Vec<usize> = (0..stream.len()).collect();
        prop_assert_eq!(decode_in_pieces(&stream, &ends, Limits::default()), (commands, None));
    }

    #[test]
    fn garbage_is_refused_or_waited_for_alike_however_it_is_split(
        garbage in vec(prop_oneof![
            any::<u8>().boxed(),
            prop::sample::select(b"putgetresulvaliofsncyqx 0123456789-\r\n".to_vec()).boxed(),
        ], 0..300),
        places in vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let limits = Limits { line_bytes: 64, body_bytes: 64 };
        let ends = cuts(garbage.len(), &places);
        let whole = decode_in_pieces(&garbage, &[], limits);
        prop_assert_eq!(decode_in_pieces(&garbage, &ends, limits), whole);
    }

    #[test]
    fn damaged_frames_never_panic(command in command(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut stream = BytesMut::new();
        command.encode(&mut stream);
        let at = at.index(stream.len());
        stream[at] = byte;
        let _ = decode_in_pieces(&stream, &[at], Limits::default());
    }
}
