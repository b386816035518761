//! Retention in a running broker: what readers notice of it, what it leaves on the disk, and how it stops.

#![cfg(feature = "broker")]
// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

#[path = "broker_crashes/site.rs"]
#[allow(dead_code)]
mod site;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use common::eventually;
use common::in_process::{Setup, TestBroker};
use common::raw::{Raw, put_frame};
use metaq::message::Records;
use metaq::protocol::{Response, Status};
use site::{Settings, Site};

/// Times that each reader must be overtaken by the removal of what it reads.
const OVERTAKEN: usize = 4;

/// Reads from the oldest message on, one by one, and begins anew where the oldest is when it is overtaken,
/// and at the beginning when it has come to the end.
async fn read_old_segments(mut client: Raw, partition: i32, overtaken: Arc<AtomicUsize>, stop: Arc<AtomicBool>) {
    let mut offset = 0_i64;
    while !stop.load(Ordering::Relaxed) {
        client.send(format!("get test g {partition} {offset} 20000 2\r\n")).await;
        match client.answer().await.expect("an answer, not the end of the connection") {
            Response::Value(value) => {
                let mut records = Records::new(value.data, 20_000);
                let first = records.next().expect("whole messages").expect("an intact message");
                assert!(first.body.starts_with(b"message "));
                offset += records.consumed() as i64;
            }
            Response::Result(result) if result.status == Status::MOVED => {
                let min: i64 = std::str::from_utf8(&result.body).unwrap().parse().unwrap();
                assert!(min > offset, "{min} is not beyond {offset}");
                offset = min;
                overtaken.fetch_add(1, Ordering::Relaxed);
            }
            Response::Result(result) => {
                // It has everything: from the beginning again, however slow the writer is.
                assert_eq!(result.status, Status::NOT_FOUND, "{result:?}");
                offset = 0;
            }
        }
    }
}

async fn write(mut client: Raw, partition: i32, stop: Arc<AtomicBool>) -> u64 {
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let body = format!("message {count:0>300}");
        client.send(put_frame("test", partition, body.as_bytes(), 1).repeat(20)).await;
        for _ in 0..20 {
            let answer = client.answer().await.expect("an answer");
            assert!(matches!(&answer, Response::Result(result) if result.status == Status::SUCCESS), "{answer:?}");
            count += 1;
        }
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_old_segments_under_load_notice_nothing_but_a_new_beginning() {
    let site = Site::new(Settings {
        system: "maxSegmentSize=20000\ndeletePolicy=delete,1s\ndeleteWhen=* * * * * ?",
        topics: "[topic=test]\nnumPartitions=2",
        ..Settings::default()
    });
    let broker = site.start();
    let stop = Arc::<AtomicBool>::default();
    let mut tasks = Vec::new();
    let mut readers = Vec::new();
    for partition in [0, 1] {
        tasks.push(tokio::spawn(write(broker.connect().await, partition, Arc::clone(&stop))));
        for _ in 0..3 {
            let overtaken = Arc::<AtomicUsize>::default();
            readers.push(Arc::clone(&overtaken));
            let reading = read_old_segments(broker.connect().await, partition, overtaken, Arc::clone(&stop));
            let reading = async {
                reading.await;
                0
            };
            tasks.push(tokio::spawn(reading));
        }
    }
    let overtaken = || async {
        let counts: Vec<_> = readers.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        if counts.iter().all(|&count| count >= OVERTAKEN) { Ok(()) } else { Err(format!("{counts:?}")) }
    };
    eventually("every reader is overtaken", overtaken).await;
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    let ended = broker.wait_for_line("retention run ended");
    assert!(ended.contains("failures=0") && ended.contains("segments_removed="), "{ended}");
    assert!(broker.wait_for_line("retention scheduled").contains("time_zone="));
    broker.stop();
    // What is left is whole.
    drop(site.start());
}

/// Files of a partition by what their names end in.
fn files(dir: &Path) -> BTreeMap<String, Vec<PathBuf>> {
    let mut files = BTreeMap::<_, Vec<_>>::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        files.entry(path.extension().unwrap().to_str().unwrap().to_owned()).or_default().push(path);
    }
    files.values_mut().for_each(|paths| paths.sort());
    files
}

/// Bodies of stored messages.
fn bodies(stored: Vec<u8>) -> Vec<Bytes> {
    Records::new(stored.into(), 1 << 20).map(|record| record.unwrap().body).collect()
}

/// The content of an archive, taken out with `unzip` after it has been tested; `None` where that is not installed.
fn unzip(archive: &Path) -> Option<Vec<u8>> {
    let run = |flag: &str| Command::new("unzip").arg(flag).arg(archive).output();
    let Ok(test) = run("-t") else {
        std::io::stderr().write_all(b"skipped: unzip is not installed\n").unwrap();
        return None;
    };
    assert!(test.status.success(), "{}: {}", archive.display(), String::from_utf8_lossy(&test.stdout));
    Some(run("-p").unwrap().stdout)
}

#[tokio::test]
async fn each_topic_has_its_own_policy_and_archives_open_with_the_usual_tools() {
    let broker = TestBroker::with(Setup {
        system: "maxSegmentSize=1000\ndeletePolicy=archive,1s,true\ndeleteWhen=* * * * * ?",
        topics: "[topic=renamed]\ndeletePolicy=archive,1s\n[topic=later]\ndeleteWhen=0 0 0 1 1 ? 2200\n\
                 [topic=old]\ndeletePolicy=delete,168\n[topic=w-*]\n",
        ..Setup::default()
    })
    .await;
    let mut client = broker.connect().await;
    let sent: Vec<Bytes> = (0..20).map(|i| format!("message {i:0>150}").into()).collect();
    // The last one comes into being by its pattern, and takes what [system] says.
    let topics = ["renamed", "later", "old", "w-born"];
    for topic in topics {
        for body in &sent {
            client.put(topic, 0, body).await;
        }
    }
    let dir = |topic: &str| broker.data_path().join(format!("{topic}-0"));
    let segments = files(&dir("old"))["meta"].clone();
    assert!(segments.len() > 2);
    let count = segments.len() - 1;
    for (topic, suffix) in [("renamed", "arc"), ("w-born", "zip")] {
        let archived = || async {
            let files = files(&dir(topic));
            let archives = files.get(suffix).map_or(0, Vec::len);
            if (archives, files["meta"].len()) == (count, 1) { Ok(()) } else { Err(format!("{files:?}")) }
        };
        eventually("all but the last segment are archived", archived).await;
        let mut stored = Vec::new();
        for path in &files(&dir(topic))[suffix] {
            let content = if suffix == "arc" { Some(std::fs::read(path).unwrap()) } else { unzip(path) };
            let Some(content) = content else { return };
            let segment = path.file_stem().unwrap();
            let same = std::fs::read(dir("old").join(segment)).unwrap();
            assert_eq!(bodies(content.clone()), bodies(same), "{}", path.display());
            stored.extend(bodies(content));
        }
        assert_eq!(stored, sent[..stored.len()], "{topic}");
        let oldest = files(&dir(topic))["meta"][0].file_stem().unwrap().to_str().unwrap().parse::<i64>().unwrap();
        let moved = client.ask(format!("get {topic} g 0 0 1000 5\r\n")).await;
        assert!(moved.starts_with("result 301 ") && moved.ends_with(&format!("\r\n{oldest}")), "{moved}");
        client.put(topic, 0, b"goes on").await;
    }
    for topic in ["later", "old"] {
        assert_eq!(files(&dir(topic))["meta"].len(), segments.len(), "{topic} is untouched");
    }
    let totals = broker.retention();
    assert_eq!((totals.segments_removed, totals.segments_archived, totals.failures), (0, 2 * count as u64, 0));
    assert!(totals.runs > 0 && totals.bytes_freed > 0 && totals.next_run.is_some(), "{totals:?}");
    let broker = broker.restart().await;
    let mut client = broker.connect().await;
    assert!(client.ask("get w-born g 0 0 1000 5\r\n").await.starts_with("result 301 "));
    broker.stop().await;
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_segment_to_be_compressed() {
    let site = Site::new(Settings {
        system: "maxSegmentSize=24000000\ndeletePolicy=archive,0,true\ndeleteWhen=* * * * * ?",
        topics: "[topic=test]",
        ..Settings::default()
    });
    let broker = site.start();
    let mut client = broker.connect().await;
    let body: Vec<u8> = (0..800_000_u32).flat_map(u32::to_be_bytes).map(|byte| byte ^ 0x5a).collect();
    for _ in 0..9 {
        client.put("test", 0, &body).await;
    }
    let dir = site.data().join("test-0");
    let begun = || async { files(&dir).contains_key("tmp").then_some(()).ok_or_else(|| format!("{:?}", files(&dir))) };
    eventually("the first segment is being compressed", begun).await;
    broker.stop();
    let left = files(&dir);
    assert_eq!(left.keys().collect::<Vec<_>>(), ["meta"], "{left:?}");
    assert_eq!(left["meta"].len(), 2);
}
