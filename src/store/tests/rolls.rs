//! Rolls that the power or the process ended in the middle.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::super::Store;
use super::faulty::FaultyFs;
use super::kit::*;
use super::log_kit::*;
use crate::id::{Offset, PartitionIndex};

const P0: PartitionIndex = PartitionIndex::new(0);
const FIRST: &str = "00000000000000000000.meta";
const SECOND: &str = "00000000000000000100.meta";

/// Records of 25 bytes each.
fn five(first: i64, count: i64) -> Vec<u8> {
    (first..first + count).flat_map(|id| record(id << 30, format!("{id:05}").as_bytes())).collect()
}

/// A log that has the first two of four records, and segments with this content.
fn crashed(first: &[u8], second: &[u8]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let partition = dir.path().join("data/t-0");
    fs::create_dir_all(&partition).unwrap();
    fs::create_dir(dir.path().join("data/transactions")).unwrap();
    fs::write(partition.join(FIRST), first).unwrap();
    fs::write(partition.join(SECOND), second).unwrap();
    let mut log = LogFileKit::new(1, 1);
    log.records("t", 0, 0, 0, &five(1, 2));
    log.write(&dir.path().join("data/transactions"));
    dir
}

fn names(dir: &Path) -> Vec<String> {
    files(&dir.join("data/t-0")).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_segment_that_was_begun_before_its_predecessor_was_durable_is_put_away() {
    let short = five(1, 3);
    let zeros = [five(1, 3), vec![0; 25]].concat();
    for (first, kept) in [(&short[..], 3), (&zeros[..], 3), (&short[..40], 2)] {
        for second in [&b""[..], &five(5, 1)] {
            let dir = crashed(first, second);
            let store = open(&options(dir.path())).unwrap();
            let partition = store.get("t", P0).unwrap();
            assert_eq!(read_all(&partition).len(), kept);
            let away = format!("{SECOND}.cut-0");
            assert_eq!(names(dir.path()).contains(&away), !second.is_empty(), "what is in it is kept aside");
            assert!(!names(dir.path()).contains(&SECOND.to_owned()));
            assert_eq!(
                put(&store, &partition, b"next").unwrap().offset,
                Offset::new(25 * i64::try_from(kept).unwrap())
            );
        }
    }
}

#[test]
fn messages_that_only_the_segments_have_after_a_kill_are_made_durable_in_all_of_them() {
    let dir = crashed(&five(1, 4), &five(5, 1));
    let fs = FaultyFs::default();
    let store = Store::open(options(dir.path()), Arc::new(fs.clone())).unwrap();
    assert_eq!(read_all(&store.get("t", P0).unwrap()).len(), 5);
    let events = fs.faults.take_events();
    for needed in [FIRST, SECOND, "t-0", "data"] {
        assert!(events.contains(&format!("sync {needed}")), "{needed}: {events:?}");
    }
}

#[test]
fn a_gap_is_refused_where_the_log_vouches_for_what_is_missing() {
    let dir = crashed(&five(1, 2), &five(5, 1));
    let mut log = LogFileKit::new(2, 2);
    log.records("t", 0, 100, 125, &five(6, 1));
    log.write(&dir.path().join("data/transactions"));
    let text = open(&options(dir.path())).unwrap_err().to_string();
    assert!(text.starts_with("The following segments don't validate: "), "{text}");
}
