//! How the broker treats connections: pipelining, malformed input, half-closing, limits (01 §1, §2.6–2.7, §13).

#![cfg(feature = "broker")]
// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::time::Duration;

use common::in_process::{Setup, TestBroker};
use common::raw::{Raw, put_frame, text};
use metaq::message::Records;
use metaq::protocol::{Response, Status};

#[tokio::test]
async fn pipelined_puts_of_one_connection_are_stored_in_the_order_sent() {
    let broker = TestBroker::start().await;
    let mut client = broker.connect().await;
    let mut stream = Vec::new();
    for number in 0..2000 {
        stream.extend(put_frame("test", number % 2, format!("{number}").as_bytes(), number));
    }
    client.send(&stream).await;
    for _ in 0..2000 {
        let answer = client.answer().await.unwrap();
        assert!(matches!(answer, Response::Result(ref result) if result.status == Status::SUCCESS));
    }
    for partition in 0..2 {
        let data = client.get("test", partition, 0).await.unwrap();
        let bodies = Records::new(data, 100).map(|record| record.unwrap().body);
        let numbers: Vec<i32> = bodies.map(|body| std::str::from_utf8(&body).unwrap().parse().unwrap()).collect();
        assert_eq!(numbers, (0..1000).map(|n| n * 2 + partition).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn commands_may_arrive_byte_by_byte() {
    let broker = TestBroker::start().await;
    let mut client = broker.connect().await;
    for byte in put_frame("test", 0, b"he\r\nllo", 3).chunks(1) {
        client.send(byte).await;
        tokio::task::yield_now().await;
    }
    assert!(text(&client.answer().await.unwrap()).ends_with(" 0 0"));
}

#[tokio::test]
async fn malformed_input_ends_the_connection_behind_the_answers_before_it() {
    let broker = TestBroker::start().await;
    for bad in [
        "bad\r\n",
        "\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "put test 0 x 0 1\r\n",
        "put test 0 -1 0 1\r\n",
        "get test g 0 0 1024\r\n",
        "put test 0 5 0 -1 what 1\r\nhello",
        "value -1 1\r\n",
    ] {
        let mut client = broker.connect().await;
        let mut input = put_frame("test", 0, b"before", 1);
        input.extend(b"version 2\r\n");
        input.extend(bad.as_bytes());
        input.extend(put_frame("test", 1, b"behind", 3));
        client.send(&input).await;
        let mut answered: Vec<i32> = Vec::new();
        while let Some(answer) = client.answer().await {
            answered.push(answer.opaque().get());
        }
        answered.sort_unstable();
        assert_eq!(answered, [1, 2], "{bad:?}");
    }
    assert_eq!(broker.connect().await.get("test", 1, 0).await, None, "what stands behind is not carried out");
}

#[tokio::test]
async fn quit_ends_the_connection_behind_the_answers_before_it() {
    let broker = TestBroker::start().await;
    let mut client = broker.connect().await;
    let mut input = put_frame("test", 0, b"before", 1);
    input.extend(b"stats  2\r\nquit\r\n");
    client.send(&input).await;
    let mut answered = [client.answer().await.unwrap().opaque().get(), client.answer().await.unwrap().opaque().get()];
    answered.sort_unstable();
    assert_eq!(answered, [1, 2]);
    client.expect_end().await;
}

#[tokio::test]
async fn a_client_that_closes_its_sending_side_gets_its_answers() {
    let broker = TestBroker::start().await;
    let mut client = broker.connect().await;
    client.send(put_frame("test", 0, b"hello", 1)).await;
    client.half_close().await;
    assert!(text(&client.answer().await.unwrap()).starts_with("result 200 "));
    client.expect_end().await;

    let mut client = broker.connect().await;
    client.send("put test 0 100 0 1\r\nonly a part").await;
    client.half_close().await;
    client.expect_end().await;
    assert_eq!(broker.connect().await.get("test", 0, 25).await, None, "a part of a message is none");
}

#[tokio::test]
async fn answers_that_nobody_asked_for_are_ignored() {
    let broker = TestBroker::start().await;
    let mut client = broker.connect().await;
    client.send("result 200 5 1\r\nhellovalue 5 2\r\nworldversion 3\r\n").await;
    assert_eq!(client.answer().await.unwrap().opaque().get(), 3);
}

#[tokio::test]
async fn lines_and_bodies_beyond_the_limits_end_the_connection_before_they_arrive() {
    let setup = Setup { metaq: "maxCommandLineBytes=1024\nmaxBodyBytes=2048", ..Setup::default() };
    let broker = TestBroker::with(setup).await;
    let mut client = broker.connect().await;
    client.send(put_frame("test", 0, &[b'x'; 2048], 1)).await;
    assert!(text(&client.answer().await.unwrap()).starts_with("result 200 "));
    client.send("put test 0 2049 0 1\r\n").await;
    client.expect_end().await;

    let mut client = broker.connect().await;
    client.send(vec![b'x'; 1100]).await;
    client.expect_end().await;
}

#[tokio::test]
async fn large_bodies_that_arrive_wait_for_room_and_hold_nobody_else_up() {
    let broker = TestBroker::with(Setup { metaq: "maxReceivingBytes=200000", ..Setup::default() }).await;
    let large = put_frame("test", 0, &[b'x'; 150_000], 1);
    let mut first = broker.connect().await;
    // Its room is taken when more than a read is missing.
    first.send(&large[..20_000]).await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    let mut second = loop {
        let mut second = broker.connect().await;
        second.send(&large[..20_000]).await;
        let rest = tokio::time::timeout(Duration::from_millis(100), async {
            second.send(&large[20_000..]).await;
            second.answer().await
        });
        match rest.await {
            Err(_) => break second,
            Ok(_) => assert!(tokio::time::Instant::now() < deadline, "the second large body never waits"),
        }
    };
    assert!(broker.connect().await.ask(put_frame("test", 1, b"small", 1)).await.starts_with("result 200 "));
    first.send(&large[20_000..]).await;
    assert!(text(&first.answer().await.unwrap()).starts_with("result 200 "));
    assert!(text(&second.answer().await.unwrap()).starts_with("result 200 "));
    // A body larger than all the room comes alone.
    let largest = second.ask(put_frame("test", 0, &[b'x'; 900_000], 2)).await;
    assert!(largest.starts_with("result 200 "), "{largest}");
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_and_room_is_made_by_leaving() {
    let broker = TestBroker::with(Setup { metaq: "maxConnections=2", ..Setup::default() }).await;
    let mut first = broker.connect().await;
    let mut second = broker.connect().await;
    first.ask("version 1\r\n").await;
    second.ask("version 1\r\n").await;
    broker.connect().await.expect_end().await;
    first.ask("version 2\r\n").await;
    drop(second);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        let mut third = broker.connect().await;
        third.send("version 3\r\n").await;
        if third.answer().await.is_some() {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "the place of a client that left stays taken");
    }
}

#[tokio::test]
async fn a_silent_connection_is_closed_after_the_idle_time_and_a_busy_one_is_not() {
    let broker = TestBroker::with(Setup { metaq: "connectionIdleTimeoutMs=300", ..Setup::default() }).await;
    let mut silent = broker.connect().await;
    let mut busy = broker.connect().await;
    silent.ask("version 1\r\n").await;
    let beats = async {
        for beat in 0..8 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(busy.ask(format!("version {beat}\r\n")).await.starts_with("result 200 "));
        }
    };
    tokio::join!(beats, silent.expect_end());
}

/// Asks in portions that are far beyond the limit before it reads the first answer of each.
async fn flood(client: &mut Raw, broker: &TestBroker, command: &str) {
    const COMMANDS: usize = 20_000;
    let stream = command.repeat(COMMANDS);
    // A second connection is served all the while.
    let mut other = broker.connect().await;
    let (mut sent, mut answered) = (stream.as_bytes(), 0);
    while answered < COMMANDS {
        let chunk = sent.len().min(command.len() * 2000);
        client.send(&sent[..chunk]).await;
        sent = &sent[chunk..];
        assert!(other.ask("version 9\r\n").await.starts_with("result 200 "));
        for _ in 0..chunk / command.len() {
            client.answer().await.expect("an answer");
            answered += 1;
        }
    }
}

#[tokio::test]
async fn floods_within_a_small_limit_of_bytes_in_flight_are_answered_completely() {
    let setup = Setup { metaq: "maxBodyBytes=65536\nmaxInFlightBytesPerConnection=65536", ..Setup::default() };
    let broker = TestBroker::with(setup).await;
    let mut client = broker.connect().await;
    client.put("test", 0, &[b'x'; 60_000]).await;
    flood(&mut client, &broker, "stats offsets 1\r\n").await;
    flood(&mut client, &broker, "get test g 0 0 100 1\r\n").await;
    flood(&mut client, &broker, "put test 1 3 0 -1 1\r\nabc").await;
    // One command that is as large as the limit itself goes alone.
    let largest = client.ask(put_frame("test", 0, &[b'x'; 65_536], 1)).await;
    assert!(largest.starts_with("result 200 "), "{largest}");
}
