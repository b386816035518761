//! What the metrics say.

use std::collections::BTreeSet;

use crate::common::eventually;
use crate::exposition::Exposition;
use crate::rig::{Running, Setup, project};

async fn scrape(broker: &Running) -> Exposition {
    let answer = broker.get("/metrics").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/plain; version=0.0.4; charset=utf-8")));
    Exposition::parse(answer.text())
}

async fn until_connections(broker: &Running, count: f64) {
    eventually("as many connections", || async {
        let connections = scrape(broker).await.value("metaq_connections");
        if connections == count { Ok(()) } else { Err(connections.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn values_follow_what_is_done() {
    let topics = "[topic=test]\nnumPartitions=3\n[topic=lazy]\nunflushThreshold=1000\nunflushInterval=3600000\n";
    let broker = Running::with(Setup { topics, metaq: "maxConnections=3", ..Setup::default() });
    let mut client = broker.client().await;
    for body in [&b"hello"[..], b"world", &[b'x'; 100_000]] {
        client.put("test", 1, body).await;
    }
    client.put("lazy", 0, b"flushed for a reader").await;
    // Without the wait it is luck whether the flush is in time for the first get.
    let flushed = client.ask("get lazy g 0 0 1048576 2 wait=20000\r\n").await;
    assert!(flushed.starts_with("value 40 2\r\n"), "flushed for this reader: {flushed}");
    assert!(client.get("test", 1, 0).await.is_some());
    assert!(client.get("test", 1, 100_070).await.is_none(), "the end");
    client.ask("get test g 1 0 0 1\r\n").await;
    client.ask("offset test g 1 0 1\r\n").await;
    client.ask("put nobody 0 1 0 -1 1\r\nx").await;
    client.ask("transaction null s1 RECOVER 1\r\n").await;
    assert_eq!(broker.post("/api/v1/partitions/close", r#"{"topic":"test","start":1,"end":9}"#).await.status, 200);
    client.ask("put test 1 1 0 -1 1\r\nx").await;
    let mut malformed = broker.client().await;
    malformed.send("nonsense\r\n").await;
    malformed.expect_end().await;
    drop(malformed);
    until_connections(&broker, 1.0).await;
    let (_second, _third) = (broker.client().await, broker.client().await);
    until_connections(&broker, 3.0).await;
    broker.client().await.expect_end().await;

    let metrics = scrape(&broker).await;
    let is = |name: &str, value: f64| assert_eq!(metrics.value(name), value, "{name}");
    is("metaq_puts_total", 6.0);
    is("metaq_put_failures_total", 1.0);
    is("metaq_put_bytes_total", 100_030.0);
    is("metaq_put_duration_seconds_count", 4.0);
    is("metaq_gets_total", 4.0);
    is("metaq_get_misses_total", 1.0);
    is("metaq_get_bytes_total", 100_070.0 + 40.0);
    is("metaq_get_duration_seconds_count", 2.0);
    is("metaq_offset_queries_total", 1.0);
    for (code, count) in [("301", 0.0), ("400", 1.0), ("403", 1.0), ("404", 1.0), ("500", 2.0), ("503", 0.0)] {
        is(&format!("metaq_refusals_total{{code=\"{code}\"}}"), count);
    }
    is("metaq_connections", 3.0);
    is("metaq_connections_max", 3.0);
    is("metaq_connections_accepted_total", 4.0);
    is("metaq_connections_refused_total", 1.0);
    is("metaq_connections_cut_total{reason=\"malformed\"}", 1.0);
    is("metaq_connections_cut_total{reason=\"silent\"}", 0.0);
    is("metaq_flush_duration_seconds_count", 1.0);
    is("metaq_healthy", 1.0);
    is("metaq_live", 1.0);
    is("metaq_ready", 1.0);
    is("metaq_commit_log_failed", 0.0);
    is("metaq_commit_log_full", 0.0);
    is("metaq_commit_log_waits_total", 0.0);
    is("metaq_commit_log_files{state=\"used\"}", 1.0);
    is("metaq_commit_log_files{state=\"full\"}", 0.0);
    is("metaq_topics", 2.0);
    is("metaq_partitions", 2.0);
    is("metaq_partitions_closed", 1.0);
    is("metaq_partitions_poisoned", 0.0);
    is("metaq_partitions_full", 0.0);
    is("metaq_segments", 2.0);
    is("metaq_stored_bytes", 100_070.0 + 40.0);
    is("metaq_stored_messages", 4.0);
    is("metaq_partition_series_omitted", 0.0);
    let of = |name: &str, value: f64| is(&format!("metaq_partition_{name}{{topic=\"test\",partition=\"1\"}}"), value);
    of("min_offset", 0.0);
    of("max_offset", 100_070.0);
    of("written_offset", 100_070.0);
    of("bytes", 100_070.0);
    of("segments", 1.0);
    of("messages", 3.0);
    let data = format!("{{path=\"{}\"}}", broker.home.data().display());
    is(&format!("metaq_data_path_stored_bytes{data}"), 100_110.0);
    assert!(metrics.value(&format!("metaq_data_path_free_bytes{data}")) > 0.0);
    is("metaq_registration_state{state=\"off\"}", 1.0);
    assert_eq!(metrics.count("metaq_registration_state"), 8);
    for histogram in ["metaq_commit_log_write_duration_seconds", "metaq_commit_log_sync_duration_seconds"] {
        // At least one for each put that waited for it, sent one after the other.
        assert!(metrics.value(&format!("{histogram}_count")) >= 2.0, "{histogram}");
    }
    is(&format!("metaq_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")), 1.0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let age = now - metrics.value("metaq_start_time_seconds");
    assert!((-1.0..600.0).contains(&age), "{age}");
    let resident = metrics.value("process_resident_memory_bytes");
    assert!(resident > 1e6 && resident < metrics.value("process_virtual_memory_bytes"));
    assert!(metrics.value("process_open_fds") > 5.0 && metrics.value("process_threads") > 5.0);
}

#[tokio::test]
async fn a_checkpoint_counts_the_syncs_of_segments() {
    let broker = Running::with(Setup { metaq: "commitLogFileBytes=1048576", ..Setup::default() });
    assert_eq!(scrape(&broker).await.value("metaq_segment_sync_duration_seconds_count"), 0.0);
    let mut client = broker.client().await;
    for _ in 0..40 {
        client.put("test", 0, &[b'x'; 60_000]).await;
    }
    eventually("a full file of the log is checkpointed", || async {
        let metrics = scrape(&broker).await;
        let syncs = metrics.value("metaq_segment_sync_duration_seconds_count");
        if syncs > 0.0 { Ok(()) } else { Err(format!("{syncs}")) }
    })
    .await;
}

/// Where the names that others rely on are kept.
const NAMES: &str = "tests/fixtures/metrics/names.txt";

#[tokio::test]
async fn names_and_types_are_those_that_others_rely_on_and_all_are_explained() {
    let broker = Running::start();
    broker.client().await.put("test", 0, b"hello").await;
    let told = scrape(&broker).await.names();
    let kept = project(NAMES);
    assert!(
        told == kept,
        "{NAMES} has other metrics than these; a new name belongs there, an old one must stay:\n{told}"
    );
    let rows: BTreeSet<String> = project("docs/metrics.md")
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let (name, kind) = (cells.next()?.trim_end_matches('`').to_owned(), cells.next()?.to_owned());
            Some(format!("{name} {kind}"))
        })
        .collect();
    assert_eq!(rows, kept.lines().map(str::to_owned).collect(), "docs/metrics.md explains each");
}

#[tokio::test]
async fn what_belongs_to_no_partition_any_more_is_not_told() {
    let broker = Running::start();
    let metrics = scrape(&broker).await;
    assert_eq!(metrics.find("metaq_partition_bytes{topic=\"test\",partition=\"0\"}"), None);
    assert_eq!((metrics.value("metaq_partitions"), metrics.count("metaq_partition_bytes")), (0.0, 0));
}
