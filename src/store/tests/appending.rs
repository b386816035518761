use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::super::{AppendGroup, AppendSink};
use super::kit::*;
use crate::id::Offset;
use crate::message::checksum;

#[test]
fn a_record_on_disk_has_the_bytes_of_the_reference() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("my-topic", 12, &GROUP_COMMIT);
    assert!(!bench.data().join("my-topic-12").exists(), "the directory is made by the first append");
    let appended = put(&bench.store, &partition, b"hello").unwrap();
    assert_eq!((appended.offset, appended.index), (Offset::ZERO, partition.index()));
    assert_eq!(bodies(&partition), ["hello"], "a get brings it to the file");
    let file = std::fs::read(bench.data().join("my-topic-12/00000000000000000000.meta")).unwrap();
    let id = appended.id.get().to_be_bytes();
    let header = [&[0, 0, 0, 5], &checksum(b"hello").to_be_bytes()[..], &id, &[0; 4]].concat();
    assert_eq!(file, [&header[..], b"hello"].concat());
}

#[test]
fn offsets_are_dense_and_ids_ascend_in_the_order_of_arrival() {
    let bench = Bench::new(|options| options.max_segment_size = 500);
    let partitions: Vec<_> = (0..3).map(|i| bench.partition("t", i, &GROUP_COMMIT)).collect();
    bench.faults.hold_log_syncs(true);
    let groups: Vec<_> = (0..40)
        .map(|group| {
            let body = |i| Bytes::from(format!("message {group}/{i}"));
            submit(&bench.store, (0..5).map(|i| (&partitions[(group + i) % 3], body(i))).collect())
        })
        .collect();
    bench.faults.hold_log_syncs(false);
    let appended: Vec<_> = groups.iter().flat_map(answer).map(Result::unwrap).collect();
    assert!(appended.is_sorted_by(|a, b| a.id < b.id));
    for partition in &partitions {
        let seen = read_all(partition);
        let answered: Vec<_> = appended.iter().filter(|a| a.index == partition.index()).map(|a| a.offset).collect();
        assert_eq!(seen.iter().map(|seen| seen.offset).collect::<Vec<_>>(), answered);
        assert_eq!(partition.message_count(), seen.len() as u64);
        assert_eq!(partition.size_bytes(), partition.max_offset().get().cast_unsigned());
        assert!(partition.segments().len() > 3);
    }
}

/// Tells in which order groups come back.
struct Order(usize, Mutex<std::sync::mpsc::Sender<(usize, bool)>>);

impl AppendSink for Order {
    fn complete(&self, groups: &mut Vec<AppendGroup>) {
        for group in groups.drain(..) {
            let is_ok = group.results().all(|(_, _, result)| result.is_ok());
            self.1.lock().unwrap().send((self.0, is_ok)).unwrap();
        }
    }
}

struct Panics;

impl AppendSink for Panics {
    fn complete(&self, _groups: &mut Vec<AppendGroup>) {
        panic!("a fault of the receiver, expected in this test");
    }
}

#[test]
fn answers_come_in_the_order_of_the_calls() {
    let bench = Bench::new(|_| {});
    let (sender, order) = std::sync::mpsc::channel();
    let modes = [GROUP_COMMIT, PERIODIC];
    let partitions: Vec<_> = (0..2).map(|i| bench.partition("t", i, &modes[usize::try_from(i).unwrap()])).collect();
    for i in 0..100 {
        let partition = &partitions[(i / 3) % 2];
        let mut group = AppendGroup::new(Arc::new(Order(i, Mutex::new(sender.clone()))));
        group.push(partition, 0, checksum(b"x"), b"x", 0);
        bench.store.committer().submit(&mut vec![group]);
    }
    for i in 0..100 {
        assert_eq!(order.recv_timeout(DEADLINE), Ok((i, true)));
    }
}

#[test]
fn ten_records_of_a_segment_size_together_give_two_files() {
    for one_by_one in [true, false] {
        let bench = Bench::new(|options| options.max_segment_size = 10 * 120);
        let partition = bench.partition("t", 0, &GROUP_COMMIT);
        let body = Bytes::from(vec![b'x'; 100]);
        if one_by_one {
            for _ in 0..10 {
                put(&bench.store, &partition, &body).unwrap();
            }
        } else {
            let group = submit(&bench.store, vec![(&partition, body); 10]);
            assert!(answer(&group).iter().all(Result::is_ok));
        }
        let names = [("00000000000000000000.meta".to_owned(), 1200), ("00000000000000001200.meta".to_owned(), 0)];
        assert_eq!(files(partition.dir()), names);
        assert_eq!((partition.min_offset(), partition.max_offset()), (Offset::ZERO, Offset::new(1200)));
    }
}

#[test]
fn a_segment_exceeds_its_size_by_one_record_at_most_even_within_a_group() {
    let bench = Bench::new(|options| options.max_segment_size = 1000);
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    let group = submit(&bench.store, vec![(&partition, Bytes::from(vec![b'x'; 280])); 20]);
    assert!(answer(&group).iter().all(Result::is_ok));
    let sizes: Vec<_> = files(partition.dir()).into_iter().map(|(_, size)| size).collect();
    assert_eq!(sizes, [1200, 1200, 1200, 1200, 1200, 0]);
    assert_eq!(read_all(&partition).len(), 20);
}

#[test]
fn records_of_any_size_are_durable_before_the_answer() {
    let bench = Bench::new(|options| {
        options.max_segment_size = 5_000_000;
        options.max_transfer_size = 64 << 20;
    });
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    let sizes = [0, 65_515, 65_536, 524_267, 524_268, 524_288, 3 << 20, 10, 9 << 20, 1];
    for (i, &size) in sizes.iter().enumerate() {
        let syncs = || bench.faults.syncs.load(Ordering::SeqCst) + bench.faults.log_syncs.load(Ordering::SeqCst);
        let before = syncs();
        let appended = put(&bench.store, &partition, &vec![b'a' + u8::try_from(i).unwrap(); size]).unwrap();
        assert!(syncs() > before, "{size} bytes were answered without a sync");
        let (header, body) = partition.record_at(appended.offset).unwrap().unwrap();
        assert_eq!((header.id, body.len()), (appended.id, size));
    }
    // And all of them in one group, small ones between large ones.
    let puts = sizes.iter().map(|&size| (&partition, Bytes::from(vec![b'z'; size]))).collect();
    assert!(answer(&submit(&bench.store, puts)).iter().all(Result::is_ok));
    let lens: Vec<_> = read_all(&partition).iter().map(|seen| seen.body.len()).collect();
    assert_eq!(lens, [sizes, sizes].concat());
}

#[test]
fn a_write_that_takes_a_few_bytes_at_a_time_is_completed() {
    let bench = Bench::new(|options| options.max_segment_size = 300);
    bench.faults.short_writes.store(7, Ordering::SeqCst);
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    let sent: Vec<String> = (0..20).map(|i| format!("message number {i}")).collect();
    let puts = sent.iter().map(|body| (&partition, Bytes::from(body.clone()))).collect();
    assert!(answer(&submit(&bench.store, puts)).iter().all(Result::is_ok));
    assert_eq!(bodies(&partition), sent);
}

#[test]
fn the_body_bytes_of_a_group_count_neither_headers_nor_what_was_cleared() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    let mut group = AppendGroup::default();
    for body in [&b"12345"[..], b"", &[b'x'; 100_000], b"1"] {
        group.push(&partition, 0, checksum(body), body, 0);
    }
    assert_eq!(group.body_bytes(), 100_006);
    group.clear();
    assert_eq!(group.body_bytes(), 0);
}

#[test]
fn an_empty_group_and_a_panicking_receiver_leave_the_committer_at_work() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    assert_eq!(answer(&submit(&bench.store, Vec::new())).len(), 0);
    bench.store.committer().submit(&mut vec![AppendGroup::new(Arc::new(Panics))]);
    assert!(put(&bench.store, &partition, b"x").is_ok());
}

#[test]
fn the_entry_of_a_segment_is_durable_before_the_next_one_exists_and_a_close_makes_all_durable() {
    let bench = Bench::new(|options| options.max_segment_size = 50);
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    let events = || {
        let mut events = bench.faults.take_events();
        events
            .retain(|event| !event.contains("commitlog.") && !event.contains("transactions") && !event.contains("ids"));
        events
    };
    events();
    put(&bench.store, &partition, b"hello").unwrap();
    let (first, second) = ("00000000000000000000.meta", "00000000000000000050.meta");
    assert_eq!(events(), ["make t-0", &format!("create {first}")]);
    put(&bench.store, &partition, b"world").unwrap();
    assert_eq!(events(), ["sync data", "sync t-0", &format!("create {second}")]);
    bench.store.close().unwrap();
    let mut events = events();
    events.retain(|event| !event.contains("clean.stop"));
    assert_eq!(events, [&format!("sync {first}"), &format!("sync {second}"), "sync t-0"]);
}
