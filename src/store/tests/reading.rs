use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::super::{ReadError, ReadOutcome};
use super::kit::*;
use crate::id::Offset;

/// Segments at 0, 1024, 2048 and 3072, each 1024 bytes long.
fn four_segments() -> (Bench, std::sync::Arc<super::super::PartitionLog>) {
    let bench = Bench::new(|options| options.max_segment_size = 1024);
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    for _ in 0..8 {
        put(&bench.store, &partition, &[b'x'; 492]).unwrap();
    }
    (bench, partition)
}

#[test]
fn the_nearest_offset_is_the_start_of_the_segment() {
    let (_bench, partition) = four_segments();
    for (asked, nearest) in [
        (-100, 0),
        (i64::MIN, 0),
        (0, 0),
        (1023, 0),
        (1024, 1024),
        (2000, 1024),
        (2536, 2048),
        (3073, 3072),
        (4095, 3072),
        (4096, 4096),
        (16384, 4096),
        (i64::MAX, 4096),
    ] {
        assert_eq!(partition.nearest_offset(Offset::new(asked)), Offset::new(nearest), "{asked}");
    }
}

#[test]
fn a_read_follows_the_rules_in_their_order() {
    let (_bench, partition) = four_segments();
    let read = |offset, max| match partition.read(Offset::new(offset), max) {
        ReadOutcome::Region(region) => {
            let start = region.segment().start().get() + region.position().cast_signed();
            assert_eq!(start, offset);
            format!("{} in {}", region.len(), region.segment().start())
        }
        ReadOutcome::BelowMin(min) => format!("below {min}"),
        ReadOutcome::AtEnd => "end".to_owned(),
        ReadOutcome::BeyondEnd(max) => format!("beyond {max}"),
    };
    for (offset, max, outcome) in [
        (-1, 10, "below 0"),
        (i64::MIN, 10, "below 0"),
        (0, 10, "10 in 0"),
        (0, 1 << 20, "1024 in 0"),
        (1000, 1 << 20, "24 in 0"),
        (1023, 1 << 20, "1 in 0"),
        (1024, 512, "512 in 1024"),
        (4095, 512, "1 in 3072"),
        (4096, 512, "end"),
        (4097, 512, "beyond 4096"),
        (i64::MAX, 512, "beyond 4096"),
    ] {
        assert_eq!(read(offset, max), outcome, "{offset}, {max}");
    }
}

#[test]
fn an_empty_partition_has_no_messages_and_no_offsets() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    assert!(matches!(partition.read(Offset::ZERO, 1), ReadOutcome::AtEnd));
    assert!(matches!(partition.read(Offset::LATEST, 1), ReadOutcome::BeyondEnd(Offset::ZERO)));
    assert!(matches!(partition.read(Offset::new(-1), 1), ReadOutcome::BelowMin(Offset::ZERO)));
    assert_eq!(partition.nearest_offset(Offset::new(7)), Offset::ZERO);
    assert!(partition.record_at(Offset::ZERO).unwrap().is_none());
}

#[test]
fn a_read_returns_at_most_what_the_store_transfers_and_never_passes_the_visible_mark() {
    let bench = Bench::new(|options| options.max_transfer_size = 30);
    let partition = bench.partition("t", 0, &PERIODIC);
    put(&bench.store, &partition, b"hello").unwrap();
    bench.store.flush();
    put(&bench.store, &partition, b"hello").unwrap();
    let ReadOutcome::Region(region) = partition.read(Offset::ZERO, 1000) else { panic!("no region") };
    assert_eq!(region.len(), 25, "the second message is not durable");
    bench.store.flush();
    let ReadOutcome::Region(region) = partition.read(Offset::ZERO, 1000) else { panic!("no region") };
    assert_eq!(region.len(), 30, "the limit of a transfer");
    assert!(region.read_at(&mut [0; 10], 25).is_err(), "a region is not left");
    let mut tail = [0; 5];
    region.read_at(&mut tail, 20).unwrap();
    assert_eq!(&tail, b"hello");
}

#[test]
fn a_record_is_found_by_its_offset_only() {
    let (_bench, partition) = four_segments();
    for offset in [0, 512, 1024, 3584] {
        let (_, body) = partition.record_at(Offset::new(offset)).unwrap().unwrap();
        assert_eq!(body, [b'x'; 492][..]);
    }
    for offset in [1, 511, 600, 1023, 4095] {
        let error = partition.record_at(Offset::new(offset)).unwrap_err();
        assert!(matches!(error, ReadError::NoRecord { .. }), "{offset}: {error}");
    }
    for offset in [-1, 4096, i64::MAX] {
        assert!(partition.record_at(Offset::new(offset)).unwrap().is_none());
    }
}

#[test]
fn readers_see_every_message_once_while_segments_are_rolled() {
    let bench = Bench::new(|options| options.max_segment_size = 700);
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let (mut offset, mut seen) = (Offset::ZERO, 0);
                    loop {
                        let last = stop.load(Ordering::Acquire);
                        for record in read_from_while_growing(&partition, &mut offset) {
                            assert_eq!(record, format!("message {seen}"));
                            seen += 1;
                        }
                        if last {
                            return seen;
                        }
                    }
                })
            })
            .collect();
        for i in 0..300 {
            let puts = (0..5).map(|j| (&partition, Bytes::from(format!("message {}", i * 5 + j)))).collect();
            assert!(answer(&submit(&bench.store, puts)).iter().all(Result::is_ok));
        }
        stop.store(true, Ordering::Release);
        for reader in readers {
            assert_eq!(reader.join().unwrap(), 1500);
        }
    });
    assert!(partition.segments().len() > 50);
}

fn read_from_while_growing(partition: &super::super::PartitionLog, offset: &mut Offset) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        match partition.read(*offset, 1 << 20) {
            ReadOutcome::Region(region) => {
                let bytes = region.to_bytes().unwrap();
                let len = bytes.len();
                let mut records = crate::message::Records::new(bytes, 1 << 20);
                let text = |r: crate::message::Record| String::from_utf8(r.body.to_vec()).unwrap();
                seen.extend(records.by_ref().map(|record| text(record.unwrap())));
                assert_eq!(records.consumed(), len, "the mark is at the end of a record");
                *offset = offset.checked_add(len as u64).unwrap();
            }
            ReadOutcome::AtEnd => return seen,
            other => panic!("{other:?}"),
        }
    }
}
