//! Clients that do not behave: none of them costs more than the limits say, and nobody else notices.

#![cfg(feature = "broker")]
// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::time::Duration;

use common::in_process::{Setup, TestBroker};
use common::raw::put_frame;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Asks and asks and never reads; returns when the broker has closed the connection.
async fn ask_without_reading(mut stream: TcpStream) {
    let questions = "stats help 1\r\n".repeat(1000);
    while stream.write_all(questions.as_bytes()).await.is_ok() {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_do_not_take_their_answers_are_closed_when_together_they_hold_too_much() {
    let broker = TestBroker::with(Setup { metaq: "maxUnsentBytes=1048576", ..Setup::default() }).await;
    let mut stuck = Vec::new();
    for _ in 0..3 {
        let stream = TcpStream::connect(broker.address()).await.unwrap();
        stuck.push(tokio::spawn(ask_without_reading(stream)));
    }
    // Somebody who takes the answers, one by one and many at a time, is served all along.
    let mut client = broker.connect().await;
    let mut end = 0;
    let served = async {
        loop {
            assert_eq!(client.put("test", 0, b"0123456789").await, end);
            end += 30;
            let many: Vec<u8> = (0..200).flat_map(|opaque| put_frame("test", 1, b"0123456789", opaque)).collect();
            client.send(many).await;
            for _ in 0..200 {
                client.answer().await.expect("an answer");
            }
        }
    };
    let closed = async {
        for client in &mut stuck {
            timeout(common::DEADLINE, client).await.expect("still open").unwrap();
        }
    };
    tokio::select! {
        () = served => unreachable!(),
        () = closed => {}
    }
}

#[tokio::test]
async fn a_body_that_dribbles_in_gives_way_to_others_that_wait_for_its_room() {
    let broker = TestBroker::with(Setup { metaq: "maxReceivingBytes=65536", ..Setup::default() }).await;
    let mut dribbling = TcpStream::connect(broker.address()).await.unwrap();
    dribbling.write_all(b"version 1\r\nput test 0 300000 0 -1 1\r\nthe beginning").await.unwrap();
    // Once the first command is answered, the second one has the room.
    assert_ne!(dribbling.read(&mut [0; 100]).await.unwrap(), 0);
    let mut other = broker.connect().await;
    let body = vec![7; 300_000];
    let put = other.put("test", 0, &body);
    tokio::pin!(put);
    // A byte now and then keeps nothing alive.
    let dribble = async {
        while dribbling.write_all(b".").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        offset = &mut put => assert_eq!(offset, 0),
        () = dribble => assert_eq!(put.await, 0),
    }
    let mut rest = Vec::new();
    let _ = timeout(common::DEADLINE, dribbling.read_to_end(&mut rest)).await.expect("the broker closes it");
    assert!(rest.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_connections_leaves_those_that_are_open_alone() {
    const LIMIT: usize = 20;
    let broker = TestBroker::with(Setup { metaq: "maxConnections=20", ..Setup::default() }).await;
    let mut client = broker.connect().await;
    client.put("test", 0, b"m").await;
    let address = broker.address();
    let flood: Vec<_> = (0..500)
        .map(|_| {
            tokio::spawn(async move {
                let mut stream = TcpStream::connect(address).await.ok()?;
                stream.write_all(b"version 1\r\n").await.ok()?;
                let mut answer = [0; 64];
                matches!(stream.read(&mut answer).await, Ok(n) if n > 0).then_some(stream)
            })
        })
        .collect();
    for offset in 1..100 {
        assert_eq!(client.put("test", 0, b"m").await, offset * 21);
    }
    let mut served = Vec::new();
    for connection in flood {
        served.extend(connection.await.unwrap());
    }
    assert_eq!(served.len(), LIMIT - 1);
    drop(served);
    common::eventually("there is room again", async || {
        let mut stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        stream.write_all(b"version 1\r\n").await.map_err(|error| error.to_string())?;
        match stream.read(&mut [0; 64]).await {
            Ok(n) if n > 0 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
