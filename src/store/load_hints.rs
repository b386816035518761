//! What recovery knows about partitions before they are loaded: how much of a last segment must be read.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use super::clean_stop::CleanPartition;
use super::commit_log::table::Checkpoint;
use super::fs::Stamp;
use super::load::SegmentFile;
use super::replay::{Closed, Key, OldestFrame};

/// See the module. Without any hint everything is read.
#[derive(Debug, Default)]
pub(super) struct LoadHints {
    /// Partitions that take no messages.
    pub(super) closed: HashMap<Key, Closed>,
    /// From a clean stop.
    pub(super) clean: HashMap<Key, CleanPartition>,
    /// Oldest frames of the partitions that were replayed.
    pub(super) oldest: HashMap<Key, OldestFrame>,
    /// From the log.
    pub(super) table: HashMap<Key, Checkpoint>,
}

/// How much of a last segment must be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanPlan {
    /// From this position on; what is before is intact.
    From(u64),
    /// Nothing: it is intact to its end. So many messages are known of.
    Nothing { messages: u64 },
}

impl LoadHints {
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
        let Some((last_number, last)) = files.iter().enumerate().next_back() else { return Ok(ScanPlan::From(0)) };
        if let Some(oldest) = self.oldest.get(key) {
            let position = oldest.offset.checked_sub(last.start).filter(|_| oldest.segment == last.start);
            return Ok(ScanPlan::From(position.filter(|&position| position <= last.len).unwrap_or(0)));
        }
        if let Some(clean) = self.clean.get(key) {
            let bases = clean.segments.iter().map(|(base, _)| *base);
            let mut fits = clean.dir == dir && bases.eq(files.iter().map(|file| file.start));
            for (number, (_, expected)) in clean.segments.iter().enumerate() {
                fits = fits && stamp(number)? == *expected;
            }
            return Ok(if fits { ScanPlan::Nothing { messages: clean.messages } } else { ScanPlan::From(0) });
        }
        match self.table.get(key) {
            Some(entry) if entry.segment == last.start && stamp(last_number)? == entry.stamp => {
                Ok(ScanPlan::Nothing { messages: 0 })
            }
            _ => Ok(ScanPlan::From(0)),
        }
    }
}
