use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

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
    bench.faults.hold_syncs(true);
    let offsets: Vec<_> = (0..3).map(|_| put(&bench.store, &partition, b"hello").unwrap().offset.get()).collect();
    assert_eq!(offsets, [0, 25, 50]);
    assert_eq!((partition.max_offset(), partition.written_offset()), (Offset::ZERO, Offset::new(75)));
    assert_eq!(read_all(&partition), []);
    bench.faults.hold_syncs(false);
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
fn a_lone_message_is_flushed_by_its_own_interval() {
    let bench = Bench::new(|_| {});
    let slow = bench.partition("slow", 0, &PERIODIC);
    let fast = bench.partition("fast", 0, &periodic(1000, 50));
    let started = Instant::now();
    put(&bench.store, &slow, b"x").unwrap();
    put(&bench.store, &fast, b"x").unwrap();
    wait_until("the interval is over", || fast.max_offset() == Offset::new(21));
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(slow.max_offset(), Offset::ZERO);
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
fn a_group_without_need_of_a_sync_does_not_wait_for_those_behind_it() {
    let bench = Bench::new(|_| {});
    let (periodic, group_commit) = (bench.partition("p", 0, &PERIODIC), bench.partition("g", 0, &GROUP_COMMIT));
    bench.faults.hold_syncs(true);
    // Occupies the committer until the syncs go on, so that the next two groups share a round.
    let first = submit(&bench.store, vec![(&group_commit, Bytes::from_static(b"first"))]);
    let second = submit(&bench.store, vec![(&periodic, Bytes::from_static(b"second"))]);
    let mixed = vec![(&periodic, Bytes::from_static(b"third")), (&group_commit, Bytes::from_static(b"third"))];
    let third = submit(&bench.store, mixed);
    assert!(first.recv_timeout(Duration::from_millis(50)).is_err(), "group commit answers after the sync");
    bench.faults.hold_syncs(false);
    for group in [&first, &second, &third] {
        assert!(answer(group).iter().all(Result::is_ok));
    }
    assert_eq!(group_commit.max_offset(), group_commit.written_offset());
    assert_eq!(periodic.max_offset(), Offset::ZERO);
}

#[test]
fn messages_of_a_round_share_one_sync() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    bench.faults.hold_syncs(true);
    let first = submit(&bench.store, vec![(&partition, Bytes::from_static(b"x"))]);
    wait_until("the first message is written", || partition.written_offset() == Offset::new(21));
    let rest: Vec<_> = (0..50).map(|_| submit(&bench.store, vec![(&partition, Bytes::from_static(b"x"))])).collect();
    bench.faults.hold_syncs(false);
    assert!(answer(&first).iter().chain(rest.iter().flat_map(answer).collect::<Vec<_>>().iter()).all(Result::is_ok));
    assert_eq!(bench.faults.syncs.load(Ordering::SeqCst), 2);
}
