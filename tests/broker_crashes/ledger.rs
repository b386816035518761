//! What a broker must have, against what it has.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use metaq::message::Records;
use metaq::protocol::{Response, Status};

use crate::common::DEADLINE;
use crate::common::raw::Raw;
use crate::load::{Acknowledged, Place};
use crate::payload::Marker;

/// Every message acknowledged by a broker on one directory, and every message that its readers have seen.
#[derive(Default)]
pub(crate) struct Ledger {
    acknowledged: HashMap<(Place, i64), Acknowledged>,
    seen: HashMap<Place, Vec<Stored>>,
}

/// A message in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) offset: i64,
    pub(crate) id: i64,
    /// `None` for an empty one.
    pub(crate) marker: Option<Marker>,
}

impl Ledger {
    /// Takes note of what was acknowledged; no two messages have the same place.
    #[track_caller]
    pub(crate) fn acknowledge(&mut self, acknowledged: impl IntoIterator<Item = Acknowledged>) {
        for one in acknowledged {
            let other = self.acknowledged.insert((one.place, one.offset), one);
            assert!(other.is_none(), "acknowledged at the same place: {one:?} and {other:?}");
        }
    }

    /// Messages acknowledged so far.
    pub(crate) fn len(&self) -> usize {
        self.acknowledged.len()
    }

    /// Reads all partitions from their beginning to their end and asserts that
    /// * everything acknowledged is there, with its id and payload;
    /// * everything that was there before still is, before everything else;
    /// * nothing is there twice, neither an id nor a payload that is not empty;
    /// * ids ascend in each partition.
    pub(crate) async fn check(&mut self, client: &mut Raw, places: &[Place]) {
        let (mut ids, mut markers) = (HashSet::new(), HashSet::new());
        let mut found = 0;
        for &place in places {
            let log = self.read_acknowledged(client, place).await;
            let before = self.seen.get(&place).map_or(&[][..], Vec::as_slice);
            assert!(log.starts_with(before), "{place:?}: what readers have seen has changed");
            for pair in log.windows(2) {
                assert!(pair[0].id < pair[1].id, "{place:?}: ids do not ascend: {pair:?}");
            }
            for one in &log {
                assert!(ids.insert(one.id), "{place:?}: the id of {one:?} is there twice");
                assert!(one.marker.is_none_or(|marker| markers.insert(marker)), "{place:?}: {one:?} is there twice");
                if let Some(acknowledged) = self.acknowledged.get(&(place, one.offset)) {
                    let expected = (acknowledged.id, acknowledged.marker);
                    assert_eq!((one.id, one.marker), expected, "{place:?}, offset {}", one.offset);
                    found += 1;
                }
            }
            self.seen.insert(place, log);
        }
        if found < self.acknowledged.len() {
            let missing = |one: &&Acknowledged| {
                !self.seen.get(&one.place).is_some_and(|log| log.iter().any(|stored| stored.offset == one.offset))
            };
            let mut missing: Vec<_> = self.acknowledged.values().filter(missing).collect();
            missing.sort_by_key(|one| (one.place, one.offset));
            let ends: Vec<_> = self.seen.iter().map(|(place, log)| (place, log.last())).collect();
            panic!("{} acknowledged messages are missing; the first: {:?}; ends: {ends:?}", missing.len(), missing[0]);
        }
    }

    /// The log once it goes as far as what was acknowledged, or at the deadline: what is flushed by time is not visible
    /// at once.
    async fn read_acknowledged(&self, client: &mut Raw, place: Place) -> Vec<Stored> {
        let offsets = self.acknowledged.keys().filter(|(other, _)| *other == place).map(|(_, offset)| *offset);
        let last_acknowledged = offsets.max();
        let started = Instant::now();
        loop {
            let log = read_log(client, place).await;
            if log.last().map(|last| last.offset) >= last_acknowledged || started.elapsed() > DEADLINE {
                return log;
            }
        }
    }
}

/// The whole log of a partition: records without a gap from offset 0 to the end that the broker names.
pub(crate) async fn read_log(client: &mut Raw, (topic, partition): Place) -> Vec<Stored> {
    let (mut offset, mut log) = (0, Vec::new());
    while let Some(data) = client.get(topic, partition, offset).await {
        let mut records = Records::new(data, 1 << 20);
        for record in records.by_ref() {
            let record = record.unwrap_or_else(|error| panic!("{topic}-{partition} from {offset} on: {error}"));
            let marker = Marker::of(&record.body);
            log.push(Stored { offset: offset + record.position as i64, id: record.header.id.get(), marker });
        }
        assert!(records.consumed() > 0, "{topic}-{partition}: no whole message at {offset}");
        offset += records.consumed() as i64;
    }
    client.send(format!("offset {topic} g {partition} {} 3\r\n", i64::MAX)).await;
    match client.answer().await {
        Some(Response::Result(result)) if result.status == Status::SUCCESS => {
            let end = String::from_utf8(result.body.to_vec()).unwrap();
            assert_eq!(end, offset.to_string(), "{topic}-{partition}: end named and end read");
        }
        // Nothing was ever put.
        answer => assert!(log.is_empty(), "{answer:?}"),
    }
    log
}
