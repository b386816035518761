//! Encodes records for one write: small bodies are gathered in one reused buffer, large ones are written from where
//! they are.

use std::io::{self, IoSlice};
use std::ops::Range;

use bytes::Bytes;

use super::fs::{DataFile, write_all_at};
use crate::id::MessageId;
use crate::message::{HEADER_LEN, RecordHeader};

/// A body of at least this many bytes is not copied.
const LARGE_BODY: usize = 64 * 1024;

/// Gathered bytes after which a write is due.
const GATHERED_LIMIT: usize = 1024 * 1024;

/// A record about to be written; its body has at most `i32::MAX` bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outgoing<'a> {
    pub(super) id: MessageId,
    pub(super) flag: i32,
    pub(super) checksum: i32,
    pub(super) length: i32,
    pub(super) body: &'a Bytes,
}

impl Outgoing<'_> {
    pub(super) fn record_len(&self) -> u64 {
        (HEADER_LEN + self.body.len()) as u64
    }
}

#[derive(Debug)]
enum Piece {
    Gathered(Range<usize>),
    /// The body of the record of this number.
    Body(usize),
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Gather {
    buf: Vec<u8>,
    pieces: Vec<Piece>,
    records: usize,
}

impl Gather {
    pub(super) fn clear(&mut self) {
        self.buf.clear();
        self.pieces.clear();
        self.records = 0;
    }

    /// Whether enough is gathered for a write.
    pub(super) fn is_full(&self) -> bool {
        self.buf.len() >= GATHERED_LIMIT
    }

    /// Takes the next record.
    pub(super) fn push(&mut self, record: &Outgoing<'_>) {
        let &Outgoing { id, flag, checksum, length, body } = record;
        let start = self.buf.len();
        RecordHeader { length, checksum, id, flag }.encode(&mut self.buf);
        let large = body.len() >= LARGE_BODY;
        if !large {
            self.buf.extend_from_slice(body);
        }
        match self.pieces.last_mut() {
            Some(Piece::Gathered(range)) => range.end = self.buf.len(),
            _ => self.pieces.push(Piece::Gathered(start..self.buf.len())),
        }
        if large {
            self.pieces.push(Piece::Body(self.records));
        }
        self.records += 1;
    }

    /// Writes what was taken; `records` are the same records again.
    pub(super) fn write(&self, records: &[Outgoing<'_>], file: &dyn DataFile, position: u64) -> io::Result<()> {
        let slice = |piece: &Piece| match piece {
            Piece::Gathered(range) => IoSlice::new(self.buf.get(range.clone()).unwrap_or_default()),
            Piece::Body(index) => IoSlice::new(records.get(*index).map_or(&[][..], |record| record.body)),
        };
        let mut slices: Vec<IoSlice<'_>> = self.pieces.iter().map(slice).collect();
        write_all_at(file, &mut slices, position)
    }
}
