use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::super::TopicSettings;
use super::kit::*;
use crate::id::Offset;

fn periodic(threshold: i32, interval_ms: i32) -> TopicSettings {
    TopicSettings { unflush_threshold: threshold, unflush_interval_ms: interval_ms, data_path: None }
}

#[test]
fn messages_of_a_periodic_partition_are_answered_after_the_write_and_seen_after_the_sync() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &PERIODIC);
    put(&bench.store, &bench.partition("first", 0, &GROUP_COMMIT), b"begins the log").unwrap();
    bench.faults.hold_log_syncs(true);
    let offsets: Vec<_> = (0..3).map(|_| put(&bench.store, &partition, b"hello").unwrap().offset.get()).collect();
    assert_eq!(offsets, [0, 25, 50]);
    assert_eq!((partition.max_offset(), partition.written_offset()), (Offset::ZERO, Offset::new(75)));
    assert_eq!(read_all(&partition), []);
    bench.faults.hold_log_syncs(false);
    bench.store.flush();
    assert_eq!(read_all(&partition).len(), 3);
}

#[test]
fn the_threshold_must_be_exceeded() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &periodic(3, 1_000_000));
    for i in 1..=3 {
        put(&bench.store, &partition, b"hello").unwrap();
        assert_eq!(partition.max_offset(), Offset::ZERO, "after {i}");
    }
    put(&bench.store, &partition, b"hello").unwrap();
    // The answer precedes the sync.
    wait_until("the fourth message flushes", || partition.max_offset() == Offset::new(100));
}

#[test]
fn syncs_that_overlap_do_not_count_a_message_twice() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &PERIODIC);
    let put_some = |count| {
        for _ in 0..count {
            put(&bench.store, &partition, b"hello").unwrap();
        }
    };
    put_some(3);
    let first = partition.about_to_sync();
    put_some(2);
    let second = partition.about_to_sync();
    partition.synced(second);
    partition.synced(first);
    put_some(1);
    assert_eq!(partition.unflushed(), 1);
    bench.store.flush();
    assert_eq!((partition.unflushed(), partition.max_offset()), (0, Offset::new(150)));
}

#[test]
fn a_lone_message_is_flushed_by_its_own_interval_and_takes_all_others_with_it() {
    let bench = Bench::new(|_| {});
    let slow = bench.partition("slow", 0, &PERIODIC);
    let fast = bench.partition("fast", 0, &periodic(1000, 50));
    put(&bench.store, &slow, b"x").unwrap();
    assert_eq!(slow.max_offset(), Offset::ZERO);
    put(&bench.store, &fast, b"x").unwrap();
    wait_until("the interval is over", || fast.max_offset() == Offset::new(21));
    assert_eq!(slow.max_offset(), Offset::new(21), "one sync covers every partition");
}

#[test]
fn an_interval_of_zero_or_less_flushes_at_every_append() {
    for interval in [0, -1, i32::MIN] {
        let bench = Bench::new(|_| {});
        let partition = bench.partition("t", 0, &periodic(1000, interval));
        for i in 1..5 {
            put(&bench.store, &partition, b"hello").unwrap();
            wait_until("the append is flushed", || partition.max_offset() == Offset::new(25 * i));
        }
    }
}

#[test]
fn changed_settings_take_effect_on_what_is_waiting() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &PERIODIC);
    put(&bench.store, &partition, b"hello").unwrap();
    bench.store.apply_settings(|_| periodic(1000, 1));
    wait_until("the shorter interval is over", || partition.max_offset() == Offset::new(25));

    bench.store.apply_settings(|_| PERIODIC);
    put(&bench.store, &partition, b"hello").unwrap();
    bench.store.apply_settings(|_| GROUP_COMMIT);
    wait_until("group commit takes over", || partition.max_offset() == Offset::new(50));
    put(&bench.store, &partition, b"hello").unwrap();
    assert_eq!(partition.max_offset(), Offset::new(75));
}

#[test]
fn a_group_without_need_of_a_sync_waits_only_for_those_before_it() {
    let bench = Bench::new(|_| {});
    let (periodic, group_commit) = (bench.partition("p", 0, &PERIODIC), bench.partition("g", 0, &GROUP_COMMIT));
    put(&bench.store, &group_commit, b"begins the log").unwrap();
    bench.faults.hold_log_syncs(true);
    let alone = submit(&bench.store, vec![(&periodic, Bytes::from_static(b"alone"))]);
    assert!(answer(&alone).iter().all(Result::is_ok), "no sync is waited for");
    let first = submit(&bench.store, vec![(&group_commit, Bytes::from_static(b"first"))]);
    let behind = submit(&bench.store, vec![(&periodic, Bytes::from_static(b"behind"))]);
    wait_until("all is written", || periodic.written_offset() == Offset::new(51));
    assert!(first.try_recv().is_err(), "group commit answers after the sync");
    assert!(behind.try_recv().is_err(), "answers keep the order of the calls");
    bench.faults.hold_log_syncs(false);
    for group in [&first, &behind] {
        assert!(answer(group).iter().all(Result::is_ok));
    }
    assert_eq!(group_commit.max_offset(), group_commit.written_offset());
}

#[test]
fn messages_that_come_during_a_sync_share_the_next_one() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    put(&bench.store, &partition, b"x").unwrap();
    let before = bench.faults.log_syncs.load(Ordering::SeqCst);
    bench.faults.hold_log_syncs(true);
    let one = || submit(&bench.store, vec![(&partition, Bytes::from_static(b"x"))]);
    let (first, second) = (one(), one());
    wait_until("both have their offsets", || partition.written_offset() == Offset::new(63));
    let rest: Vec<_> = (0..50).map(|_| one()).collect();
    bench.faults.hold_log_syncs(false);
    assert!([first, second].iter().chain(&rest).flat_map(answer).all(|result| result.is_ok()));
    let syncs = bench.faults.log_syncs.load(Ordering::SeqCst) - before;
    // At most one for each committer is held up, and one more follows.
    assert!((1..=4).contains(&syncs), "{syncs}");
}
