//! What a get sends: bytes of segment files, whatever their size, whatever becomes of the file or the client.

#![cfg(feature = "broker")]
// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod common;

use std::fs::{self, File};
use std::path::PathBuf;

use common::in_process::{Setup, TestBroker};
use common::raw::Raw;
use metaq::protocol::{Response, ValueResponse};
use rustix::fs::Advice;

const SETUP: Setup = Setup { system: "maxTransferSize=4194304\nmaxSegmentSize=67108864", metaq: "", topics: "" };

/// Bytes that fill a partition far beyond what one get sends in one piece.
const FILLING: usize = 3 << 20;

/// A broker whose partition 0 is filled; the bytes that its only segment holds, and where.
async fn filled() -> (TestBroker, Vec<u8>, PathBuf) {
    let broker = TestBroker::with(SETUP).await;
    let mut client = broker.connect().await;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut stored = 0;
    while stored < FILLING {
        let body: Vec<u8> = (0..random.usize(1..200_000)).map(|_| random.u8(..)).collect();
        client.put("test", 0, &body).await;
        stored += 20 + body.len();
    }
    // Whatever is read is in the file by then.
    client.send(format!("get test g 0 {} 1 7\r\n", stored - 1)).await;
    value(&mut client).await;
    let mut files = fs::read_dir(broker.data_path().join("test-0")).unwrap();
    let path = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none(), "one segment");
    let content = fs::read(&path).unwrap();
    assert_eq!(content.len(), stored);
    (broker, content, path)
}

async fn value(client: &mut Raw) -> ValueResponse {
    match client.answer().await {
        Some(Response::Value(value)) => value,
        other => panic!("a value, not {other:?}"),
    }
}

#[tokio::test]
async fn regions_of_every_size_arrive_as_they_are_stored_be_they_cached_or_not() {
    let (broker, content, path) = filled().await;
    let file = File::open(path).unwrap();
    let mut client = broker.connect().await;
    for size in [1, 20, 4095, 16 << 10, (16 << 10) + 1, 256 << 10, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, FILLING] {
        for offset in [0, 1, 4097, 1_000_003] {
            for cached in [true, false] {
                if !cached {
                    file.sync_all().unwrap();
                    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
                }
                client.send(format!("get test g 0 {offset} {size} 7\r\n")).await;
                let expected = &content[offset..content.len().min(offset + size)];
                let got = value(&mut client).await.data;
                assert!(got == expected, "{size} bytes at {offset}, cached: {cached}: {} came", got.len());
            }
        }
    }
}

#[tokio::test]
async fn many_regions_asked_for_at_once_arrive_in_the_order_asked() {
    let (broker, content, _) = filled().await;
    let mut client = broker.connect().await;
    let sizes = [5, 16 << 10, 1 << 20, 7, 30_000, 100, FILLING, 1];
    let asked: String = sizes.iter().enumerate().map(|(i, size)| format!("get test g 0 {i} {size} {i}\r\n")).collect();
    client.send(asked.repeat(4)).await;
    for _ in 0..4 {
        for (i, size) in sizes.iter().enumerate() {
            let value = value(&mut client).await;
            assert_eq!(value.opaque.get(), i32::try_from(i).unwrap());
            assert!(value.data == content[i..content.len().min(i + size)], "answer {i}");
        }
    }
}

/// Regions that no socket buffer holds.
const MANY: usize = 16;

#[tokio::test]
async fn a_client_that_stops_reading_holds_nobody_up_and_gets_a_removed_segment_to_its_end() {
    let (broker, content, path) = filled().await;
    let mut slow = broker.connect().await;
    slow.send(format!("get test g 0 0 {FILLING} 7\r\n").repeat(MANY)).await;
    let mut other = broker.connect().await;
    let first = other.get("test", 0, 0).await.unwrap();
    assert!(first == content[..1 << 20]);
    fs::remove_file(path).unwrap();
    for _ in 0..MANY {
        assert!(value(&mut slow).await.data == content[..FILLING.min(content.len())]);
    }
    assert!(other.ask("version 1\r\n").await.starts_with("result 200 "));
}

#[tokio::test]
async fn a_file_that_is_shorter_than_it_was_ends_the_connection_and_no_other() {
    let (broker, content, path) = filled().await;
    for length in [content.len() - 1, 2 << 20, 1 << 20, 100] {
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length as u64).unwrap();
        let mut client = broker.connect().await;
        client.send(format!("get test g 0 0 {} 7\r\n", 4 << 20)).await;
        assert!(!client.answer_or_cut().await, "{length}: the answer cannot be whole");
        let mut client = broker.connect().await;
        client.send(format!("get test g 0 0 {length} 7\r\n")).await;
        assert!(value(&mut client).await.data == content[..length]);
    }
    // The end of the file lies within a small region.
    let mut client = broker.connect().await;
    client.send("get test g 0 0 101 7\r\n").await;
    assert!(!client.answer_or_cut().await);
}
