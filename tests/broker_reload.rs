//! A broker that takes over a changed configuration file while it runs (03 §7).

#![cfg(feature = "broker")]
// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

#[path = "broker_reload/load.rs"]
mod load;
#[path = "broker_reload/process.rs"]
mod process;
#[path = "broker_reload/refused.rs"]
mod refused;
#[path = "broker_reload/site.rs"]
mod site;

use std::path::Path;

use common::raw::{Raw, put_frame};
use site::Site;

/// The offset that a get beyond the end is told: everything before it is visible.
async fn visible_end(client: &mut Raw, topic: &str) -> String {
    let answer = client.ask(format!("offset {topic} g 0 {} 3\r\n", i64::MAX)).await;
    answer.lines().nth(1).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_new_topic_takes_messages_at_once_over_connections_that_are_open() {
    let site = Site::start("[topic=test]\n").await;
    let mut client = site.connect().await;
    assert!(client.ask(put_frame("new", 0, b"m", 1)).await.contains("The server do not accept topic new"));
    assert_eq!(client.put("test", 0, b"m").await, 0);
    let report = site.reload("[topic=test]\n[topic=new]\nnumPartitions=3\n").await.unwrap();
    assert_eq!(report.to_string(), "Reload config successfully.\ntopic new: added, numPartitions 3\n");
    assert_eq!(client.put("new", 2, b"m").await, 0);
    assert_eq!(client.put("test", 0, b"m").await, 21);
    let checksum = crc32fast::hash(&site.file());
    assert!(client.ask("stats  4\r\n").await.contains(&format!("config_checksum {checksum}\r\n")));
}

#[tokio::test]
async fn fewer_partitions_take_no_messages_any_more_but_are_read_as_before() {
    let site = Site::start("[topic=test]\nnumPartitions=3\n").await;
    let mut client = site.connect().await;
    // Twice, so that the second one takes the short way, which must be closed as well.
    assert_eq!([client.put("test", 2, b"m").await, client.put("test", 2, b"m").await], [0, 21]);
    site.reload("[topic=test]\nnumPartitions=2\n").await.unwrap();
    assert!(client.ask(put_frame("test", 2, b"m", 1)).await.contains("wrong partition 2"));
    assert_eq!(client.get("test", 2, 0).await.map(|data| data.len()), Some(42));
    assert_eq!(client.put("test", 1, b"m").await, 0);
    site.reload("[topic=test]\nnumPartitions=4\n").await.unwrap();
    assert_eq!([client.put("test", 2, b"m").await, client.put("test", 3, b"m").await], [42, 0]);
}

#[tokio::test]
async fn a_removed_topic_refuses_puts_and_serves_gets_and_comes_back() {
    let site = Site::start("[topic=test]\n[topic=old]\n").await;
    let mut client = site.connect().await;
    assert_eq!([client.put("old", 0, b"m").await, client.put("old", 0, b"m").await], [0, 21]);
    let report = site.reload("[topic=test]\n").await.unwrap();
    assert!(report.to_string().contains("topic old: removed"), "{report}");
    assert!(client.ask(put_frame("old", 0, b"m", 1)).await.contains("The server do not accept topic old"));
    assert_eq!(client.get("old", 0, 0).await.map(|data| data.len()), Some(42));
    site.reload("[topic=test]\n[topic=old]\n").await.unwrap();
    assert_eq!(client.put("old", 0, b"m").await, 42);
}

#[tokio::test]
async fn a_topic_that_only_a_pattern_admits_any_more_lives_on() {
    let site = Site::start("[topic=test]\n[topic=w-1]\nnumPartitions=5\n").await;
    let mut client = site.connect().await;
    assert_eq!(client.put("w-1", 4, b"m").await, 0);
    site.reload("[topic=test]\n[topic=w-*]\n").await.unwrap();
    assert_eq!(client.put("w-1", 0, b"m").await, 0);
    assert!(client.ask(put_frame("w-1", 4, b"m", 1)).await.contains("wrong partition 4"));
    site.reload("[topic=test]\n").await.unwrap();
    assert!(client.ask(put_frame("w-1", 0, b"m", 1)).await.contains("The server do not accept topic w-1"));
}

#[tokio::test]
async fn the_way_of_flushing_changes_at_once_in_both_directions() {
    let periodic = "[topic=test]\nunflushThreshold=1000\nunflushInterval=3600000\n";
    let site = Site::start(periodic).await;
    let mut client = site.connect().await;
    client.put("test", 0, b"m").await;
    assert_eq!(visible_end(&mut client, "test").await, "0", "an offset query flushes nothing");
    site.reload("[topic=test]\nunflushThreshold=0\n").await.unwrap();
    client.put("test", 0, b"m").await;
    assert_eq!(visible_end(&mut client, "test").await, "42");
    site.reload(periodic).await.unwrap();
    client.put("test", 0, b"m").await;
    assert_eq!(visible_end(&mut client, "test").await, "42");
    site.reload("[topic=test]\nunflushThreshold=1\n").await.unwrap();
    client.put("test", 0, b"m").await;
    common::eventually("more messages than the new threshold are flushed", async || {
        let end = visible_end(&mut site.connect().await, "test").await;
        if end == "84" { Ok(()) } else { Err(end) }
    })
    .await;
}

#[tokio::test]
async fn what_a_section_lacks_is_that_of_the_running_system_and_the_rest_waits_for_a_restart() {
    let site = Site::start("[topic=test]\n").await;
    let text = site.text("[topic=test]\n").replace("numPartitions=1\n", "numPartitions=7\n");
    let text = text.replace("maxSegmentSize=1048576", "maxSegmentSize=2000");
    let report = site.reload_text(&text).await.unwrap().to_string();
    assert_eq!(
        report,
        "Reload config successfully.\n\
         after a restart: [system] numPartitions 1 -> 7\n\
         after a restart: [system] maxSegmentSize 1048576 -> 2000\n"
    );
    let mut client = site.connect().await;
    assert!(client.ask(put_frame("test", 1, b"m", 1)).await.contains("wrong partition 1"));
}

#[tokio::test]
async fn an_unchanged_file_says_so_whatever_its_time_and_a_changed_one_counts_whatever_its_time() {
    let site = Site::start("[topic=test]\n").await;
    let report = site.reload("[topic=test]\n").await.unwrap();
    assert_eq!(report.to_string(), "Reload config successfully.\nThe file says what was in force already.\n");
    let time = std::fs::metadata(site.ini()).unwrap().modified().unwrap();
    std::fs::write(site.ini(), site.text("[topic=test]\n[topic=new]\n")).unwrap();
    std::fs::File::options().append(true).open(site.ini()).unwrap().set_modified(time).unwrap();
    assert_eq!(site.broker().control().reload().await.unwrap().changes.added.len(), 1);
}

#[tokio::test]
async fn a_changed_retention_is_in_force_at_once() {
    let site =
        Site::start_with("maxSegmentSize=100", "[topic=test]\ndeletePolicy=delete,1\ndeleteWhen=0 0 0 1 1 ? 2298\n")
            .await;
    let mut client = site.connect().await;
    for _ in 0..10 {
        client.put("test", 0, &[7; 100]).await;
    }
    assert_eq!(client.ask("offset test g 0 0 3\r\n").await, "result 200 1 3\r\n0");
    site.reload("[topic=test]\ndeletePolicy=delete,0s\ndeleteWhen=* * * * * ?\n").await.unwrap();
    common::eventually("all segments but the last, which is empty, are removed", async || {
        let removed = site.broker().control().retention().segments_removed;
        if removed == 10 { Ok(()) } else { Err(removed.to_string()) }
    })
    .await;
    assert_eq!(client.ask("offset test g 0 0 3\r\n").await, "result 200 4 3\r\n1200");
}

#[tokio::test]
async fn new_partitions_go_to_a_changed_data_path_and_what_lies_there_is_served() {
    let site = Site::start("[topic=test]\nnumPartitions=2\n").await;
    let other = site.dir().join("other");
    let mut client = site.connect().await;
    client.put("test", 0, b"m").await;
    // Left there by another broker: what the first message looks like on disk, where a get brings it.
    client.get("test", 0, 0).await.unwrap();
    std::fs::create_dir_all(other.join("moved-0")).unwrap();
    let segment = |partition: &Path| partition.join("00000000000000000000.meta");
    std::fs::copy(segment(&site.dir().join("data/test-0")), segment(&other.join("moved-0"))).unwrap();
    let report = site.reload(&format!("[topic=test]\nnumPartitions=2\ndataPath={}\n", other.display())).await.unwrap();
    assert!(report.to_string().contains("move the directories"), "{report}");
    assert_eq!(client.put("test", 0, b"m").await, 21);
    assert_eq!(client.put("test", 1, b"m").await, 0);
    assert!(other.join("test-1").is_dir() && !other.join("test-0").exists());
    assert!(client.ask("stats offsets 5\r\n").await.contains("moved part 0 min_offset 0 max_offset 21"));
}
