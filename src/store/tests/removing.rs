//! Removing segments, and deletion.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::super::{AppendError, ReadOutcome, Store, StoreError};
use super::disk::{Failing, SimDisk};
use super::kit::*;
use crate::id::{Offset, PartitionIndex};

const P0: PartitionIndex = PartitionIndex::new(0);

#[test]
fn the_oldest_segments_are_removed_durably_but_never_the_last() {
    let bench = Bench::new(|options| options.max_segment_size = 50);
    let partition = bench.partition("t", 0, &PERIODIC);
    for _ in 0..8 {
        put(&bench.store, &partition, b"hello").unwrap();
    }
    bench.store.flush();
    let held = partition.segments().remove(0);
    bench.faults.take_events();
    let mut asked = Vec::new();
    let removed = remove_oldest(&partition, |segment| {
        asked.push(segment.start().get());
        segment.start().get() < 100
    });
    assert_eq!((removed.unwrap(), asked), (2, vec![0, 50, 100]));
    let mut syncs = bench.faults.take_events();
    syncs.retain(|event| event.starts_with("sync t-0"));
    assert!(syncs.len() >= 2, "after each file: {syncs:?}");
    assert_eq!(partition.min_offset(), Offset::new(100));
    assert!(matches!(partition.read(Offset::new(50), 10), ReadOutcome::BelowMin(min) if min == Offset::new(100)));
    let mut buf = [0; 5];
    held.file().read_at(&mut buf, 20).unwrap();
    assert_eq!(&buf, b"hello", "whoever holds it reads on");
    assert_eq!(remove_oldest(&partition, |_| true).unwrap(), 2);
    assert_eq!((partition.segments().len(), partition.min_offset()), (1, Offset::new(200)));
    let Bench { dir, store, .. } = bench;
    drop(store);
    let store = open(&options(dir.path())).unwrap();
    let partition = store.get("t", P0).unwrap();
    assert_eq!((partition.min_offset(), partition.max_offset()), (Offset::new(200), Offset::new(200)));
}

#[test]
fn a_removal_whose_directory_cannot_be_synced_is_finished_before_the_next() {
    let bench = Bench::new(|options| options.max_segment_size = 25);
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    for _ in 0..4 {
        put(&bench.store, &partition, b"hello").unwrap();
    }
    partition.make_checkpoint().unwrap();
    bench.faults.fail_dir_sync.store(true, Ordering::SeqCst);
    remove_oldest(&partition, |_| true).unwrap_err();
    assert_eq!(partition.min_offset(), Offset::new(25));
    bench.faults.take_events();
    assert_eq!(remove_oldest(&partition, |_| false).unwrap(), 0);
    assert_eq!(bench.faults.take_events(), ["sync t-0"]);
}

#[test]
fn a_deleted_partition_refuses_puts_and_a_new_one_begins_at_zero() {
    let bench = Bench::new(|options| options.max_segment_size = 100);
    let old = bench.partition("t", 0, &GROUP_COMMIT);
    for i in 0..10 {
        put(&bench.store, &old, format!("old {i}").as_bytes()).unwrap();
    }
    assert!(bench.store.delete_partition("t", P0).unwrap());
    assert!(!bench.store.delete_partition("t", P0).unwrap());
    assert!(old.is_deleted() && bench.store.get("t", P0).is_none() && !old.dir().exists());
    let error = put(&bench.store, &old, b"late").unwrap_err();
    assert_eq!(error.to_string(), "partition t-0 was deleted just now: send the message again");
    let new = bench.partition("t", 0, &GROUP_COMMIT);
    assert_eq!(put(&bench.store, &new, b"new").unwrap().offset, Offset::ZERO);
    let Bench { dir, store, .. } = bench;
    drop(store);
    let store = open(&options(dir.path())).unwrap();
    assert_eq!(bodies(&store.get("t", P0).unwrap()), ["new"], "frames of the old one are void");
}

#[test]
fn partitions_are_deleted_while_puts_are_under_way() {
    let bench = Bench::new(|options| options.max_segment_size = 200);
    let stored = std::thread::scope(|scope| {
        let putting = scope.spawn(|| {
            let mut last = Vec::new();
            for i in 0..400 {
                let partition = bench.partition("t", 0, &GROUP_COMMIT);
                let body = i.to_string();
                match put(&bench.store, &partition, body.as_bytes()) {
                    Ok(appended) if appended.offset == Offset::ZERO => last = vec![body],
                    Ok(_) => last.push(body),
                    Err(error) => assert!(matches!(error, AppendError::Deleted(_)), "{error}"),
                }
            }
            last
        });
        while !putting.is_finished() {
            bench.store.delete_partition("t", P0).unwrap();
        }
        putting.join().unwrap()
    });
    // The last deletion may have come after the last put.
    let found = bench.store.get("t", P0).map(|partition| bodies(&partition)).unwrap_or_default();
    assert!(found.is_empty() || found == stored, "{found:?}");
}

#[test]
fn what_was_set_aside_of_a_deleted_partition_never_comes_back() {
    let bench = Bench::new(|options| (options.commit_log_file_bytes, options.commit_log_files) = (16 << 10, 4));
    let (bad, good) = (bench.partition("bad", 0, &GROUP_COMMIT), bench.partition("good", 0, &GROUP_COMMIT));
    put(&bench.store, &bad, b"old").unwrap();
    bench.faults.fail_sync.store(true, Ordering::SeqCst);
    bad.make_checkpoint().unwrap_err();
    let pending = bench.data().join("transactions/pending.bad-0");
    let body = Bytes::from(vec![b'x'; 1000]);
    wait_until("its messages are set aside", || {
        put(&bench.store, &good, &body).unwrap();
        pending.exists()
    });
    assert!(bench.store.delete_partition("bad", P0).unwrap(), "also a poisoned one");
    assert!(!pending.exists());
    let new = bench.partition("bad", 0, &GROUP_COMMIT);
    put(&bench.store, &new, b"new").unwrap();
    let Bench { dir, store, .. } = bench;
    drop(store);
    let store = open(&options(dir.path())).unwrap();
    assert_eq!(bodies(&store.get("bad", P0).unwrap()), ["new"]);
    assert!(store.health().is_healthy());
}

#[test]
fn a_partition_with_messages_in_quarantine_is_not_deleted() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    put(&bench.store, &partition, b"x").unwrap();
    std::fs::write(bench.data().join("transactions/quarantine.t-0"), b"").unwrap();
    assert!(matches!(bench.store.delete_partition("t", P0), Err(StoreError::Quarantined(_))));
    put(&bench.store, &partition, b"x").unwrap();
    bench.store.close().unwrap();
    assert!(matches!(bench.store.delete_partition("t", P0), Err(StoreError::Closed)));
}

#[test]
fn a_directory_from_which_segments_went_is_settled_before_a_first_segment_is_made() {
    let disk = SimDisk::new(1);
    let open = |disk: &SimDisk| Store::open(options(Path::new("/")), Arc::new(disk.clone())).unwrap();
    let store = open(&disk);
    let partition = store.get_or_create(&topic("t"), P0, &GROUP_COMMIT).unwrap();
    put(&store, &partition, b"old").unwrap();
    partition.make_checkpoint().unwrap();
    // The last segment goes, and the process dies before that is durable.
    disk.fail_once(Failing::SyncDir, |path| path.ends_with("t-0"));
    store.delete_partition("t", P0).unwrap_err();
    let disk = {
        let next = disk.kill();
        drop((partition, store));
        next
    };
    let store = open(&disk);
    let partition = store.get_or_create(&topic("t"), P0, &GROUP_COMMIT).unwrap();
    put(&store, &partition, b"new").unwrap();
    for seed in 0..50 {
        let store = open(&disk.would_leave(&mut fastrand::Rng::with_seed(seed)));
        assert_eq!(bodies(&store.get("t", P0).unwrap()), ["new"], "seed {seed}");
    }
}
