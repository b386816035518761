use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::set_aside::{self, Kind};
use super::super::{CommitLogError, OsFileSystem, RecoveryOutcome, Resolution, Store, StoreError, resolve_quarantine};
use super::faulty::FaultyFs;
use super::kit::*;
use super::log_kit::*;
use super::stopping::StoppingFs;
use crate::id::{Offset, PartitionIndex};

const P0: PartitionIndex = PartitionIndex::new(0);

/// A data directory in the making.
struct Data {
    dir: tempfile::TempDir,
}

impl Data {
    fn new() -> Self {
        Self::at(tempfile::tempdir().unwrap())
    }

    /// In memory where there is such a place, for tests with thousands of syncs.
    fn fast() -> Self {
        Self::at(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    fn at(dir: tempfile::TempDir) -> Self {
        fs::create_dir_all(dir.path().join("data/transactions")).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("data").join(name)
    }

    fn transactions(&self) -> PathBuf {
        self.path("transactions")
    }

    fn file(&self, name: &str, content: &[u8]) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn log(&self, log: &LogFileKit) -> &Self {
        log.write(&self.transactions());
        self
    }

    fn open(&self) -> Store {
        open(&options(self.dir.path())).unwrap()
    }

    fn open_with(&self, fs: &StoppingFs) -> Result<Store, StoreError> {
        Store::open(options(self.dir.path()), Arc::new(fs.clone()))
    }

    fn refusal(&self) -> StoreError {
        let before = snapshot(self.dir.path());
        let error = open(&options(self.dir.path())).unwrap_err();
        assert_eq!(before, snapshot(self.dir.path()), "a refused start changes nothing");
        error
    }

    fn content(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// Names in `transactions`, without those of no concern here.
    fn state(&self) -> Vec<String> {
        let mut names: Vec<_> = files(&self.transactions()).into_iter().map(|(name, _)| name).collect();
        names.retain(|name| name != "ids" && !is_new_log(&self.transactions().join(name)));
        names
    }
}

/// Whether a path is that of a file of the new log, in which nothing is yet.
fn is_new_log(path: &Path) -> bool {
    let is_log = path.file_name().is_some_and(|name| name.to_str().unwrap().starts_with("commitlog."));
    is_log && fs::read(path).unwrap().iter().all(|&byte| byte == 0)
}

/// Records of 25 bytes each, with ids from `first` on.
fn five(first: i64, count: i64) -> Vec<u8> {
    (first..first + count).flat_map(|id| record(id, format!("{id:05}").as_bytes())).collect()
}

const SEGMENT_0: &str = "t-0/00000000000000000000.meta";
const SEGMENT_100: &str = "t-0/00000000000000000100.meta";
const QUARANTINE: &str = "quarantine.t-0";
const PENDING: &str = "pending.t-0";

/// A log with the ten records of the first two segments, in frames of two, and two more behind them.
fn log() -> LogFileKit {
    let mut log = LogFileKit::new(1, 1);
    for (segment, offset, first, count) in
        [(0, 0, 1, 2), (0, 50, 3, 2), (100, 100, 5, 2), (100, 150, 7, 2), (200, 200, 9, 2)]
    {
        log.records("t", 0, segment, offset, &five(first, count));
    }
    log
}

fn all_ids(store: &Store) -> Vec<i64> {
    read_all(&store.get("t", P0).unwrap()).iter().map(|seen| seen.id.get()).collect()
}

#[test]
fn a_partition_that_only_the_log_knows_is_made_with_all_its_segments() {
    let data = Data::new();
    data.log(&log());
    let store = data.open();
    assert_eq!(all_ids(&store), (1..=10).collect::<Vec<_>>());
    let names: Vec<_> =
        files(&data.path("t-0")).into_iter().map(|(name, len)| (name[..20].parse().unwrap(), len)).collect();
    assert_eq!(names, [(0, 100), (100, 100), (200, 50)]);
    assert_eq!(data.state(), [""; 0], "the log is gone");
    let report = store.recovery();
    assert_eq!((report.log_files, report.frames, report.partitions.len()), (1, 5, 1));
    let partition = &report.partitions[0];
    assert_eq!((partition.written_bytes, partition.present_bytes), (250, 0));
    assert!(store.health().is_healthy());
    let appended = put(&store, &store.get("t", P0).unwrap(), b"more").unwrap();
    assert_eq!(appended.offset, Offset::new(250));
}

#[test]
fn segments_of_any_length_and_with_any_torn_tail_are_completed() {
    let whole = five(1, 10);
    for (i, cut) in (0..=250_usize).step_by(5).chain([1, 24, 26, 99, 101, 249]).enumerate() {
        for zeros in [0, [7, 60][i % 2]] {
            let data = Data::fast();
            let torn = |from: usize, to: usize| {
                let mut bytes = whole[from..cut.clamp(from, to)].to_vec();
                if cut < to {
                    bytes.resize((bytes.len() + zeros).min(to - from), 0);
                }
                bytes
            };
            data.file(SEGMENT_0, &torn(0, 100));
            if cut >= 100 {
                data.file(SEGMENT_100, &torn(100, 200));
            }
            if cut >= 200 {
                data.file("t-0/00000000000000000200.meta", &torn(200, 250));
            }
            data.log(&log());
            let store = data.open();
            assert_eq!(all_ids(&store), (1..=10).collect::<Vec<_>>(), "cut at {cut}, {zeros} zeros");
            assert!(store.health().is_healthy());
            let written = store.recovery().partitions[0].written_bytes;
            let missing = 250 - cut as u64;
            assert!(written <= missing + 75 && (zeros > 0 || written >= missing), "cut {cut}: {written}");
        }
    }
}

#[test]
fn an_earlier_segment_may_be_short_while_the_next_one_exists() {
    let data = Data::new();
    data.file(SEGMENT_0, &five(1, 1)).file(SEGMENT_100, b"").log(&log());
    assert_eq!(all_ids(&data.open()), (1..=10).collect::<Vec<_>>());
    assert_eq!(data.content(SEGMENT_0), five(1, 4));
}

#[test]
fn frames_of_segments_that_retention_removed_are_skipped() {
    let data = Data::new();
    data.file(SEGMENT_100, &five(5, 2)).log(&log());
    let store = data.open();
    assert_eq!(all_ids(&store), (5..=10).collect::<Vec<_>>());
    assert_eq!(store.recovery().partitions[0].removed_bytes, 100);
    assert!(!data.path(SEGMENT_0).exists());
}

#[test]
fn records_of_another_broker_are_never_overwritten_and_ours_are_set_aside() {
    let theirs = [&five(1, 3)[..], &record(900, b"theirs, and longer")].concat();
    let data = Data::new();
    data.file(SEGMENT_0, &theirs).log(&log());
    for restart in 0..3 {
        let store = data.open();
        let partition = store.get("t", P0).unwrap();
        assert_eq!(all_ids(&store), [1, 2, 3, 900], "restart {restart}");
        let reason = partition.poison().unwrap().to_string();
        assert!(
            reason.contains("quarantine.t-0") && reason.contains("metaq log resolve -f server.ini t 0"),
            "{reason}"
        );
        if restart == 0 {
            assert!(reason.contains("at offset 75") && reason.contains("id 900, 18 bytes"), "{reason}");
            assert_eq!(store.recovery().partitions[0].outcome, RecoveryOutcome::Quarantined);
        }
        put(&store, &partition, b"x").unwrap_err();
        assert_eq!(data.state(), [QUARANTINE]);
        if restart == 1 {
            store.close().unwrap();
            assert_eq!(data.state(), ["clean.stop", QUARANTINE]);
        }
    }
    assert_eq!(data.content(SEGMENT_0), theirs);
    assert_eq!(quarantined(&data), five(4, 7));
    // Replayed once more, from its end only, it is neither added twice nor applied.
    let mut rest = LogFileKit::new(2, 3);
    rest.records("t", 0, 100, 100, &five(5, 2)).records("t", 0, 100, 150, &five(7, 2));
    data.log(&rest);
    let store = data.open();
    assert_eq!((data.content(SEGMENT_0), quarantined(&data)), (theirs, five(4, 7)));
    drop(store);
    fs::remove_file(data.transactions().join(QUARANTINE)).unwrap();
    let store = data.open();
    put(&store, &store.get("t", P0).unwrap(), b"x").unwrap();
}

#[test]
fn the_rest_of_a_log_never_goes_into_the_middle_of_what_another_broker_wrote() {
    let theirs = [five(1, 3), record(900, &[b'x'; 200])].concat();
    let data = Data::new();
    let mut log = LogFileKit::new(1, 1);
    log.records("t", 0, 0, 0, &five(1, 4)).records("t", 0, 0, 100, &five(5, 2));
    data.file(SEGMENT_0, &theirs).log(&log);
    drop(data.open());
    assert_eq!(quarantined(&data), five(4, 3));
    // As after a crash that came between the removals of two log files.
    let mut rest = LogFileKit::new(2, 2);
    rest.records("t", 0, 0, 100, &five(5, 2));
    data.log(&rest);
    drop(data.open());
    assert_eq!((data.content(SEGMENT_0), quarantined(&data)), (theirs, five(4, 3)));
}

fn quarantined(data: &Data) -> Vec<u8> {
    let mut all = Vec::new();
    set_aside::read(&OsFileSystem, &data.transactions().join(QUARANTINE), &mut |frame| {
        all.extend_from_slice(frame.records);
        Ok(())
    })
    .unwrap();
    all
}

#[test]
fn frames_behind_a_gap_are_set_aside() {
    let mut behind = LogFileKit::new(1, 7);
    behind.records("t", 0, 0, 50, &five(3, 2)).records("t", 0, 100, 100, &five(5, 2));
    let data = Data::new();
    data.file(SEGMENT_0, &five(1, 1)).log(&behind);
    let store = data.open();
    assert_eq!((all_ids(&store), quarantined(&data)), (vec![1], five(3, 4)));
    let reason = store.get("t", P0).unwrap().poison().unwrap().to_string();
    assert!(reason.contains("messages are missing between offset 25"), "{reason}");

    let data = Data::new();
    data.log(&behind);
    let store = data.open();
    assert_eq!(quarantined(&data), five(3, 4));
    let partition = store.get_or_create(&topic("t"), P0, &GROUP_COMMIT).unwrap();
    put(&store, &partition, b"x").expect_err("closed though it has no directory");
}

#[test]
fn a_segment_of_another_broker_across_the_place_of_ours_is_left_alone() {
    let data = Data::new();
    data.file(SEGMENT_0, &[five(1, 4), five(70, 3)].concat()).log(&log());
    let store = data.open();
    assert_eq!(all_ids(&store), [1, 2, 3, 4, 70, 71, 72]);
    assert_eq!(quarantined(&data), five(5, 6));
}

#[test]
fn a_forgotten_partition_keeps_only_what_came_later() {
    let data = Data::new();
    let frames: [(u64, u64, Vec<u8>); 1] = [(0, 0, five(50, 4))];
    let mut pending = frames.into_iter().map(|(segment, offset, records)| Ok((segment, offset, records.into())));
    set_aside::append(&OsFileSystem, &data.transactions(), Kind::Pending, &topic("t"), P0, &mut pending).unwrap();
    let mut log = log();
    log.forget("t", 0).records("u", 0, 0, 0, &five(1, 1));
    data.log(&log);
    let store = data.open();
    assert!(store.get("t", P0).is_none() && store.get("u", P0).is_some());
    assert_eq!(data.state(), [""; 0]);
    drop(store);
    log.records("t", 0, 0, 0, &five(30, 1));
    data.log(&log);
    assert_eq!(all_ids(&data.open()), [30]);
}

#[test]
fn a_partition_whose_segment_fails_waits_for_the_next_start_and_the_others_go_on() {
    for failing in [SEGMENT_0, "t-0"] {
        let data = Data::new();
        data.file(SEGMENT_0, &five(1, 3)[..60]).file(SEGMENT_100, b"");
        let mut log = log();
        log.records("u", 0, 0, 0, &five(1, 1));
        data.log(&log);
        let stopping = StoppingFs::default();
        *stopping.stops.no_sync.lock().unwrap() = Some(failing.to_owned());
        let store = data.open_with(&stopping).unwrap();
        let partition = store.get("t", P0).unwrap();
        assert!(partition.poison().unwrap().contains("failed"), "{failing}");
        assert_eq!(bodies(&store.get("u", P0).unwrap()), ["00001"]);
        put(&store, &partition, b"x").unwrap_err();
        assert_eq!(store.recovery().partitions[0].outcome, RecoveryOutcome::Pending);
        assert_eq!(data.state(), [PENDING]);
        drop(store);
        // The first restart fails again and adds nothing, the second succeeds.
        let store = data.open_with(&stopping).unwrap();
        assert!(store.get("t", P0).unwrap().poison().is_some());
        drop(store);
        let store = data.open();
        assert_eq!(all_ids(&store), (1..=10).collect::<Vec<_>>(), "{failing}");
        assert!(store.health().is_healthy());
        assert_eq!(data.state(), [""; 0]);
    }
}

#[test]
fn a_device_that_fails_during_a_write_costs_its_partition_only() {
    let data = Data::new();
    let mut log = log();
    log.records("a", 0, 0, 0, &five(1, 2));
    data.log(&log);
    let faulty = FaultyFs::default();
    faulty.faults.fail_write.store(true, Ordering::SeqCst);
    let store = Store::open(options(data.dir.path()), Arc::new(faulty)).unwrap();
    // The first one in the order of names.
    assert!(store.get("a", P0).unwrap().poison().unwrap().contains("could not write to the segment"));
    assert_eq!(all_ids(&store), (1..=10).collect::<Vec<_>>());
    assert_eq!(data.state(), ["pending.a-0"]);
    drop(store);
    assert_eq!(bodies(&data.open().get("a", P0).unwrap()), ["00001", "00002"]);
    assert_eq!(data.state(), [""; 0]);
}

#[test]
fn a_full_disk_refuses_the_start_and_loses_nothing() {
    for full in [SEGMENT_0, SEGMENT_100, "t-0"] {
        let data = Data::new();
        data.log(&log());
        let stopping = StoppingFs::default();
        *stopping.stops.no_space.lock().unwrap() = Some(full.to_owned());
        let text = data.open_with(&stopping).unwrap_err().to_string();
        assert!(text.starts_with("no space left for ") && text.contains("the log is kept"), "{text}");
        assert_eq!(all_ids(&data.open()), (1..=10).collect::<Vec<_>>());
    }
}

#[test]
fn a_log_that_cannot_be_synced_refuses_the_start_and_the_next_one_uses_what_the_disk_holds() {
    let data = Data::new();
    data.log(&log());
    let stopping = StoppingFs::default();
    *stopping.stops.no_sync.lock().unwrap() = Some("commitlog.1".to_owned());
    let error = data.open_with(&stopping).unwrap_err();
    assert!(matches!(error, StoreError::CommitLog(CommitLogError::Sync { .. })), "{error}");
    assert_eq!(data.state(), ["commitlog.1"]);
    assert_eq!(all_ids(&data.open()), (1..=10).collect::<Vec<_>>());
}

#[test]
fn what_is_in_quarantine_is_appended_over_as_many_segments_as_it_takes() {
    let data = Data::new();
    data.file(SEGMENT_0, &[five(1, 3), five(91, 1)].concat()).log(&log());
    let mut options = options(data.dir.path());
    options.max_segment_size = 100;
    let resolve = |resolution| resolve_quarantine(options.clone(), Arc::new(OsFileSystem), &topic("t"), P0, resolution);
    let resolved = resolve(Resolution::Append).unwrap();
    assert_eq!((resolved.records, resolved.bytes), (7, 175));
    assert_eq!((resolved.old_offset, resolved.new_offset), (Some(Offset::new(75)), Some(Offset::new(100))));
    assert!(matches!(resolve(Resolution::Append), Err(StoreError::NothingInQuarantine(_))));
    let store = open(&options).unwrap();
    assert_eq!(all_ids(&store), [1, 2, 3, 91, 4, 5, 6, 7, 8, 9, 10]);
    let segments: Vec<_> = store.get("t", P0).unwrap().segments().iter().map(|s| s.start().get()).collect();
    // The frames have 25, 50, 50 and 50 bytes.
    assert_eq!(segments, [0, 100, 225]);
    assert!(store.health().is_healthy());
}

#[test]
fn nothing_is_appended_while_messages_are_pending() {
    let data = Data::new();
    data.file(SEGMENT_0, &[five(1, 3), five(91, 1)].concat()).log(&log());
    drop(data.open());
    data.log(&log());
    let stopping = StoppingFs::default();
    *stopping.stops.no_sync.lock().unwrap() = Some(SEGMENT_0.to_owned());
    let fs = Arc::new(stopping);
    let refused = resolve_quarantine(options(data.dir.path()), fs, &topic("t"), P0, Resolution::Append).unwrap_err();
    assert!(matches!(refused, StoreError::StillPending(_)), "{refused}");
    assert_eq!(data.state(), [PENDING, QUARANTINE]);
}

#[test]
fn what_cannot_be_replayed_refuses_the_start_and_changes_nothing() {
    let refused = |change: &dyn Fn(&mut LogFileKit)| {
        let data = Data::new();
        // What could be applied, and a file that only a start changes.
        let mut log = log();
        change(&mut log);
        data.file(SEGMENT_0, &five(1, 3)[..60]).log(&log);
        data.refusal()
    };
    let unknown = refused(&|log| {
        log.unknown_kind();
    });
    assert!(matches!(unknown, StoreError::CommitLog(CommitLogError::UnknownKind { kind: 77, .. })), "{unknown}");
    let damaged = refused(&|log| {
        let second = log.starts[1];
        log.bytes[second + 30] ^= 1;
    });
    assert!(matches!(damaged, StoreError::CommitLog(CommitLogError::Damaged { sequence: 2, .. })), "{damaged}");
    let data = Data::new();
    data.file(SEGMENT_0, &five(1, 5)).file(SEGMENT_100, b"").log(&log());
    assert!(matches!(data.refusal(), StoreError::Discontinuous { .. }), "overlapping segments");
    let data = Data::new();
    data.log(&log()).file("transactions/pending.t-0", b"damaged");
    assert!(data.refusal().to_string().contains("is damaged at byte 0"));
    let data = Data::new();
    data.log(&log()).file("transactions/quarantine.t-0", b"damaged");
    assert!(data.refusal().to_string().contains("is damaged at byte 0"));
}

#[test]
fn frames_are_applied_where_the_partition_lies_though_its_topic_is_not_configured_there() {
    let data = Data::new();
    let other = data.dir.path().join("other");
    fs::create_dir_all(other.join("t-0")).unwrap();
    fs::write(other.join("t-0/00000000000000000000.meta"), five(1, 1)).unwrap();
    let mut log = log();
    log.records("fresh", 0, 0, 0, &five(1, 1)).records("moved", 0, 0, 0, &five(1, 1));
    data.log(&log);
    let mut options = options(data.dir.path());
    options.topic_data_paths = vec![other.clone()];
    let settings = super::super::TopicSettings { data_path: Some(other.clone()), ..GROUP_COMMIT };
    options.topic_settings =
        Arc::new(move |topic| if topic.as_str() == "moved" { settings.clone() } else { GROUP_COMMIT });
    let store = open(&options).unwrap();
    assert_eq!(all_ids(&store), (1..=10).collect::<Vec<_>>());
    assert!(other.join("t-0/00000000000000000100.meta").exists() && !data.path("t-0").exists());
    assert!(data.path("fresh-0").is_dir() && other.join("moved-0").is_dir());
}

/// Everything that replay has to deal with, at once.
fn everything() -> Data {
    let data = Data::fast();
    let mut first = LogFileKit::new(1, 1);
    for (segment, offset, id) in [(0, 0, 1), (0, 50, 3), (100, 100, 5)] {
        for name in ["torn", "fresh", "theirs", "gap", "forgotten"] {
            let offset = if name == "gap" { offset + 25 } else { offset };
            first.records(name, 0, segment.min(offset), offset, &five(id, 2));
        }
    }
    first.forget("forgotten", 0);
    let mut second = LogFileKit::new(2, first.next);
    second.records("torn", 0, 100, 150, &five(7, 2)).records("forgotten", 0, 0, 0, &five(40, 2));
    second.records("late", 3, 0, 50, &five(3, 1));
    data.log(&first).log(&second.padded(16384));
    data.file("transactions/commitlog.9", &[0; 5000]);
    data.file("torn-0/00000000000000000000.meta", &[&five(1, 1)[..], &[0; 40]].concat());
    data.file("theirs-0/00000000000000000000.meta", &[five(1, 1), five(91, 1)].concat());
    let pending: [(u64, u64, Vec<u8>); 2] = [(0, 0, five(1, 1)), (0, 25, five(2, 1))];
    let mut pending = pending.into_iter().map(|(segment, offset, records)| Ok((segment, offset, records.into())));
    let three = PartitionIndex::new(3);
    set_aside::append(&OsFileSystem, &data.transactions(), Kind::Pending, &topic("late"), three, &mut pending).unwrap();
    data
}

#[test]
fn a_replay_that_was_stopped_anywhere_ends_as_one_that_was_not() {
    let result = |data: &Data| {
        let store = data.open();
        drop(store);
        let root = data.dir.path().to_path_buf();
        let relative = |(path, content): (PathBuf, _)| (path.strip_prefix(&root).unwrap().to_path_buf(), content);
        snapshot(&root).into_iter().filter(|(path, _)| !is_new_log(path)).map(relative).collect::<Vec<_>>()
    };
    let data = everything();
    let expected = result(&data);
    let names: Vec<_> = data.state();
    assert_eq!(names, ["quarantine.gap-0", "quarantine.theirs-0"]);
    assert_eq!(data.content("torn-0/00000000000000000000.meta"), five(1, 4));
    assert_eq!(data.content("torn-0/00000000000000000100.meta"), five(5, 4));
    assert_eq!(data.content("theirs-0/00000000000000000000.meta"), [five(1, 1), five(91, 1)].concat());
    assert_eq!(data.content("forgotten-0/00000000000000000000.meta"), five(40, 2));
    assert_eq!(data.content("late-3/00000000000000000000.meta"), five(1, 3));

    let counting = StoppingFs::default();
    drop(everything().open_with(&counting).unwrap());
    let changes = counting.stops.changes.load(Ordering::SeqCst);
    assert!(changes > 50, "{changes}");
    for stop in 0..changes {
        let data = everything();
        for (attempt, left) in [(0, stop), (1, stop - stop / 3)] {
            let stopping = StoppingFs::default();
            *stopping.stops.left.lock().unwrap() = Some(left);
            // The second one may have less to do.
            assert!(data.open_with(&stopping).is_err() || attempt > 0, "stopped after {stop} changes");
        }
        assert_eq!(result(&data), expected, "stopped after {stop} of {changes} changes");
    }
}
