//! Start and stop of a broker, and what is left on disk between them.

#![cfg(feature = "broker")]
// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::in_process::{Setup, TestBroker, config};
use common::raw::{Raw, put_frame, text};
use metaq::broker::{Broker, BrokerOptions, StartError};
use metaq::message::Records;
use metaq::protocol::{Response, Status};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn messages_are_there_after_a_stop_and_a_start_and_new_ones_follow_them() {
    let broker = TestBroker::with(Setup { system: "maxSegmentSize=1000", ..Setup::default() }).await;
    let mut client = broker.connect().await;
    let mut end = 0;
    for number in 0..100 {
        assert_eq!(client.put("test", 0, format!("message {number}").as_bytes()).await, end);
        end += 20 + format!("message {number}").len() as i64;
    }
    let broker = broker.restart().await;
    let mut client = broker.connect().await;
    assert_eq!(client.put("test", 0, b"after").await, end);
    let (mut offset, mut bodies) = (0, Vec::new());
    while let Some(data) = client.get("test", 0, offset).await {
        let mut records = Records::new(data, 1000);
        bodies.extend(records.by_ref().map(|record| record.unwrap().body));
        offset += records.consumed() as i64;
    }
    let expected = (0..100).map(|number| format!("message {number}")).chain(["after".to_owned()]);
    assert_eq!(bodies, expected.collect::<Vec<_>>());
}

#[tokio::test]
async fn unflushed_messages_of_a_periodic_topic_survive_a_stop() {
    let setup =
        Setup { topics: "[topic=lazy]\nunflushThreshold=100000\nunflushInterval=3600000\n", ..Setup::default() };
    let broker = TestBroker::with(setup).await;
    let mut client = broker.connect().await;
    client.put("lazy", 0, b"hello").await;
    let offsets = client.ask("stats offsets 1\r\n").await;
    assert!(offsets.contains("max_offset 0\r\n"), "not visible before it is durable: {offsets}");
    let broker = broker.restart().await;
    assert_eq!(broker.connect().await.get("lazy", 0, 0).await.unwrap().len(), 25);
}

#[tokio::test]
async fn a_periodic_topic_shows_messages_after_its_interval() {
    let setup = Setup { topics: "[topic=lazy]\nunflushThreshold=100000\nunflushInterval=50\n", ..Setup::default() };
    let broker = TestBroker::with(setup).await;
    let mut client = broker.connect().await;
    client.put("lazy", 0, b"hello").await;
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    // Unlike a get this causes no flush.
    while !client.ask("stats offsets 1\r\n").await.contains("max_offset 25\r\n") {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_stop_answers_what_it_stores_and_stores_what_it_answered() {
    let broker = TestBroker::start().await;
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(broker.connect().await);
    }
    let load = clients.into_iter().map(|client| tokio::spawn(put_until_the_end(client)));
    let load: Vec<_> = load.collect();
    // The stop comes in the middle of the load: as soon as something is stored.
    let mut observer = broker.connect().await;
    while observer.get("test", 0, 0).await.is_none() {
        tokio::task::yield_now().await;
    }
    let setup = Setup::default();
    let broker = TestBroker::in_dir(broker.stop().await, setup).await.unwrap();
    let mut acknowledged = Vec::new();
    for client in load {
        acknowledged.extend(client.await.unwrap());
    }
    let mut client = broker.connect().await;
    for partition in 0..2 {
        let (mut offset, mut stored) = (0, Vec::new());
        while let Some(data) = client.get("test", partition, offset).await {
            let mut records = Records::new(data, 1000);
            stored.extend(records.by_ref().map(|record| offset + record.unwrap().position as i64));
            offset += records.consumed() as i64;
        }
        let mut answered: Vec<i64> = acknowledged.iter().filter(|a| a.0 == partition).map(|a| a.1).collect();
        answered.sort_unstable();
        assert_eq!(stored, answered, "partition {partition}: stored and answered");
    }
}

#[tokio::test]
async fn a_stop_leaves_time_to_take_the_answers_to_a_client_that_goes_on_sending() {
    let broker = TestBroker::start().await;
    let (mut read, mut write) = broker.connect().await.into_halves();
    let sender = tokio::spawn(async move {
        let frames = put_frame("test", 0, b"load", 1).repeat(1000);
        while write.send(&frames).await {}
    });
    // Slower than the broker: answers pile up on the way.
    let reader = tokio::spawn(async move {
        let mut acknowledged = 0u64;
        while let Some(Response::Result(result)) = read.answer().await {
            acknowledged += u64::from(result.status == Status::SUCCESS);
            if acknowledged.is_multiple_of(2000) {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        }
        acknowledged
    });
    let mut observer = broker.connect().await;
    while observer.get("test", 0, 100_000).await.is_none() {
        tokio::task::yield_now().await;
    }
    let broker = TestBroker::in_dir(broker.stop().await, Setup::default()).await.unwrap();
    sender.await.unwrap();
    let acknowledged = reader.await.unwrap();
    let end = broker.connect().await.ask("get test g 0 9223372036854775807 1 1\r\n").await;
    let end: u64 = end.rsplit('\n').next().unwrap().parse().unwrap();
    assert_eq!(end, acknowledged * 24, "stored and answered bytes");
}

/// Keeps a window of puts under way until the broker refuses or leaves. Returns partition and offset of each that it
/// acknowledged.
async fn put_until_the_end(mut client: Raw) -> Vec<(i32, i64)> {
    let mut acknowledged = Vec::new();
    loop {
        for number in 0..16 {
            client.send(put_frame("test", number % 2, b"load", number)).await;
        }
        for _ in 0..16 {
            // The broker has not read what it leaves unanswered.
            let Some(Response::Result(result)) = client.answer().await else { return acknowledged };
            let text = String::from_utf8(result.body.to_vec()).unwrap();
            match result.status {
                Status::SUCCESS => {
                    let mut numbers = text.split(' ').skip(1).map(|number| number.parse::<i64>().unwrap());
                    let partition = i32::try_from(numbers.next().unwrap()).unwrap();
                    acknowledged.push((partition, numbers.next().unwrap()));
                }
                status => assert_eq!((status, &*text), (Status::UNAVAILABLE, "线程池繁忙")),
            }
        }
        if acknowledged.len() > 1_000_000 {
            panic!("the broker does not stop");
        }
    }
}

#[tokio::test]
async fn a_port_in_use_is_named_and_the_directory_is_free_again() {
    let broker = TestBroker::start().await;
    let port = broker.address().port();
    let dir = tempfile::tempdir().unwrap();
    let mut taken = config(&dir, &Setup::default());
    taken.system.server_port = port;
    let error = Broker::start(taken, BrokerOptions::default()).await.unwrap_err();
    assert!(matches!(error, StartError::Listen { .. }));
    let error = error.to_string();
    assert!(error.contains(&format!("127.0.0.1:{port}")) && error.contains("serverPort"), "{error}");
    TestBroker::in_dir(dir, Setup::default()).await.unwrap().stop().await;
}

#[tokio::test]
async fn a_directory_in_use_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let first = Broker::start(config(&dir, &Setup::default()), BrokerOptions::default()).await.unwrap();
    let error = Broker::start(config(&dir, &Setup::default()), BrokerOptions::default()).await.unwrap_err().to_string();
    assert!(error.contains(&dir.path().join("data").display().to_string()), "{error}");
    assert!(error.contains("in use by another broker"), "{error}");
    first.stop(CancellationToken::new()).await.unwrap();
}

#[tokio::test]
async fn damaged_directories_refuse_the_start_and_name_what_is_wrong() {
    for (damage, expected) in [
        ("test-0/00000000000000000100.meta", "The following segments don't validate"),
        ("test-0/foo.meta", "foo.meta"),
        ("foo-bar/x", "foo-bar"),
    ] {
        let broker = TestBroker::start().await;
        broker.connect().await.put("test", 0, b"hello").await;
        let dir = broker.stop().await;
        let path = dir.path().join("data").join(damage);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, b"").unwrap();
        let error = TestBroker::in_dir(dir, Setup::default()).await.err().expect("refused").to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn connections_that_do_not_read_do_not_hold_up_a_stop_for_long() {
    let broker = TestBroker::start().await;
    let mut client = broker.connect().await;
    client.put("test", 0, &vec![b'x'; 900_000]).await;
    for _ in 0..200 {
        client.send("get test g 0 0 1000000 1\r\n").await;
    }
    assert!(text(&client.answer().await.unwrap()).starts_with("value "));
    let stopped = tokio::time::timeout(std::time::Duration::from_secs(20), broker.stop()).await;
    assert!(stopped.is_ok(), "the stop waits for a client that does not read");
    while client.answer_or_cut().await {}
}

#[tokio::test]
async fn a_dropped_broker_leaves_its_clients_and_frees_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(config(&dir, &Setup::default()), BrokerOptions::default()).await.unwrap();
    let mut client = Raw::connect(broker.address()).await;
    client.put("test", 0, b"hello").await;
    drop(broker);
    client.expect_end().await;
    drop(client);
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    while let Err(error) = Broker::start(config(&dir, &Setup::default()), BrokerOptions::default()).await {
        assert!(tokio::time::Instant::now() < deadline, "{error}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
