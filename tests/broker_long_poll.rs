//! Gets that wait: for messages, if they ask for it, and for the flush of what is written.

#![cfg(feature = "broker")]
// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::time::{Duration, Instant};

use bytestring::ByteString;
use common::in_process::{Setup, TestBroker};
use common::raw::{Raw, put_frame, text};
use metaq::client::{BrokerClient, ConnectionOptions, Fetched};
use metaq::id::{Offset, PartitionIndex};
use metaq::protocol::{Response, Status};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;

/// A topic that is not flushed by itself within a test.
const PERIODIC: Setup = Setup { system: "unflushThreshold=1000000\nunflushInterval=1000000", metaq: "", topics: "" };

fn get(partition: i32, offset: i64, opaque: i32, surplus: &str) -> String {
    format!("get test g {partition} {offset} 1000 {opaque}{surplus}\r\n")
}

async fn opaques(client: &mut Raw, count: usize) -> Vec<i32> {
    let mut opaques = Vec::new();
    for _ in 0..count {
        opaques.push(client.answer().await.expect("an answer").opaque().get());
    }
    opaques.sort_unstable();
    opaques
}

fn is_value(response: &Response, opaque: i32, len: usize) -> bool {
    matches!(response, Response::Value(value) if value.opaque.get() == opaque && value.data.len() == len)
}

/// A broker whose partitions hold one message of 25 bytes each.
async fn with_messages() -> (TestBroker, Raw) {
    let broker = TestBroker::start().await;
    let mut client = broker.connect().await;
    for partition in 0..2 {
        assert_eq!(client.put("test", partition, b"hello").await, 0);
    }
    (broker, client)
}

#[tokio::test]
async fn a_waiting_get_is_answered_when_there_is_a_message_and_holds_nothing_up() {
    let (broker, mut client) = with_messages().await;
    client.send(get(0, 25, 1, " wait=30000") + &get(1, 25, 2, " wait=30000") + "version 3\r\n").await;
    assert_eq!(client.answer().await.unwrap().opaque().get(), 3);
    assert!(client.ask(put_frame("test", 1, b"more", 4)).await.ends_with(" 1 25"));
    assert!(is_value(&client.answer().await.unwrap(), 2, 24));
    // The other one waits on, and another connection's message reaches it.
    assert!(client.ask("version 5\r\n").await.contains(" 5\r\n"));
    broker.connect().await.put("test", 0, b"from elsewhere").await;
    assert!(is_value(&client.answer().await.unwrap(), 1, 34));
}

#[tokio::test]
async fn gets_and_puts_of_one_pass_interleave() {
    let (_broker, mut client) = with_messages().await;
    let mut input = get(0, 25, 1, " wait=30000").into_bytes();
    input.extend(put_frame("test", 0, b"hello", 2));
    input.extend(get(0, 50, 3, " wait=30000").into_bytes());
    input.extend(put_frame("test", 0, b"hello", 4));
    client.send(input).await;
    assert_eq!(opaques(&mut client, 4).await, [1, 2, 3, 4]);
    // A consumer that asks for the next one while the last is on its way.
    for round in 3..200 {
        let mut input = get(0, round * 25, 1, " wait=30000").into_bytes();
        input.extend(put_frame("test", 0, b"hello", 2));
        client.send(input).await;
        assert_eq!(opaques(&mut client, 2).await, [1, 2]);
    }
}

#[tokio::test]
async fn the_wait_ends_in_the_usual_answer() {
    let (_broker, mut client) = with_messages().await;
    let started = Instant::now();
    let answer = client.ask(get(0, 25, 1, " other=1 wait=120")).await;
    assert_eq!(answer, "result 404 37 1\r\nCould not find message at position 25");
    assert!(started.elapsed() >= Duration::from_millis(120));
}

#[tokio::test]
async fn only_gets_at_the_end_that_ask_for_it_wait() {
    let (_broker, mut client) = with_messages().await;
    // Any of these waiting for half a minute fails the test.
    for surplus in
        ["", " wait", " wait=", " wait=x", " wait=-1", " wait=0", " await=20000", " wait=99999999999999999999"]
    {
        let answer = client.ask(get(0, 25, 1, surplus)).await;
        assert_eq!(answer, "result 404 37 1\r\nCould not find message at position 25", "{surplus:?}");
    }
    for (partition, offset, status) in [(0, 26, "404"), (7, 0, "404"), (0, i64::MAX, "301"), (0, -1, "301")] {
        let answer = client.ask(get(partition, offset, 1, " wait=30000")).await;
        assert!(answer.starts_with(&format!("result {status} ")), "{partition} {offset}: {answer}");
    }
    assert!(client.ask("get test g 0 25 0 1 wait=30000\r\n").await.starts_with("result 400 "));
    client.send(get(0, 0, 9, " wait=30000")).await;
    assert!(is_value(&client.answer().await.unwrap(), 9, 25));
}

#[tokio::test]
async fn gets_beyond_the_limit_of_a_connection_are_answered_at_once() {
    let (broker, mut client) = with_messages().await;
    let gets: String = (0..1026).map(|opaque| get(0, 25, opaque, " wait=30000")).collect();
    client.send(gets).await;
    for opaque in [1024, 1025] {
        let answer = text(&client.answer().await.unwrap());
        assert!(answer.starts_with(&format!("result 404 37 {opaque}\r\n")), "{answer}");
    }
    // Another connection has its own.
    let mut other = broker.connect().await;
    other.send(get(0, 25, 7, " wait=30000") + "version 8\r\n").await;
    assert_eq!(other.answer().await.unwrap().opaque().get(), 8);
    client.put("test", 1, b"something else").await;
    assert_eq!(other.put("test", 0, b"hello").await, 25);
    assert!(is_value(&other.answer().await.unwrap(), 7, 25));
    assert_eq!(opaques(&mut client, 1024).await, (0..1024).collect::<Vec<_>>());
    // The places are free again.
    client.send(get(0, 50, 1, " wait=30000") + "version 2\r\n").await;
    assert_eq!(client.answer().await.unwrap().opaque().get(), 2);
}

#[tokio::test]
async fn waiting_gets_leave_room_for_other_commands_however_little_there_is() {
    let setup = Setup { metaq: "maxBodyBytes=65536\nmaxInFlightBytesPerConnection=65536", ..Setup::default() };
    let broker = TestBroker::with(setup).await;
    let mut client = broker.connect().await;
    client.put("test", 0, b"hello").await;
    client.send((0..200).map(|opaque| get(0, 25, opaque, " wait=30000")).collect::<String>()).await;
    let refused = opaques(&mut client, 200 - 64).await;
    assert_eq!(refused, (64..200).collect::<Vec<_>>());
    assert!(client.ask("stats  999\r\n").await.starts_with("result 200 "));
    client.send(put_frame("test", 0, &[b'x'; 60_000], 500)).await;
    assert_eq!(opaques(&mut client, 65).await, (0..64).chain([500]).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_flood_of_short_waits_is_answered_completely() {
    const GETS: usize = 20_000;
    let (_broker, client) = with_messages().await;
    let (mut answers, mut writer) = client.into_halves();
    let flood = get(0, 25, 1, " wait=1").repeat(GETS);
    let read = async {
        for _ in 0..GETS {
            assert!(text(&answers.answer().await.expect("an answer")).starts_with("result 404 "));
        }
    };
    assert!(tokio::join!(writer.send(flood.as_bytes()), read).0);
}

#[tokio::test]
async fn the_client_waits_beyond_its_time_out_for_what_it_lets_the_broker_hold_back() {
    let (broker, mut producer) = with_messages().await;
    let options = ConnectionOptions { request_timeout: Duration::from_millis(300), ..ConnectionOptions::default() };
    let client = BrokerClient::connect(&broker.address().to_string(), options).await.unwrap();
    let (topic, group) = (ByteString::from_static("test"), ByteString::from_static("g"));
    let get = |wait| client.get_waiting(&topic, &group, PartitionIndex::new(0), Offset::new(25), 1000, wait);
    assert!(client.holds_gets().await.unwrap());
    assert_eq!(get(Duration::from_millis(600)).await.unwrap(), Fetched::Nothing);
    let (fetched, _) = tokio::join!(get(Duration::from_secs(60)), producer.put("test", 0, b"hello"));
    assert!(matches!(fetched.unwrap(), Fetched::Data(data) if data.len() == 25));
}

#[tokio::test]
async fn a_client_does_not_ask_a_broker_on_the_jvm_to_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let broker = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut lines = BufReader::new(stream);
        for (asked, answer) in [
            ("version -2147483648\r\n", "result 200 7 -2147483648\r\n1.4.6.2"),
            ("get test g 0 25 1000 -2147483647\r\n", "result 404 2 -2147483647\r\nno"),
        ] {
            let mut line = String::new();
            lines.read_line(&mut line).await.unwrap();
            assert_eq!(line, asked);
            lines.get_mut().write_all(answer.as_bytes()).await.unwrap();
        }
        lines
    };
    let (topic, group) = (ByteString::from_static("test"), ByteString::from_static("g"));
    let consumer = async {
        let client = BrokerClient::connect(&address, ConnectionOptions::default()).await.unwrap();
        let (partition, offset) = (PartitionIndex::new(0), Offset::new(25));
        client.get_waiting(&topic, &group, partition, offset, 1000, Duration::from_secs(5)).await.unwrap()
    };
    let (_open, fetched) = tokio::join!(broker, consumer);
    assert_eq!(fetched, Fetched::Nothing);
}

#[tokio::test]
async fn a_client_that_closes_its_sending_side_need_not_wait() {
    let (broker, mut client) = with_messages().await;
    client.send(get(0, 25, 1, " wait=30000")).await;
    client.half_close().await;
    assert!(text(&client.answer().await.unwrap()).starts_with("result 404 "));
    client.expect_end().await;
    let mut client = broker.connect().await;
    client.send(get(0, 25, 1, " wait=30000") + "quit\r\n").await;
    assert!(text(&client.answer().await.unwrap()).starts_with("result 404 "));
    client.expect_end().await;
}

#[tokio::test]
async fn a_stop_answers_who_waits() {
    let (broker, mut client) = with_messages().await;
    client.send(get(0, 25, 1, " wait=30000") + "version 2\r\n").await;
    assert_eq!(client.answer().await.unwrap().opaque().get(), 2);
    let (answer, _dir) = tokio::join!(
        async {
            let answer = text(&client.answer().await.unwrap());
            client.expect_end().await;
            drop(client);
            answer
        },
        broker.stop()
    );
    assert_eq!(answer, "result 503 15 1\r\n线程池繁忙");
}

#[tokio::test]
async fn a_wait_ends_before_the_connection_counts_as_silent() {
    let setup = Setup { metaq: "connectionIdleTimeoutMs=400", ..Setup::default() };
    let broker = TestBroker::with(setup).await;
    let mut client = broker.connect().await;
    client.put("test", 0, b"hello").await;
    for _ in 0..4 {
        assert!(client.ask(get(0, 25, 1, " wait=30000")).await.starts_with("result 404 "));
    }
}

#[tokio::test]
async fn a_message_of_a_periodically_flushed_topic_is_there_for_who_asks() {
    let broker = TestBroker::with(PERIODIC).await;
    let (mut consumer, mut producer) = (broker.connect().await, broker.connect().await);
    for round in 0..10 {
        assert_eq!(producer.put("test", 0, b"hello").await, round * 25);
        // The disk may be slower than a get waits for it.
        loop {
            consumer.send(get(0, round * 25, 1, "")).await;
            match consumer.answer().await.unwrap() {
                Response::Value(value) => break assert_eq!(value.data.len(), 25),
                Response::Result(result) => assert_eq!(result.status, Status::NOT_FOUND),
            }
        }
    }
    // One that waited before the message came.
    consumer.send(get(0, 250, 1, " wait=30000") + "version 2\r\n").await;
    assert_eq!(consumer.answer().await.unwrap().opaque().get(), 2);
    producer.put("test", 0, b"hello").await;
    assert!(is_value(&consumer.answer().await.unwrap(), 1, 25));
}

#[tokio::test]
async fn asking_for_offsets_and_statistics_flushes_nothing() {
    let broker = TestBroker::with(PERIODIC).await;
    let mut client = broker.connect().await;
    client.put("test", 0, b"hello").await;
    for _ in 0..100 {
        assert_eq!(client.ask("offset test g 0 25 1\r\n").await, "result 200 1 1\r\n0");
        assert!(client.ask("stats offsets 1\r\n").await.contains("min_offset 0 max_offset 0\r\n"));
        // Neither does a get that is not at the end.
        assert!(client.ask(get(0, 25, 1, "")).await.starts_with("result 404 "));
    }
    assert!(client.ask("stats offsets 1\r\n").await.contains("min_offset 0 max_offset 0\r\n"));
}
