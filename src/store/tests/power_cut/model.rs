//! What must be in a partition, and what may.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::super::kit::{Seen, read_all};
use crate::id::Offset;
use crate::message::HEADER_LEN;
use crate::store::PartitionLog;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// Messages that were answered well, oldest first.
    pub(super) records: Vec<Seen>,
    /// Bodies of those that were not: they may be there, behind the others.
    pub(super) maybe: Vec<Bytes>,
    /// End of what must be there.
    pub(super) durable: u64,
    /// Where the oldest segment may begin.
    pub(super) starts: BTreeSet<u64>,
    /// The partition was about to be deleted: what is left of it is a piece of it.
    pub(super) deleting: bool,
}

pub(super) fn position(offset: Offset) -> u64 {
    u64::try_from(offset.get()).unwrap()
}

fn end(seen: &Seen) -> u64 {
    position(seen.offset) + (HEADER_LEN + seen.body.len()) as u64
}

impl Model {
    /// End of what was answered well.
    pub(super) fn end(&self) -> u64 {
        self.records.last().map_or_else(|| self.starts.last().copied().unwrap_or(0), end)
    }

    /// Takes note of what a reader could have seen.
    pub(super) fn note_visible(&mut self, partition: &PartitionLog) {
        let visible = position(partition.max_offset());
        assert!(visible >= self.durable.min(self.end()), "{} went back to {visible}", partition.name());
        self.durable = self.durable.max(visible);
    }

    /// Compares a partition with the model after a start, and goes on with what is there.
    pub(super) fn check_after_start(&mut self, partition: Option<&PartitionLog>) {
        let Some(partition) = partition else {
            assert!(self.deleting || self.durable == 0, "the partition is gone");
            *self = Self::default();
            return;
        };
        assert_eq!(partition.poison(), None);
        let seen = read_all(partition);
        let (start, visible) = (position(partition.min_offset()), position(partition.max_offset()));
        assert_eq!(partition.written_offset(), partition.max_offset());
        assert!(seen.is_sorted_by(|a, b| a.id < b.id), "{}: ids ascend", partition.name());
        self.starts.insert(0);
        if self.deleting {
            self.check_piece(&seen);
        } else {
            assert!(
                self.starts.contains(&start),
                "{} begins at {start}, not at any of {:?}",
                partition.name(),
                self.starts
            );
            assert!(visible >= self.durable, "{} lost {visible}..{}", partition.name(), self.durable);
            self.records.retain(|record| position(record.offset) >= start);
            let known = seen.len().min(self.records.len());
            assert!(
                seen[..known] == self.records[..known],
                "{}: {}",
                partition.name(),
                difference(&seen, &self.records)
            );
            self.check_maybe(&seen[known..]);
        }
        *self = Self { durable: visible, starts: BTreeSet::from([start]), records: seen, ..Self::default() };
    }

    fn check_piece(&self, seen: &[Seen]) {
        let first = seen.first().and_then(|first| self.records.iter().position(|record| record == first));
        let rest = first.map_or(&[][..], |first| &self.records[first..]);
        let known = seen.len().min(rest.len());
        assert!(seen[..known] == rest[..known]);
        self.check_maybe(&seen[known..]);
    }

    /// Nothing is there that was never put, nothing is there twice.
    fn check_maybe(&self, seen: &[Seen]) {
        let mut maybe = self.maybe.clone();
        for Seen { offset, id, body } in seen {
            let found = maybe.iter().position(|maybe| maybe == body);
            let found =
                found.unwrap_or_else(|| panic!("nobody put {} bytes that are at {offset} with id {id}", body.len()));
            maybe.remove(found);
        }
    }
}

fn difference(seen: &[Seen], records: &[Seen]) -> String {
    let at = seen.iter().zip(records).position(|(a, b)| a != b).unwrap_or(0);
    let show = |seen: Option<&Seen>| seen.map(|seen| (seen.offset, seen.id, seen.body.len()));
    format!("message {at} is {:?}, not {:?}", show(seen.get(at)), show(records.get(at)))
}
