use std::sync::Arc;

use bytes::Bytes;

use super::super::{AppendError, StoreError};
use super::kit::*;
use crate::id::{Offset, PartitionIndex};

#[test]
fn a_close_answers_what_was_handed_in_and_makes_it_durable() {
    let bench = Bench::new(|_| {});
    let (a, b) = (bench.partition("a", 0, &GROUP_COMMIT), bench.partition("b", 0, &PERIODIC));
    let groups: Vec<_> = (0..50)
        .map(|_| submit(&bench.store, vec![(&a, Bytes::from_static(b"x")), (&b, Bytes::from_static(b"y"))]))
        .collect();
    bench.store.close().unwrap();
    for group in &groups {
        assert!(answer(group).iter().all(Result::is_ok), "handed in before the close");
    }
    for partition in [&a, &b] {
        assert_eq!((partition.max_offset(), partition.written_offset()), (Offset::new(1050), Offset::new(1050)));
        assert_eq!(read_all(partition).len(), 50);
    }
}

#[test]
fn a_closed_store_refuses_messages_and_partitions_and_frees_its_directories() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    put(&bench.store, &partition, b"x").unwrap();
    bench.store.close().unwrap();
    bench.store.close().unwrap();
    let error = put(&bench.store, &partition, b"x").unwrap_err();
    assert!(matches!(error, AppendError::Closed));
    assert_eq!(error.to_string(), "Closed MessageStore.");
    let refused = bench.store.get_or_create(&topic("t"), PartitionIndex::new(1), &GROUP_COMMIT);
    assert!(matches!(refused, Err(StoreError::Closed)));
    assert_eq!(read_all(&partition).len(), 1, "reads go on");
    open(&options(bench.dir.path())).unwrap();
}

#[test]
fn a_close_tells_which_partitions_did_not_get_to_their_segments_and_the_next_start_brings_them_there() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &PERIODIC);
    put(&bench.store, &partition, b"x").unwrap();
    bench.faults.fail_sync.store(true, std::sync::atomic::Ordering::SeqCst);
    let error = bench.store.close().unwrap_err();
    assert!(matches!(&error, StoreError::NotDurable(partitions) if partitions == "t-0"), "{error}");
    let Bench { dir, store, .. } = bench;
    drop(store);
    let store = open(&options(dir.path())).unwrap();
    assert_eq!(bodies(&store.get("t", PartitionIndex::new(0)).unwrap()), ["x"]);
    assert!(store.health().is_healthy());
}

#[test]
fn concurrent_callers_get_the_same_partition() {
    let bench = Bench::new(|_| {});
    let partitions: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| bench.partition("t", 3, &GROUP_COMMIT))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(partitions.iter().all(|partition| Arc::ptr_eq(partition, &partitions[0])));
    assert!(Arc::ptr_eq(&bench.store.get("t", PartitionIndex::new(3)).unwrap(), &partitions[0]));
    assert!(bench.store.get("t", PartitionIndex::new(2)).is_none());
    bench.partition("t", 1, &GROUP_COMMIT);
    assert_eq!(bench.store.topics().into_iter().collect::<Vec<_>>(), [(topic("t"), PartitionIndex::new(3))]);
    let negative = bench.store.get_or_create(&topic("t"), PartitionIndex::new(-1), &GROUP_COMMIT);
    assert!(matches!(negative, Err(StoreError::NegativePartition { .. })));
}

#[test]
fn message_ids_ascend_over_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = None;
    for restart in 0..20 {
        let store = open(&options(dir.path())).unwrap();
        let partition = store.get_or_create(&topic("t"), PartitionIndex::new(0), &GROUP_COMMIT).unwrap();
        let puts = vec![(&partition, Bytes::from_static(b"x")); 300];
        for appended in answer(&submit(&store, puts)) {
            let id = appended.unwrap().id;
            assert!(Some(id) > last, "restart {restart}");
            last = Some(id);
        }
        if restart % 2 == 0 {
            store.close().unwrap();
        }
    }
}
