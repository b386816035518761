use std::process::Command;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::super::{AppendError, Store};
use super::kit::*;
use crate::id::Offset;

fn is_poisoned<T: std::fmt::Debug>(result: &Result<T, AppendError>) -> bool {
    matches!(result, Err(AppendError::Poisoned { .. }))
}

#[test]
fn a_failed_sync_is_answered_with_an_error_and_poisons_the_partition_for_good() {
    let bench = Bench::new(|_| {});
    let (partition, other) = (bench.partition("t", 0, &GROUP_COMMIT), bench.partition("t", 1, &GROUP_COMMIT));
    put(&bench.store, &partition, b"durable").unwrap();
    bench.faults.fail_sync.store(true, Ordering::SeqCst);
    let failed = put(&bench.store, &partition, b"lost");
    assert!(is_poisoned(&failed), "{failed:?}");
    let text = failed.unwrap_err().to_string();
    assert!(text.starts_with("partition t-0 takes no more messages until the broker is restarted: sync of "), "{text}");

    let syncs = bench.faults.syncs.load(Ordering::SeqCst);
    assert!(is_poisoned(&put(&bench.store, &partition, b"later")));
    bench.store.flush();
    assert_eq!(bench.faults.syncs.load(Ordering::SeqCst), syncs, "a failed sync is never tried again");
    assert_eq!(bodies(&partition), ["durable"]);

    put(&bench.store, &other, b"x").unwrap();
    let health = bench.store.health();
    assert!(!health.is_healthy());
    let poisoned: Vec<_> = health.poisoned.iter().map(|p| format!("{}-{}", p.topic, p.index)).collect();
    assert_eq!(poisoned, ["t-0"]);
}

#[test]
fn a_failed_background_sync_poisons_a_periodic_partition() {
    let bench = Bench::new(|_| {});
    let settings = super::super::TopicSettings { unflush_interval_ms: 20, ..PERIODIC };
    let partition = bench.partition("t", 0, &settings);
    bench.faults.fail_sync.store(true, Ordering::SeqCst);
    // The partition is young, so the first message waits for the flusher, or is synced at once: both fail.
    put(&bench.store, &partition, b"x").unwrap();
    wait_until("the sync failed", || partition.poison().is_some());
    assert!(is_poisoned(&put(&bench.store, &partition, b"x")));
    assert_eq!(read_all(&partition), []);
}

#[test]
fn a_failed_sync_at_a_roll_refuses_the_messages_before_it() {
    let bench = Bench::new(|options| options.max_segment_size = 100);
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    put(&bench.store, &partition, b"durable").unwrap();
    bench.faults.fail_sync.store(true, Ordering::SeqCst);
    let group = submit(&bench.store, vec![(&partition, Bytes::from_static(b"0123456789")); 6]);
    assert!(answer(&group).iter().all(is_poisoned));
    assert_eq!(bodies(&partition), ["durable"]);
    assert_eq!(files(partition.dir()).len(), 1, "no segment begins behind one that is not durable");
}

#[test]
fn a_device_error_poisons_and_leaves_no_bytes_behind() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    put(&bench.store, &partition, b"hello").unwrap();
    bench.faults.fail_write.store(true, Ordering::SeqCst);
    assert!(is_poisoned(&put(&bench.store, &partition, b"world")));
    assert_eq!(files(partition.dir()), [("00000000000000000000.meta".to_owned(), 25)]);
    assert!(is_poisoned(&put(&bench.store, &partition, b"world")));
    assert_eq!(bodies(&partition), ["hello"]);
}

#[test]
fn a_failed_sync_of_a_directory_poisons() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    bench.faults.fail_dir_sync.store(true, Ordering::SeqCst);
    assert!(is_poisoned(&put(&bench.store, &partition, b"x")));
    assert!(is_poisoned(&put(&bench.store, &partition, b"x")));
}

#[test]
fn running_out_of_descriptors_refuses_messages_and_does_not_poison() {
    let bench = Bench::new(|options| options.max_segment_size = 60);
    let old = bench.partition("old", 0, &GROUP_COMMIT);
    put(&bench.store, &old, b"hello").unwrap();
    let new = bench.partition("new", 0, &GROUP_COMMIT);
    bench.faults.no_descriptors.store(true, Ordering::SeqCst);
    // The first message needs a directory, the one that fills a segment a new segment.
    let error = put(&bench.store, &new, b"x").unwrap_err();
    assert!(matches!(error, AppendError::Io { .. }), "{error}");
    put(&bench.store, &old, &[b'x'; 40]).unwrap();
    assert!(matches!(put(&bench.store, &old, b"y"), Err(AppendError::Io { .. })));
    bench.faults.no_descriptors.store(false, Ordering::SeqCst);
    assert_eq!(put(&bench.store, &new, b"x").unwrap().offset, Offset::ZERO);
    assert_eq!(put(&bench.store, &old, b"y").unwrap().offset, Offset::new(85));
    assert!(bench.store.health().is_healthy());
}

#[test]
fn a_full_disk_refuses_messages_until_there_is_space_and_shifts_no_offset() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    put(&bench.store, &partition, b"hello").unwrap();
    for left in [0, 1, 19, 20, 24] {
        *bench.faults.space.lock().unwrap() = Some(left);
        for _ in 0..3 {
            let error = put(&bench.store, &partition, b"world").unwrap_err();
            assert!(matches!(error, AppendError::NoSpace(_)), "{error}");
            let text = error.to_string();
            assert!(text.starts_with("no space left on "), "{text}");
            assert!(text.ends_with("/t-0/00000000000000000000.meta: free space and the broker accepts puts again"));
        }
        assert_eq!(*bench.faults.space.lock().unwrap(), Some(left), "the part that was written is given back");
        assert_eq!(bench.store.health().full.len(), 1);
        *bench.faults.space.lock().unwrap() = None;
        let before = partition.max_offset();
        assert_eq!(put(&bench.store, &partition, b"space").unwrap().offset, before);
        assert!(bench.store.health().is_healthy());
    }
    assert_eq!(bodies(&partition), ["hello", "space", "space", "space", "space", "space"]);
}

#[test]
fn a_full_disk_at_a_roll_is_no_loss() {
    let bench = Bench::new(|options| options.max_segment_size = 50);
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    put(&bench.store, &partition, b"hello").unwrap();
    *bench.faults.space.lock().unwrap() = Some(25);
    put(&bench.store, &partition, b"world").unwrap();
    assert!(matches!(put(&bench.store, &partition, b"again"), Err(AppendError::NoSpace(_))));
    assert_eq!(partition.segments().len(), 1);
    *bench.faults.space.lock().unwrap() = None;
    assert_eq!(put(&bench.store, &partition, b"again").unwrap().offset, Offset::new(50));
    assert_eq!(bodies(&partition), ["hello", "world", "again"]);
    assert_eq!(partition.segments().len(), 2);
}

#[test]
fn a_full_disk_at_the_first_message_is_tried_again() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    *bench.faults.space.lock().unwrap() = Some(0);
    assert!(matches!(put(&bench.store, &partition, b"x"), Err(AppendError::NoSpace(_))));
    *bench.faults.space.lock().unwrap() = None;
    assert_eq!(put(&bench.store, &partition, b"x").unwrap().offset, Offset::ZERO);
}

#[test]
fn a_failed_write_that_cannot_be_undone_poisons_and_a_restart_recovers() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    put(&bench.store, &partition, b"hello").unwrap();
    *bench.faults.space.lock().unwrap() = Some(10);
    bench.faults.fail_cut.store(true, Ordering::SeqCst);
    assert!(is_poisoned(&put(&bench.store, &partition, b"world")));
    assert_eq!(bodies(&partition), ["hello"]);
    let Bench { dir, store, .. } = bench;
    drop(store);
    let store = open(&options(dir.path())).unwrap();
    let partition = store.get("t", partition.index()).unwrap();
    assert_eq!(put(&store, &partition, b"again").unwrap().offset, Offset::new(25));
    assert_eq!(bodies(&partition), ["hello", "again"]);
}

#[test]
fn something_else_under_the_name_of_a_partition_is_told() {
    let bench = Bench::new(|_| {});
    let (file, foreign) = (bench.partition("file", 0, &GROUP_COMMIT), bench.partition("foreign", 0, &GROUP_COMMIT));
    std::fs::write(file.dir(), b"").unwrap();
    std::fs::create_dir(foreign.dir()).unwrap();
    std::fs::write(foreign.dir().join("00000000000000000000.meta"), b"").unwrap();
    let error = put(&bench.store, &file, b"x").unwrap_err();
    assert_eq!(error.to_string(), format!("Path is not a directory:{}", file.dir().display()));
    assert!(matches!(put(&bench.store, &foreign, b"x"), Err(AppendError::ForeignSegments(_))));
    std::fs::remove_file(file.dir()).unwrap();
    put(&bench.store, &file, b"x").unwrap();
    std::fs::remove_dir_all(bench.data()).unwrap();
    let error = put(&bench.store, &bench.partition("new", 0, &GROUP_COMMIT), b"x").unwrap_err();
    assert!(error.to_string().starts_with("Create directory failed:"), "{error}");
}

#[test]
fn low_free_space_is_shown_until_it_recovers() {
    let bench = Bench::new(|options| options.free_space_warning_bytes = 1000);
    assert!(bench.store.health().is_healthy());
    bench.faults.free_space.store(999, Ordering::SeqCst);
    wait_until("low space is noticed", || bench.store.health().low_space.iter().map(|low| low.free_bytes).eq([999]));
    bench.faults.free_space.store(1000, Ordering::SeqCst);
    wait_until("space has recovered", || bench.store.health().is_healthy());
}

/// A mounted file system of its own, taken off at the end.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn mount(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(dir.path())
            .output();
        mount.is_ok_and(|output| output.status.success()).then_some(Self(dir))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_disk_that_is_really_full_loses_and_shifts_nothing() {
    let Some(tmpfs) = Tmpfs::mount("256k") else {
        println!("skipped: a tmpfs cannot be mounted here");
        return;
    };
    let dir = tmpfs.0.path();
    let store = open(&options(dir)).unwrap();
    let partition = store.get_or_create(&topic("t"), crate::id::PartitionIndex::new(0), &GROUP_COMMIT).unwrap();
    let ballast = dir.join("ballast");
    std::fs::write(&ballast, vec![1; 64 * 1024]).unwrap();
    let fill = |store: &Store| {
        let mut stored = 0;
        loop {
            match put(store, &partition, &[b'x'; 3000]) {
                Ok(_) => stored += 1,
                Err(error) => {
                    assert!(matches!(error, AppendError::NoSpace(_)), "{error}");
                    return stored;
                }
            }
        }
    };
    let first = fill(&store);
    assert!(first > 10, "{first}");
    std::fs::remove_file(&ballast).unwrap();
    let second = fill(&store);
    assert!(second > 10, "{second}");
    assert_eq!(read_all(&partition).len(), first + second);
    assert_eq!(partition.max_offset().get() % 3020, 0);
    assert_eq!(files(partition.dir())[0].1, partition.max_offset().get().cast_unsigned());
    drop(partition);
    drop(store);
}
