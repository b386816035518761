//! The client side of recorded conversations, replayed against our broker: the recorded answers, but for ids, versions
//! and timing (01 §15).

// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use common::in_process::{Setup, TestBroker};
use common::raw::Raw;
use common::wire::{Turn, conversation};
use metaq::message::Records;
use metaq::protocol::{Command, Decoder, Limits, Opaque, Request, Response, Status};

/// The broker that the recordings were made with (its README): they follow one another on it.
const RECORDED: Setup = Setup {
    system: "maxTransferSize=1048576",
    metaq: "",
    topics: "[topic=test]\nnumPartitions=10\n[topic=meta-test]\nnumPartitions=4\n",
};

/// An answer without what differs from broker to broker.
#[derive(Debug, PartialEq, Eq)]
enum Comparable {
    /// A heartbeat; its text is the version.
    Version(Status),
    /// A put: partition and offset, without the id.
    Stored(String),
    Result(Status, Bytes),
    /// A get: flag and body of every whole record, and how many bytes of a cut one follow.
    Records(Vec<(i32, Bytes)>, usize),
}

fn comparable(request: &Request, response: Response) -> Comparable {
    match (request, response) {
        (Request::Version(_), Response::Result(result)) => Comparable::Version(result.status),
        (Request::Put(_), Response::Result(result)) if result.status == Status::SUCCESS => {
            let text = String::from_utf8(result.body.to_vec()).unwrap();
            Comparable::Stored(text.split_once(' ').expect("id, partition, offset").1.to_owned())
        }
        (_, Response::Result(result)) => Comparable::Result(result.status, result.body),
        (_, Response::Value(value)) => {
            let len = value.data.len();
            let mut records = Records::new(value.data, 1 << 30);
            let whole = records.by_ref().map(|record| record.unwrap()).map(|r| (r.header.flag, r.body)).collect();
            Comparable::Records(whole, len - records.consumed())
        }
    }
}

fn commands<'a>(turns: impl Iterator<Item = &'a Turn>) -> Vec<Command> {
    let mut decoder = Decoder::new(Limits::default());
    let mut buffer = BytesMut::new();
    turns.for_each(|turn| buffer.extend_from_slice(&turn.bytes()));
    std::iter::from_fn(|| decoder.decode(&mut buffer).unwrap()).collect()
}

/// Replays one connection of a conversation, each request when the one before is answered, as the recorded clients did.
async fn replay(client: &mut Raw, turns: &[&Turn]) -> usize {
    let of = |side: &'static str| turns.iter().copied().filter(move |turn| turn.from == side);
    let mut recorded: BTreeMap<Opaque, Response> = commands(of("broker"))
        .into_iter()
        .map(|command| match command {
            Command::Response(response) => (response.opaque(), response),
            Command::Request(request) => panic!("a broker asked {request:?}"),
        })
        .collect();
    let mut compared = 0;
    for command in commands(of("client")) {
        let Command::Request(request) = command else { panic!("a client answered") };
        let mut frame = BytesMut::new();
        request.encode(&mut frame);
        // What was recorded up to the end of the connection may have lost its answer.
        let Some(expected) = recorded.remove(&request.opaque()) else { continue };
        client.send(&frame).await;
        let answer = client.answer().await.expect("an answer");
        assert_eq!(answer.opaque(), request.opaque());
        // Without the values: some are a megabyte long.
        let same = comparable(&request, answer) == comparable(&request, expected);
        let line = String::from_utf8_lossy(frame[..].split(|&b| b == b'\r').next().unwrap_or_default()).into_owned();
        assert!(same, "other answer to '{line}' than the recorded one");
        compared += 1;
    }
    assert!(recorded.is_empty(), "answers to nothing: {recorded:?}");
    compared
}

#[tokio::test]
async fn recorded_producers_and_consumers_get_the_recorded_answers() {
    let broker = TestBroker::with(RECORDED).await;
    for (name, answers) in [
        ("01-send-10.jsonl", 10),
        ("02-send-attribute.jsonl", 4),
        ("03-receive-10.jsonl", 30),
        ("09-send-large-1M.jsonl.gz", 2),
    ] {
        if name.starts_with("09") {
            // Recordings 04 to 08 lie between: their transactions left 240 bytes in each of these partitions.
            let mut client = broker.connect().await;
            for partition in [1, 2] {
                client.put("meta-test", partition, &[b't'; 220]).await;
            }
        }
        let turns = conversation(name);
        let streams: BTreeMap<u32, Vec<&Turn>> = turns.iter().fold(BTreeMap::new(), |mut streams, turn| {
            streams.entry(turn.stream).or_insert_with(Vec::new).push(turn);
            streams
        });
        let mut compared = 0;
        for turns in streams.values() {
            compared += replay(&mut broker.connect().await, turns).await;
        }
        assert_eq!(compared, answers, "{name}");
    }
}
