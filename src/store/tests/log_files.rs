//! The commit log over many files: wrapping, waiting, setting aside; large records; commits on the caller's thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::super::{AppendError, LARGE_RECORD_BYTES, StoreOptions};
use super::faulty::OTHER_VOLUME;
use super::kit::*;
use crate::id::{Offset, PartitionIndex};

fn small_log(options: &mut StoreOptions) {
    (options.commit_log_file_bytes, options.commit_log_files) = (16 << 10, 4);
}

/// A text of about a thousand bytes.
fn text(i: usize) -> String {
    format!("{i:01000}")
}

#[test]
fn a_log_that_wraps_many_times_is_recovered_wherever_the_broker_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    small_log(&mut options);
    options.max_segment_size = 20_000;
    let mut sent: [Vec<String>; 3] = Default::default();
    for restart in 0..12 {
        let store = open(&options).unwrap();
        let settings = [GROUP_COMMIT, PERIODIC, GROUP_COMMIT];
        let partitions = [0, 1, 2].map(|i| {
            let index = PartitionIndex::new(i32::try_from(i).unwrap());
            let partition = store.get_or_create(&topic("t"), index, &settings[i]).unwrap();
            partition.set_settings(&settings[i]);
            partition
        });
        for (partition, sent) in partitions.iter().zip(&sent) {
            assert_eq!(&bodies(partition), sent, "restart {restart}");
        }
        for i in 0..90 + 7 * restart {
            let text = text(i);
            put(&store, &partitions[i % 3], text.as_bytes()).unwrap();
            sent[i % 3].push(text);
        }
    }
}

#[test]
fn files_that_became_free_together_leave_no_gap_in_the_log() {
    let bench = Bench::new(small_log);
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    bench.faults.hold_syncs(true);
    let mut sent = Vec::new();
    let put_one = |sent: &mut Vec<String>| {
        let text = text(sent.len());
        put(&bench.store, &partition, text.as_bytes()).unwrap();
        sent.push(text);
    };
    // Three files are full and none can be checkpointed.
    while bench.store.pool.next_number() < 7 && sent.len() < 58 {
        put_one(&mut sent);
    }
    bench.faults.hold_syncs(false);
    wait_until("all full files are free", || bench.store.pool.oldest_sealed().is_none());
    while sent.len() < 70 {
        put_one(&mut sent);
    }
    let Bench { dir, store, .. } = bench;
    drop(store);
    let store = open(&options(dir.path())).unwrap();
    assert_eq!(bodies(&store.get("t", PartitionIndex::new(0)).unwrap()), sent);
}

#[test]
fn puts_wait_for_a_log_that_is_full_and_then_go_on() {
    let bench = Bench::new(small_log);
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    bench.faults.hold_syncs(true);
    let groups: Vec<_> = (0..100).map(|i| submit(&bench.store, vec![(&partition, text(i).into())])).collect();
    wait_until("the log is full", || bench.store.log_waits() > 0);
    assert!(groups[99].try_recv().is_err());
    bench.faults.hold_syncs(false);
    assert!(groups.iter().flat_map(answer).all(|result| result.is_ok()));
    assert_eq!(bodies(&partition), (0..100).map(text).collect::<Vec<_>>());
}

#[test]
fn full_files_are_used_again_when_there_is_no_space_for_further_ones() {
    let bench = Bench::new(|options| {
        small_log(options);
        options.data_path = options.data_path.with_file_name(OTHER_VOLUME);
    });
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    put(&bench.store, &partition, b"begins the log").unwrap();
    bench.wait_for_reserve();
    *bench.faults.space.lock().unwrap() = Some(0);
    for i in 0..100 {
        put(&bench.store, &partition, text(i).as_bytes()).unwrap();
    }
    assert_eq!(bodies(&partition).len(), 101);
    bench.store.close().unwrap();
}

#[test]
fn a_further_file_that_cannot_be_opened_for_every_lane_leaves_nothing_behind() {
    let bench = Bench::new(small_log);
    bench.wait_for_reserve();
    let transactions = bench.data().join("transactions");
    let before = files(&transactions);
    bench.faults.fail_log_open.store(true, Ordering::SeqCst);
    bench.store.pool.make_file().unwrap_err();
    assert_eq!(files(&transactions), before);
}

#[test]
fn many_checkpoints_leave_room_for_records_in_a_file() {
    let bench = Bench::new(small_log);
    let name = "n".repeat(190);
    let partitions: Vec<_> = (0..100).map(|index| bench.partition(&name, index, &GROUP_COMMIT)).collect();
    for partition in &partitions {
        put(&bench.store, partition, b"x").unwrap();
    }
    partitions.iter().for_each(|partition| partition.make_checkpoint().unwrap());
    let before = bench.store.pool.next_number();
    for _ in 0..60 {
        put(&bench.store, &partitions[0], b"x").unwrap();
    }
    assert!(bench.store.pool.next_number() - before < 10);
}

#[test]
fn a_close_while_puts_wait_for_the_log_answers_them_first() {
    let bench = Bench::new(small_log);
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    bench.faults.hold_syncs(true);
    let groups: Vec<_> = (0..100).map(|i| submit(&bench.store, vec![(&partition, text(i).into())])).collect();
    wait_until("the log is full", || bench.store.log_waits() > 0);
    std::thread::scope(|scope| {
        let close = scope.spawn(|| bench.store.close());
        wait_until("the store is closing", || bench.store.pool.is_closed());
        bench.faults.hold_syncs(false);
        close.join().unwrap().unwrap();
    });
    assert!(groups.iter().flat_map(answer).all(|result| result.is_ok()));
    let Bench { dir, store, .. } = bench;
    drop(store);
    let store = open(&options(dir.path())).unwrap();
    assert_eq!(bodies(&store.get("t", PartitionIndex::new(0)).unwrap()).len(), 100);
}

#[test]
fn a_poisoned_partition_does_not_hold_up_the_log_and_loses_nothing() {
    let bench = Bench::new(small_log);
    let (bad, good) = (bench.partition("bad", 0, &GROUP_COMMIT), bench.partition("good", 0, &GROUP_COMMIT));
    let mut sent = Vec::new();
    for i in 0..5 {
        put(&bench.store, &bad, text(i).as_bytes()).unwrap();
        sent.push(text(i));
    }
    bench.faults.fail_sync.store(true, Ordering::SeqCst);
    bad.make_checkpoint().unwrap_err();
    for i in 0..150 {
        put(&bench.store, &good, text(i).as_bytes()).unwrap();
    }
    let pending = bench.data().join("transactions/pending.bad-0");
    wait_until("its messages are set aside", || pending.exists());
    assert_eq!(bodies(&bad), sent);
    assert!(
        files(&bench.data().join("transactions")).iter().filter(|(name, _)| name.starts_with("commitlog")).count() <= 4
    );
    bench.store.close().unwrap_err();
    let Bench { dir, store, .. } = bench;
    drop(store);
    // As if the bytes whose sync failed had never got to the disk.
    let segment = bad.segments()[0].path().to_path_buf();
    std::fs::OpenOptions::new().write(true).open(segment).unwrap().set_len(1500).unwrap();
    let store = open(&options(dir.path())).unwrap();
    assert_eq!(bodies(&store.get("bad", bad.index()).unwrap()), sent);
    assert_eq!(bodies(&store.get("good", good.index()).unwrap()).len(), 150);
    assert!(store.health().is_healthy() && !pending.exists());
}

#[test]
fn puts_do_not_wait_for_space_to_keep_what_a_poisoned_partition_has_in_a_full_log() {
    let bench = Bench::new(|options| {
        small_log(options);
        options.data_path = options.data_path.with_file_name(OTHER_VOLUME);
    });
    let (bad, good) = (bench.partition("bad", 0, &GROUP_COMMIT), bench.partition("good", 0, &GROUP_COMMIT));
    put(&bench.store, &bad, b"kept").unwrap();
    bad.poison_with("its disk failed");
    bench.wait_for_reserve();
    *bench.faults.space.lock().unwrap() = Some(0);
    let put_one = |i| put(&bench.store, &good, text(i).as_bytes());
    let refused = (0..100).map(put_one).find_map(Result::err);
    assert!(matches!(refused, Some(AppendError::NoSpace(_))), "{refused:?}");
    *bench.faults.space.lock().unwrap() = None;
    wait_until("its messages are set aside", || bench.data().join("transactions/pending.bad-0").exists());
    wait_until("messages are taken again", || put(&bench.store, &good, b"x").is_ok());
}

#[test]
fn a_large_record_is_durable_at_once_and_keeps_its_place_between_small_ones() {
    for settings in [GROUP_COMMIT, PERIODIC] {
        let bench = Bench::new(|_| {});
        let partition = bench.partition("t", 0, &settings);
        let sizes = [5, LARGE_RECORD_BYTES, 0, 7, LARGE_RECORD_BYTES - 20, LARGE_RECORD_BYTES - 21, 9];
        let puts = sizes.iter().map(|&size| (&partition, Bytes::from(vec![b'x'; size]))).collect();
        assert!(answer(&submit(&bench.store, puts)).iter().all(Result::is_ok));
        let large_end: u64 = sizes[..5].iter().map(|&size| size as u64 + 20).sum();
        let checkpointed = partition.checkpointed.load(Ordering::SeqCst);
        assert_eq!(checkpointed, large_end, "everything up to the last large one is durable in the segment");
        assert!(partition.max_offset() >= Offset::new(large_end.cast_signed()));
        bench.store.flush();
        assert_eq!(read_all(&partition).iter().map(|seen| seen.body.len()).collect::<Vec<_>>(), sizes);
        let Bench { dir, store, .. } = bench;
        drop(store);
        let store = open(&options(dir.path())).unwrap();
        let partition = store.get("t", partition.index()).unwrap();
        assert_eq!(read_all(&partition).iter().map(|seen| seen.body.len()).collect::<Vec<_>>(), sizes);
    }
}

#[test]
fn a_large_record_that_fails_gives_its_place_to_the_next_one() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    let large = Bytes::from(vec![b'x'; 70_000]);
    let small = |body| Bytes::from_static(body);
    *bench.faults.space.lock().unwrap() = Some(30_000);
    let puts = vec![(&partition, small(b"first")), (&partition, large.clone()), (&partition, small(b"behind"))];
    let results = answer(&submit(&bench.store, puts));
    assert!(results[0].is_ok());
    assert!(results[1..].iter().all(|result| matches!(result, Err(AppendError::NoSpace(_)))), "{results:?}");
    *bench.faults.space.lock().unwrap() = None;
    assert_eq!(put(&bench.store, &partition, b"next").unwrap().offset, Offset::new(25));
    assert_eq!(put(&bench.store, &partition, &large).unwrap().offset, Offset::new(49));
    assert_eq!(put(&bench.store, &partition, b"last").unwrap().offset, Offset::new(70_069));
    bench.faults.no_descriptors.store(true, Ordering::SeqCst);
    let other = bench.partition("u", 0, &GROUP_COMMIT);
    assert!(matches!(put(&bench.store, &other, &large), Err(AppendError::Io { .. })), "its entry is not durable");
    bench.faults.no_descriptors.store(false, Ordering::SeqCst);
    assert_eq!(put(&bench.store, &other, b"x").unwrap().offset, Offset::ZERO);
    bench.faults.fail_sync.store(true, Ordering::SeqCst);
    let failed = put(&bench.store, &partition, &large);
    assert!(matches!(failed, Err(AppendError::Poisoned { .. })));
    assert_eq!(partition.written_offset(), partition.max_offset());
    let Bench { dir, store, .. } = bench;
    drop(store);
    let store = open(&options(dir.path())).unwrap();
    let lens = |name: &str| -> Vec<_> {
        read_all(&store.get(name, PartitionIndex::new(0)).unwrap()).iter().map(|seen| seen.body.len()).collect()
    };
    assert_eq!((lens("t"), lens("u")), (vec![5, 4, 70_000, 4], vec![1]));
}

#[test]
fn a_commit_on_the_callers_thread_gives_the_group_back_when_something_is_under_way() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    put(&bench.store, &partition, b"first").unwrap();
    let one = || group(vec![(&partition, Bytes::from_static(b"inline"))]).0;
    let deadline = std::time::Instant::now() + DEADLINE;
    let committer = bench.store.committer();
    let mut done = vec![one()];
    // Until both committers have gone to sleep.
    while !committer.commit_now(&mut done) {
        assert!(std::time::Instant::now() < deadline);
    }
    let results: Vec<_> = done[0].results().map(|(_, _, result)| result.unwrap().offset).collect();
    assert_eq!((results, partition.max_offset()), (vec![Offset::new(25)], Offset::new(51)));

    bench.faults.hold_log_syncs(true);
    let first = submit(&bench.store, vec![(&partition, Bytes::from_static(b"held"))]);
    wait_until("a sync is under way", || partition.written_offset() == Offset::new(75));
    let mut waiting = vec![one()];
    assert!(!committer.commit_now(&mut waiting));
    assert_eq!((waiting[0].len(), partition.written_offset()), (1, Offset::new(75)), "untouched");
    bench.faults.hold_log_syncs(false);
    assert!(answer(&first).iter().all(Result::is_ok));
    bench.store.close().unwrap();
    assert!(!committer.commit_now(&mut waiting), "the store is closed");
}

#[test]
fn tails_are_bounded_over_all_partitions() {
    let bench = Bench::new(|options| (options.commit_log_file_bytes, options.commit_log_files) = (1 << 20, 8));
    let partitions: Vec<_> = (0..200).map(|i| bench.partition("t", i, &PERIODIC)).collect();
    let body = Bytes::from(vec![b'x'; 50_000]);
    for chunk in partitions.chunks(20) {
        let puts = |partition: &Arc<_>| (Arc::clone(partition), body.clone());
        let puts: Vec<_> = chunk.iter().map(puts).collect();
        assert!(
            answer(&submit(&bench.store, puts.iter().map(|(p, body)| (p, body.clone())).collect()))
                .iter()
                .all(Result::is_ok)
        );
        assert!(bench.store.shared.tails.bytes() <= 8 << 20);
    }
}
