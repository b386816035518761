//! Reading by offset, bounded by the visible mark (02 §11–12).

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::error::ReadError;
use super::fs::{DataFile, read_exact_at};
use super::partition::{PartitionLog, offset as to_offset};
use super::segment::Segment;
use crate::common::guard::lock;
use crate::id::Offset;
use crate::message::{HEADER_LEN, RecordHeader};

/// What a read found; the first rule of 02 §11 that fits.
#[derive(Debug, Clone)]
pub enum ReadOutcome {
    /// Bytes of one segment, cut by count: the last record may be incomplete.
    Region(Region),
    /// The offset lies below the oldest segment, which begins here.
    BelowMin(Offset),
    /// The offset is the visible end: nothing yet.
    AtEnd,
    /// The offset lies beyond the visible end, which is here.
    BeyondEnd(Offset),
}

/// A range of bytes within one segment, which it keeps open.
#[derive(Debug, Clone)]
pub struct Region {
    segment: Arc<Segment>,
    position: u64,
    len: usize,
    /// The bytes themselves where they could not be brought to the file.
    memory: Option<Bytes>,
}

impl Region {
    /// The segment.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// The file that holds it.
    pub fn file(&self) -> &dyn DataFile {
        self.segment.file()
    }

    /// The file of the operating system that holds it, for sending it without a copy; `None` if there is none.
    pub fn as_file(&self) -> Option<&File> {
        if self.memory.is_some() { None } else { self.file().as_file() }
    }

    /// Where it begins in the file.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Its length in bytes, never 0 unless the caller asked for nothing.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes, if they are in memory and not in the file.
    pub fn memory(&self) -> Option<&Bytes> {
        self.memory.as_ref()
    }

    /// Fills `buf` from `from` bytes into the region.
    ///
    /// # Errors
    /// When the file fails, or `buf` reaches beyond the region.
    pub fn read_at(&self, buf: &mut [u8], from: usize) -> io::Result<()> {
        if from.checked_add(buf.len()).is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match &self.memory {
            Some(bytes) => {
                buf.copy_from_slice(bytes.get(from..from + buf.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
            None => read_exact_at(self.file(), buf, self.position + from as u64),
        }
    }

    /// The whole region.
    ///
    /// # Errors
    /// When the file fails.
    pub fn to_bytes(&self) -> io::Result<Bytes> {
        let mut buf = vec![0; self.len];
        self.read_at(&mut buf, 0)?;
        Ok(buf.into())
    }
}

impl PartitionLog {
    /// Finds at most `max_bytes` bytes from an offset on, at most `max_transfer_size` of the store (02 §11).
    pub fn read(&self, offset: Offset, max_bytes: usize) -> ReadOutcome {
        // The mark first: a list loaded later holds at least what the mark covers.
        let end = self.visible.load(Ordering::Acquire);
        let segments = self.segment_list();
        let min = self.min_position(&segments);
        let Some(start) = u64::try_from(offset.get()).ok().filter(|&start| start >= min) else {
            return ReadOutcome::BelowMin(to_offset(min));
        };
        match segments.containing(start) {
            _ if start > end => ReadOutcome::BeyondEnd(to_offset(end)),
            Some((segment, segment_end)) if start < end => {
                let end = segment_end.map_or(end, |segment_end| segment_end.min(end));
                let limit = self.shared.max_transfer_size.min(max_bytes as u64);
                let len = usize::try_from((end - start).min(limit)).unwrap_or(usize::MAX);
                let position = start - segment.start_position();
                let mut region = Region { segment: Arc::clone(segment), position, len, memory: None };
                self.bring_to_file(start, &mut region);
                ReadOutcome::Region(region)
            }
            _ => ReadOutcome::AtEnd,
        }
    }

    /// Files the tail if the region reaches into it. Where that fails, the region is served from memory, or ends where
    /// the file does.
    fn bring_to_file(&self, start: u64, region: &mut Region) {
        let end = start + region.len as u64;
        if self.filed.load(Ordering::Acquire) >= end {
            return;
        }
        let filing = lock(&self.filing);
        // A failure is recorded in the partition.
        let _still_in_memory = self.file_tail_holding(&filing);
        let filed = self.filed.load(Ordering::Acquire);
        if filed >= end {
            return;
        }
        if filed > start {
            region.len = usize::try_from(filed - start).unwrap_or(region.len);
        } else {
            region.memory = self.tail_bytes(start, end, &filing);
        }
    }

    /// The offset that a consumer goes on from when its own is of no use: the minimum, the start of the segment that
    /// holds it, or the visible end (02 §12).
    pub fn nearest_offset(&self, offset: Offset) -> Offset {
        let end = self.visible.load(Ordering::Acquire);
        let segments = self.segment_list();
        let min = self.min_position(&segments);
        let nearest = match u64::try_from(offset.get()) {
            Ok(position) if position >= end => end.max(min),
            Ok(position) => segments.containing(position).map_or(min, |(segment, _)| segment.start_position()),
            Err(_) => min,
        };
        to_offset(nearest)
    }

    /// The record that begins at an offset, `None` outside the visible log.
    ///
    /// # Errors
    /// When the file fails, or no intact record begins there.
    pub fn record_at(&self, offset: Offset) -> Result<Option<(RecordHeader, Bytes)>, ReadError> {
        let end = self.visible.load(Ordering::Acquire);
        let segments = self.segment_list();
        let found = u64::try_from(offset.get()).ok().filter(|&start| start < end);
        let Some((start, (segment, segment_end))) = found.and_then(|start| Some((start, segments.containing(start)?)))
        else {
            return Ok(None);
        };
        let room = segment_end.map_or(end, |segment_end| segment_end.min(end)) - start;
        let mut region = Region {
            segment: Arc::clone(segment),
            position: start - segment.start_position(),
            len: usize::try_from(room).unwrap_or(usize::MAX),
            memory: None,
        };
        self.bring_to_file(start, &mut region);
        let room = region.len as u64;
        let path = || segment.path().to_path_buf();
        let read =
            |buf: &mut [u8], from| region.read_at(buf, from).map_err(|source| ReadError::Io { path: path(), source });
        let none = || ReadError::NoRecord { offset, path: path() };
        let mut header = [0; HEADER_LEN];
        if room < HEADER_LEN as u64 {
            return Err(none());
        }
        read(&mut header, 0)?;
        let header = RecordHeader::decode(&header);
        let len = header.record_len().filter(|&len| len <= room && !header.is_zero_fill()).ok_or_else(none)?;
        let body_len = usize::try_from(len - HEADER_LEN as u64).map_err(|_| none())?;
        let mut body = vec![0; body_len];
        read(&mut body, HEADER_LEN)?;
        if !header.matches(&body) {
            return Err(none());
        }
        Ok(Some((header, body.into())))
    }
}
