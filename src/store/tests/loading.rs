use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tempfile::TempDir;

use super::super::{Store, StoreError, TopicSettings};
use super::faulty::FaultyFs;
use super::kit::*;
use crate::common::guard::lock;
use crate::id::{MessageId, Offset, PartitionIndex};
use crate::message::{RecordHeader, checksum};

const P0: PartitionIndex = PartitionIndex::new(0);

fn record(id: i64, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let length = i32::try_from(body.len()).unwrap();
    RecordHeader { length, checksum: checksum(body), id: MessageId::new(id), flag: 0 }.encode(&mut out);
    out.extend_from_slice(body);
    out
}

/// A data directory with the given files, each below `data`.
fn data_dir(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = dir.path().join("data").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    dir
}

fn refusal(dir: &TempDir) -> String {
    let before = snapshot(dir.path());
    let text = open(&options(dir.path())).unwrap_err().to_string();
    let mut after = snapshot(dir.path());
    after.retain(|(path, _)| !path.ends_with("transactions"));
    assert_eq!(before, after, "a refused start changes nothing");
    text
}

#[test]
fn every_partition_directory_is_loaded_and_everything_else_is_ignored() {
    let hello = record(-9, b"hello");
    let dir = data_dir(&[
        ("a-0/00000000000000000000.meta", &hello),
        ("a-1/0.meta", &hello),
        ("a-1/00000000000000000000.meta.arc", b"archived"),
        ("a-1/00000000000000000000.meta.zip", b"archived"),
        ("a-1/notes.txt", b""),
        ("my-topic-12/00000000000000002048.meta", &hello),
        ("empty-0/keep", b""),
        ("transactions/heuristic.log", b""),
        ("lost+found/x", b""),
        ("zz-top", b"a plain file"),
    ]);
    fs::create_dir(dir.path().join("data/a-1/5.meta")).unwrap();
    let store = open(&options(dir.path())).unwrap();
    let mut names: Vec<_> = store.partitions().iter().map(|p| p.name().to_string()).collect();
    names.sort();
    assert_eq!(names, ["a-0", "a-1", "empty-0", "my-topic-12"]);
    let shifted = store.get("my-topic", PartitionIndex::new(12)).unwrap();
    assert_eq!((shifted.min_offset(), shifted.max_offset()), (Offset::new(2048), Offset::new(2073)));
    assert_eq!(read_all(&shifted)[0].id, MessageId::new(-9));
    let unpadded = store.get("a", PartitionIndex::new(1)).unwrap();
    assert_eq!(bodies(&unpadded), ["hello"]);
    let empty = store.get("empty", P0).unwrap();
    assert_eq!(put(&store, &empty, b"x").unwrap().offset, Offset::ZERO);
    assert!(store.health().is_healthy());
}

#[test]
fn a_torn_or_zero_filled_tail_is_cut_and_written_over() {
    let good = [record(1, b"hello"), record(2, b"world")].concat();
    let mut damaged = record(3, b"damaged");
    damaged[21] ^= 1;
    for tail in [&record(3, b"torn")[..23], &[0; 55], &[0; 20], &damaged, &[0xff; 100], &[7]] {
        let dir = data_dir(&[("t-0/00000000000000000000.meta", &[&good[..], tail].concat())]);
        let store = open(&options(dir.path())).unwrap();
        let partition = store.get("t", P0).unwrap();
        assert_eq!(fs::metadata(dir.path().join("data/t-0/00000000000000000000.meta")).unwrap().len(), 50);
        assert_eq!((partition.max_offset(), partition.message_count()), (Offset::new(50), 2));
        assert_eq!(put(&store, &partition, b"again").unwrap().offset, Offset::new(50));
        assert_eq!(bodies(&partition), ["hello", "world", "again"]);
        let kept = fs::read(dir.path().join("data/t-0/00000000000000000000.meta.cut-50")).unwrap_or_default();
        assert_eq!(kept, if tail.iter().any(|&byte| byte != 0) { tail } else { b"" }, "what was cut is kept aside");
    }
}

#[test]
fn messages_behind_a_damaged_one_are_kept_aside_and_not_destroyed() {
    let mut log: Vec<u8> = (1..=1000).flat_map(|id| record(id, &[b'x'; 2000])).collect();
    log[2020 * 10 + 25] ^= 1;
    let dir = data_dir(&[("t-0/00000000000000000000.meta", &log)]);
    for _ in 0..2 {
        let store = open(&options(dir.path())).unwrap();
        assert_eq!(store.get("t", P0).unwrap().max_offset(), Offset::new(20_200));
    }
    assert!(fs::read(dir.path().join("data/t-0/00000000000000000000.meta.cut-20200")).unwrap() == log[20_200..]);
}

#[test]
fn only_the_last_segment_is_scanned_and_an_empty_last_one_is_kept() {
    let mut first = record(1, b"hello");
    first[22] ^= 1;
    let dir = data_dir(&[("t-0/00000000000000000000.meta", &first), ("t-0/00000000000000000025.meta", b"")]);
    let store = open(&options(dir.path())).unwrap();
    let partition = store.get("t", P0).unwrap();
    assert_eq!((partition.max_offset(), partition.message_count()), (Offset::new(25), 0));
    assert!(partition.record_at(Offset::ZERO).is_err(), "the damage is the reader's to see");
    assert_eq!(put(&store, &partition, b"world").unwrap().offset, Offset::new(25));
    assert_eq!(partition.segments().len(), 2);
}

#[test]
fn gaps_overlaps_and_double_starts_are_refused_with_both_files() {
    let hello = record(1, b"hello");
    for (second, content) in [("24", &hello), ("26", &hello), ("0", &hello)] {
        let name = format!("t-0/{second}.meta");
        let torn = [&hello[..], b"torn tail"].concat();
        let dir = data_dir(&[
            ("a-0/00000000000000000000.meta", &torn),
            ("t-0/00000000000000000000.meta", &hello),
            (&name, content),
        ]);
        let text = refusal(&dir);
        assert!(text.starts_with("The following segments don't validate: "), "{text}");
        let path = |name: &str| dir.path().join("data").join(name).display().to_string();
        assert!(text.contains(&path(&name)) && text.contains(&path("t-0/00000000000000000000.meta")), "{text}");
    }
    let dir = data_dir(&[("t-0/0.meta", b""), ("t-0/00000000000000000000.meta", &hello)]);
    assert!(refusal(&dir).starts_with("The following segments don't validate: "));
}

#[test]
fn names_that_are_no_partition_or_no_offset_are_refused_and_named() {
    for (name, expected) in [
        ("foo-bar/x", "foo-bar is not named <topic>-<partition>: 'bar' is not a partition number"),
        ("-5/x", "-5 is not named <topic>-<partition>: a topic name must not be empty"),
        ("t-0/foo.meta", "t-0/foo.meta is not named by the offset"),
        ("t-0/.meta", "t-0/.meta is not named by the offset"),
        ("t-0/-5.meta", "t-0/-5.meta begins at a negative offset"),
        ("t-0/9223372036854775807.meta", "t-0/9223372036854775807.meta ends beyond the largest offset"),
    ] {
        let text = refusal(&data_dir(&[(name, b"x")]));
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_partition_in_two_places_is_refused_with_both() {
    let dir = data_dir(&[("t-0/0.meta", b""), ("../other/t-0/0.meta", b"")]);
    let mut options = options(dir.path());
    options.topic_data_paths = vec![dir.path().join("other")];
    let text = open(&options).unwrap_err().to_string();
    assert!(text.starts_with("partition t-0 lies in two places, "), "{text}");
    for place in ["data/t-0", "other/t-0"] {
        assert!(text.contains(&dir.path().join(place).display().to_string()), "{text}");
    }
    let dir = data_dir(&[("t-0/0.meta", b""), ("t-00/0.meta", b"")]);
    assert!(refusal(&dir).starts_with("partition t-0 lies in two places, "));
}

#[test]
fn a_topic_has_a_data_path_of_its_own_and_old_partitions_stay_where_they_are() {
    let hello = record(1, b"hello");
    let dir = data_dir(&[("t-0/0.meta", &hello)]);
    let other = dir.path().join("other");
    let settings = TopicSettings { data_path: Some(other.clone()), ..GROUP_COMMIT };
    let mut options = options(dir.path());
    options.topic_data_paths = vec![other.clone(), dir.path().join("data/../other"), dir.path().join("data")];
    for round in 1..=2 {
        let store = open(&options).unwrap();
        for index in [0, 1] {
            let partition = store.get_or_create(&topic("t"), PartitionIndex::new(index), &settings).unwrap();
            put(&store, &partition, b"more").unwrap();
        }
        assert_eq!(read_all(&store.get("t", P0).unwrap()).len(), 1 + round);
        assert_eq!(read_all(&store.get("t", PartitionIndex::new(1)).unwrap()).len(), round);
        assert!(dir.path().join("data/t-0").is_dir() && other.join("t-1").is_dir());
        assert!(!other.join("t-0").exists() && !dir.path().join("data/t-1").exists());
    }
}

#[test]
fn a_data_path_that_comes_later_is_locked_and_loaded() {
    let hello = record(3 << 60, b"hello");
    let dir = data_dir(&[("a-0/0.meta", b""), ("../other/b-0/0.meta", &hello)]);
    let settings = TopicSettings { data_path: Some(dir.path().join("other")), ..GROUP_COMMIT };
    let store = open(&options(dir.path())).unwrap();
    assert!(store.get("b", P0).is_none());
    let partition = store.get_or_create(&topic("b"), P0, &settings).unwrap();
    assert_eq!(bodies(&partition), ["hello"]);
    assert!(put(&store, &partition, b"x").unwrap().id > MessageId::new(3 << 60));
    let mut second = options(dir.path());
    (second.data_path, second.data_log_path) = (dir.path().join("other"), dir.path().join("log"));
    assert!(matches!(open(&second), Err(StoreError::InUse(path)) if path.ends_with("other")));

    fs::create_dir_all(dir.path().join("conflict/a-0")).unwrap();
    let settings = TopicSettings { data_path: Some(dir.path().join("conflict")), ..GROUP_COMMIT };
    let refused = store.get_or_create(&topic("c"), P0, &settings);
    assert!(matches!(refused, Err(StoreError::TwoPlaces { .. })));
    second.data_path = dir.path().join("conflict");
    open(&second).expect("a refused data path is not kept locked");
}

/// Adds a data path with partition `b-0`, does something else while it is being loaded, and returns what came of it.
fn while_a_path_is_loaded(bench: &Bench, work: impl FnOnce()) -> Result<(), StoreError> {
    let other = bench.dir.path().join("other");
    fs::create_dir_all(other.join("b-0")).unwrap();
    fs::write(other.join("b-0/0.meta"), record(3 << 60, b"hello")).unwrap();
    bench.faults.hold_syncs(true);
    std::thread::scope(|scope| {
        let adding = scope.spawn(|| bench.store.add_data_paths(&[&other]).map_err(|refused| refused.source));
        let started = Instant::now();
        while !lock(&bench.store.locks).has(&other) {
            assert!(started.elapsed() < DEADLINE);
            std::thread::yield_now();
        }
        work();
        assert!(!adding.is_finished(), "the work was done meanwhile");
        bench.faults.hold_syncs(false);
        adding.join().unwrap()
    })
}

#[test]
fn partitions_are_made_while_a_data_path_is_loaded() {
    let bench = Bench::new(|_| ());
    while_a_path_is_loaded(&bench, || {
        bench.partition("t", 0, &GROUP_COMMIT);
        assert!(bench.store.get("b", P0).is_none(), "nothing is served before all is loaded");
    })
    .unwrap();
    assert_eq!(bodies(&bench.store.get("b", P0).unwrap()), ["hello"]);
}

#[test]
fn a_partition_that_is_made_while_it_is_loaded_elsewhere_refuses_the_path() {
    let bench = Bench::new(|_| ());
    let refused = while_a_path_is_loaded(&bench, || {
        let made = bench.partition("b", 0, &GROUP_COMMIT);
        assert_eq!(put(&bench.store, &made, b"mine").unwrap().offset, Offset::ZERO);
    });
    assert!(matches!(refused, Err(StoreError::TwoPlaces { .. })), "{refused:?}");
    assert_eq!(bodies(&bench.store.get("b", P0).unwrap()), ["mine"]);
    assert!(!lock(&bench.store.locks).has(&bench.dir.path().join("other")));
}

#[test]
fn a_directory_is_used_by_one_broker_only() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(&options(dir.path())).unwrap();
    let text = open(&options(dir.path())).unwrap_err().to_string();
    let data = dir.path().join("data");
    assert!(text.starts_with(&format!("the directory {} is in use by another broker", data.display())), "{text}");
    let mut same_log = options(dir.path());
    same_log.data_path = dir.path().join("elsewhere");
    let text = open(&same_log).unwrap_err().to_string();
    assert!(text.contains(&format!("{} is in use", data.join("transactions").display())), "{text}");
    assert_eq!(files(&data).iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["transactions"], "no lock file");
    drop(first);
    open(&options(dir.path())).unwrap();
}

#[test]
fn missing_data_paths_are_made_but_not_their_parents() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    options.topic_data_paths = vec![dir.path().join("topic")];
    options.data_log_path = dir.path().join("log");
    open(&options).unwrap();
    for made in ["data", "topic", "log/transactions"] {
        assert!(dir.path().join(made).is_dir(), "{made}");
    }
    options.data_path = dir.path().join("no/such");
    let text = open(&options).unwrap_err().to_string();
    assert!(text.starts_with(&format!("Could not make data directory {}", options.data_path.display())), "{text}");
    fs::write(dir.path().join("file"), b"").unwrap();
    options.data_path = dir.path().join("file");
    let text = open(&options).unwrap_err().to_string();
    assert_eq!(text, format!("Data path {} is not a readable directory", options.data_path.display()));
}

#[test]
fn the_journal_of_another_broker_is_told_and_left_alone() {
    let dir = data_dir(&[
        ("transactions/redo.1", b"journal"),
        ("transactions/redo.2", b""),
        ("transactions/checkpoint.1", b"x"),
        ("transactions/heuristic.log", b"log"),
    ]);
    let before = snapshot(&dir.path().join("data/transactions"));
    let store = open(&options(dir.path())).unwrap();
    let partition = store.get_or_create(&topic("t"), P0, &GROUP_COMMIT).unwrap();
    put(&store, &partition, b"x").unwrap();
    let warning = store.health().journal_warning.unwrap();
    assert!(warning.contains("redo.1 (7 bytes)") && !warning.contains("redo.2"), "{warning}");
    store.close().unwrap();
    let mut after = snapshot(&dir.path().join("data/transactions"));
    after.retain(|(path, _)| !path.ends_with("ids") && !path.ends_with("clean.stop"));
    assert_eq!(before, after);
}

#[test]
fn a_last_segment_that_cannot_be_synced_is_poisoned_and_older_ones_are_served() {
    let hello = record(1, b"hello");
    let dir = data_dir(&[("t-0/0.meta", &hello), ("t-0/25.meta", &hello)]);
    let fs = FaultyFs::default();
    fs.faults.fail_sync.store(true, Ordering::SeqCst);
    let store = Store::open(options(dir.path()), Arc::new(fs)).unwrap();
    let partition = store.get("t", P0).unwrap();
    assert!(partition.poison().is_some());
    assert_eq!(read_all(&partition).len(), 1);
    assert!(put(&store, &partition, b"x").is_err());
}

#[test]
fn ids_go_on_behind_the_largest_one_found_but_follow_no_damaged_header() {
    let far = 3_i64 << 60;
    let dir = data_dir(&[("a-0/0.meta", &record(far, b"x")), ("b-0/0.meta", &record(i64::MAX, b"x"))]);
    let store = open(&options(dir.path())).unwrap();
    let id = store.ids().next_id();
    assert!(MessageId::new(far) < id && id < MessageId::new(far + (1 << 30)), "{id}");
}
