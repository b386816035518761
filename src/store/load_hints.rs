//! What recovery knows about partitions before they are loaded: how much of a last segment must be read.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use super::clean_stop::CleanPartition;
use super::commit_log::table::Checkpoint;
use super::fs::Stamp;
use super::load::SegmentFile;
use super::replay::{Closed, Framed, Key};

/// See the module. Without any hint everything is read.
#[derive(Debug, Default)]
pub(super) struct LoadHints {
    /// Partitions that take no messages.
    pub(super) closed: HashMap<Key, Closed>,
    /// From a clean stop.
    pub(super) clean: HashMap<Key, CleanPartition>,
    /// Where the frames of the partitions lie that were replayed.
    pub(super) framed: HashMap<Key, Framed>,
    /// From the log.
    pub(super) table: HashMap<Key, Checkpoint>,
    /// There was a log in use: what it does not vouch for was never answered as durable.
    pub(super) has_log: bool,
    /// Message ids are not known otherwise: everything is read.
    pub(super) read_all: bool,
}

/// How much of a last segment must be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanPlan {
    /// From this position on; what is before is intact. The commit log vouches for the file up to `vouched`, if it knows of
    /// it.
    From { position: u64, vouched: Option<u64> },
    /// Nothing: it is intact to its end. So many messages are known of.
    Nothing { messages: u64 },
}

impl LoadHints {
    /// Offset up to which the log vouches for a partition; `None` without a log.
    pub(super) fn vouched(&self, key: &Key) -> Option<u64> {
        let framed = self.framed.get(key).map(|framed| framed.end);
        let table = self.table.get(key).map(|entry| entry.segment.saturating_add(entry.stamp.len));
        self.has_log.then(|| framed.max(table).unwrap_or(0))
    }

    /// How much of the last of `files` must be read; `stamp` tells the stamp of a file by its number.
    ///
    /// # Errors
    /// When a stamp cannot be read.
    pub(super) fn plan(
        &self,
        key: &Key,
        dir: &Path,
        files: &[SegmentFile],
        stamp: &dyn Fn(usize) -> io::Result<Stamp>,
    ) -> io::Result<ScanPlan> {
        let whole = ScanPlan::From { position: 0, vouched: None };
        let Some((last_number, last)) = files.iter().enumerate().next_back() else { return Ok(whole) };
        if self.read_all {
            let known = self.framed.contains_key(key) || self.table.contains_key(key);
            let vouched = self.vouched(key).filter(|_| known).map(|end| end.saturating_sub(last.start));
            return Ok(ScanPlan::From { position: 0, vouched });
        }
        if let Some(framed) = self.framed.get(key) {
            let position = framed.offset.checked_sub(last.start).filter(|_| framed.segment == last.start);
            return Ok(ScanPlan::From {
                position: position.filter(|&position| position <= last.len).unwrap_or(0),
                vouched: Some(framed.end.saturating_sub(last.start)),
            });
        }
        if let Some(clean) = self.clean.get(key) {
            let bases = clean.segments.iter().map(|(base, _)| *base);
            let mut fits = clean.dir == dir && bases.eq(files.iter().map(|file| file.start));
            for (number, (_, expected)) in clean.segments.iter().enumerate() {
                fits = fits && stamp(number)? == *expected;
            }
            return Ok(if fits { ScanPlan::Nothing { messages: clean.messages } } else { whole });
        }
        Ok(match self.table.get(key) {
            None => whole,
            Some(entry) if entry.segment == last.start && stamp(last_number)? == entry.stamp => {
                ScanPlan::Nothing { messages: 0 }
            }
            Some(entry) => {
                let end = entry.segment.saturating_add(entry.stamp.len);
                ScanPlan::From { position: 0, vouched: Some(end.saturating_sub(last.start)) }
            }
        })
    }
}
