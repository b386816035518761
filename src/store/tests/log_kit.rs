//! Builds commit logs by hand.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::commit_log::format::{self, FileHeader, HEADER_LEN, Seed, begin_forget, begin_records, begin_table};
use super::super::commit_log::table::Checkpoint;
use super::kit::topic;
use crate::id::{MessageId, PartitionIndex};
use crate::message::{RecordHeader, checksum};

/// Log id of every built log.
pub(super) const LOG_ID: u64 = 0xfeed;

/// A stored record.
pub(in crate::store) fn record(id: i64, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let length = i32::try_from(body.len()).unwrap();
    RecordHeader { length, checksum: checksum(body), id: MessageId::new(id), flag: 0 }.encode(&mut out);
    out.extend_from_slice(body);
    out
}

/// A log file in the making.
#[derive(Debug, Clone)]
pub(super) struct LogFileKit {
    pub(super) number: u64,
    pub(super) log_id: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) next: u64,
    /// What the next frames name as durable; the one before them if `None`.
    pub(super) synced: Option<u64>,
    /// Where each frame begins.
    pub(super) starts: Vec<usize>,
}

impl LogFileKit {
    pub(super) fn new(number: u64, first_sequence: u64) -> Self {
        Self::with(LOG_ID, number, first_sequence, Vec::new())
    }

    pub(super) fn with(log_id: u64, number: u64, first_sequence: u64, table: Vec<Checkpoint>) -> Self {
        let mut bytes = Vec::new();
        FileHeader { log_id, file_number: number, first_sequence, table }.encode(&mut bytes);
        assert_eq!(bytes.len(), HEADER_LEN);
        Self { number, log_id, bytes, next: first_sequence, synced: None, starts: Vec::new() }
    }

    fn finish(&mut self, begun: format::Begun) {
        let synced = self.synced.unwrap_or(self.next - 1);
        begun.finish(&mut self.bytes, Seed::new(self.log_id, self.number), self.next, synced);
        self.next += 1;
    }

    pub(super) fn records(&mut self, name: &str, index: i32, segment: u64, offset: u64, records: &[u8]) -> &mut Self {
        self.starts.push(self.bytes.len());
        let begun = begin_records(&mut self.bytes, &topic(name), PartitionIndex::new(index), segment, offset);
        self.bytes.extend_from_slice(records);
        self.finish(begun);
        self
    }

    pub(super) fn forget(&mut self, name: &str, index: i32) -> &mut Self {
        self.starts.push(self.bytes.len());
        let begun = begin_forget(&mut self.bytes, &topic(name), PartitionIndex::new(index));
        self.finish(begun);
        self
    }

    pub(super) fn table(&mut self, table: &[Checkpoint]) -> &mut Self {
        self.starts.push(self.bytes.len());
        let (begun, fitting) = begin_table(&mut self.bytes, table);
        assert_eq!(fitting, table.len());
        self.finish(begun);
        self
    }

    /// A frame of a kind that nobody knows.
    pub(super) fn unknown_kind(&mut self) -> &mut Self {
        let start = self.bytes.len();
        self.starts.push(start);
        let begun = begin_forget(&mut self.bytes, &topic("t"), PartitionIndex::new(0));
        self.bytes[start + format::FRAME_HEAD_LEN - 1] = 77;
        self.finish(begun);
        self
    }

    /// Zeros up to this many bytes, as in a file that was written full of them once.
    pub(super) fn padded(mut self, len: usize) -> Self {
        assert!(len >= self.bytes.len());
        self.bytes.resize(len, 0);
        self
    }

    /// Writes the file under the name of its number.
    pub(super) fn write(&self, dir: &Path) -> PathBuf {
        let path = dir.join(format::file_name(self.number));
        fs::write(&path, &self.bytes).unwrap();
        path
    }
}
