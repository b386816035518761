use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::super::commit_log::table::Checkpoint;
use super::super::fs::{Access, FileSystem, OsFileSystem};
use super::super::{Store, clean_stop};
use super::kit::*;
use super::log_kit::*;
use crate::id::{MessageId, Offset, PartitionIndex};

const P0: PartitionIndex = PartitionIndex::new(0);
const SEGMENT: &str = "00000000000000000000.meta";

/// Three topics of one partition with two messages of 25 bytes each, stopped cleanly.
fn stopped() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&options(dir.path())).unwrap();
    for name in ["a", "b", "c"] {
        let partition = store.get_or_create(&topic(name), P0, &GROUP_COMMIT).unwrap();
        put(&store, &partition, b"hello").unwrap();
        put(&store, &partition, b"world").unwrap();
    }
    store.close().unwrap();
    dir
}

fn segment(dir: &Path, name: &str) -> PathBuf {
    dir.join("data").join(format!("{name}-0")).join(SEGMENT)
}

/// Damages the second message without a change of length or time, so that only who reads it knows.
fn damage_secretly(path: &Path) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    file.write_all_at(b"W", 45).unwrap();
    file.set_modified(modified).unwrap();
}

fn ends(store: &Store) -> Vec<(i64, u64)> {
    ["a", "b", "c"]
        .map(|name| store.get(name, P0).unwrap())
        .map(|partition| (partition.max_offset().get(), partition.message_count()))
        .to_vec()
}

fn clean_stop_file(dir: &Path) -> PathBuf {
    dir.join("data/transactions/clean.stop")
}

#[test]
fn after_a_clean_stop_no_segment_is_read_and_counts_go_on() {
    let dir = stopped();
    ["a", "b", "c"].into_iter().for_each(|name| damage_secretly(&segment(dir.path(), name)));
    for _ in 0..2 {
        let store = open(&options(dir.path())).unwrap();
        assert_eq!(ends(&store), [(50, 2); 3]);
        assert!(store.recovery().clean_stop);
        assert!(!clean_stop_file(dir.path()).exists(), "a crash from here on is no clean stop");
        store.close().unwrap();
    }
    drop(open(&options(dir.path())).unwrap());
    let store = open(&options(dir.path())).unwrap();
    assert!(!store.recovery().clean_stop);
    assert_eq!(ends(&store), [(25, 1); 3], "everything is read after a crash");
}

#[test]
fn only_partitions_that_were_changed_since_are_read() {
    let touch =
        |path: &Path| File::options().append(true).open(path).unwrap().set_modified(std::time::SystemTime::now());
    type Change = Box<dyn Fn(&Path)>;
    let changes: [(&str, Change); 3] = [
        ("time", Box::new(move |path| touch(path).unwrap())),
        ("another segment", Box::new(|path| fs::write(path.with_file_name("50.meta"), b"").unwrap())),
        (
            "length",
            Box::new(|path| {
                let file = File::options().append(true).open(path).unwrap();
                let modified = file.metadata().unwrap().modified().unwrap();
                std::io::Write::write_all(&mut &file, b"torn").unwrap();
                file.set_modified(modified).unwrap();
            }),
        ),
    ];
    for (what, change) in changes {
        let dir = stopped();
        ["a", "b", "c"].into_iter().for_each(|name| damage_secretly(&segment(dir.path(), name)));
        change(&segment(dir.path(), "b"));
        let store = open(&options(dir.path())).unwrap();
        let read = if what == "another segment" { (50, 0) } else { (25, 1) };
        assert_eq!(ends(&store), [(50, 2), read, (50, 2)], "{what}");
    }
    let dir = stopped();
    damage_secretly(&segment(dir.path(), "b"));
    fs::create_dir(dir.path().join("elsewhere")).unwrap();
    fs::rename(dir.path().join("data/b-0"), dir.path().join("elsewhere/b-0")).unwrap();
    let mut options = options(dir.path());
    options.topic_data_paths = vec![dir.path().join("elsewhere")];
    assert_eq!(ends(&open(&options).unwrap()), [(50, 2), (25, 1), (50, 2)], "moved");
}

#[test]
fn ids_ascend_without_their_state_file() {
    for damaged in [false, true] {
        let dir = stopped();
        // With a log instead of the record of the stop; the log says that nothing need be read.
        fs::remove_file(clean_stop_file(dir.path())).unwrap();
        let path = segment(dir.path(), "b");
        let far = MessageId::new(3 << 60);
        let mut content = fs::read(&path).unwrap();
        content[8..16].copy_from_slice(&far.get().to_be_bytes());
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, &content).unwrap();
        File::open(&path).unwrap().set_modified(modified).unwrap();
        let stamp = OsFileSystem.open(&path, Access::Read).unwrap().stamp().unwrap();
        let table = vec![Checkpoint { topic: topic("b"), partition: P0, segment: 0, stamp }];
        LogFileKit::with(LOG_ID, 1, 1, table).write(&dir.path().join("data/transactions"));
        let ids = dir.path().join("data/transactions/ids");
        if damaged {
            fs::write(&ids, [0; 700]).unwrap()
        } else {
            fs::remove_file(&ids).unwrap()
        }
        let store = open(&options(dir.path())).unwrap();
        assert!(store.ids().next_id() > far);
    }
    // The record of a stop names the largest one.
    let dir = stopped();
    let transactions = dir.path().join("data/transactions");
    fs::remove_file(transactions.join("ids")).unwrap();
    clean_stop::write(&OsFileSystem, &transactions, &[], MessageId::new(3 << 60), 7).unwrap();
    let store = open(&options(dir.path())).unwrap();
    assert!(store.ids().next_id() > MessageId::new(3 << 60));
    store.close().unwrap();
    let clean = clean_stop::read(&OsFileSystem, &transactions).unwrap().unwrap();
    assert_eq!(clean.partitions.len(), 3);
    assert!(clean.next_file_number > 7, "numbers of log files ascend for ever");
}

#[test]
fn a_record_of_a_stop_counts_for_nothing_beside_a_log() {
    let dir = stopped();
    ["a", "b", "c"].into_iter().for_each(|name| damage_secretly(&segment(dir.path(), name)));
    let stamp = |name: &str| OsFileSystem.open(&segment(dir.path(), name), Access::Read).unwrap().stamp().unwrap();
    let checkpoint =
        |name: &str, segment| Checkpoint { topic: topic(name), partition: P0, segment, stamp: stamp(name) };
    // The log knows of `a` that it is unchanged, of `b` that its last frames are at the end.
    let mut wrong = checkpoint("c", 0);
    wrong.stamp.modified_ns += 1;
    let mut log = LogFileKit::with(LOG_ID, 11, 5, vec![checkpoint("c", 0), checkpoint("a", 7)]);
    log.table(&[wrong, checkpoint("a", 0), checkpoint("b", 0)]).records("b", 0, 0, 50, &record(3 << 40, b"third"));
    log.write(&dir.path().join("data/transactions"));
    let store = open(&options(dir.path())).unwrap();
    assert_eq!(ends(&store), [(50, 0), (75, 1), (25, 1)]);
    assert!(!store.recovery().clean_stop);
    store.close().unwrap();
    let clean = clean_stop::read(&OsFileSystem, &dir.path().join("data/transactions")).unwrap().unwrap();
    assert!(clean.next_file_number > 12);
}

#[test]
fn a_partition_that_is_not_wholly_durable_is_not_recorded() {
    let bench = Bench::new(|_| {});
    let (good, bad) = (bench.partition("good", 0, &PERIODIC), bench.partition("bad", 0, &PERIODIC));
    put(&bench.store, &bad, b"x").unwrap();
    put(&bench.store, &good, b"x").unwrap();
    bench.store.flush();
    bench.faults.fail_sync.store(true, std::sync::atomic::Ordering::SeqCst);
    bad.make_checkpoint().unwrap_err();
    bench.store.close().unwrap_err();
    assert!(!clean_stop_file(bench.dir.path()).exists(), "no clean stop");
    assert_eq!((good.max_offset(), bad.max_offset()), (Offset::new(21), Offset::new(21)), "durable in the log");
    let dir = bench.data().join("transactions");
    clean_stop::write(&OsFileSystem, &dir, &[good, bad], MessageId::new(1), 0).unwrap();
    let clean = clean_stop::read(&OsFileSystem, &dir).unwrap().unwrap();
    assert_eq!(clean.partitions.into_keys().collect::<Vec<_>>(), [(topic("good"), P0)]);
    clean_stop::remove(&OsFileSystem, &dir).unwrap();
    let Bench { dir, store, .. } = bench;
    drop(store);
    let store = open(&options(dir.path())).unwrap();
    for name in ["good", "bad"] {
        assert_eq!(bodies(&store.get(name, P0).unwrap()), ["x"], "the log has stayed");
    }
}
