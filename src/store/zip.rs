//! ZIP archives with a single entry, as the reference makes them of expired segments (02 §13).
//!
//! Nothing but the bytes: the entry is deflated piece by piece, its header is written when the sizes are known. Archives
//! that need the records of ZIP64 get them, others do not have them.

use std::borrow::Cow;
use std::io::{self, IoSlice};
use std::ops::Range;

use flate2::{Compress, Compression, FlushCompress, Status};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::fs::{DataFile, read_exact_at, write_all_at};

/// Bytes that are read, and bytes that are compressed, at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// Entries of at least this many bytes get the records of ZIP64: what is behind them might lie beyond 4 GiB. Far enough
/// below for what deflating adds to bytes that cannot be compressed.
const ZIP64_FROM_BYTES: u64 = 0xf000_0000;

const LOCAL_HEADER: u32 = 0x0403_4b50;
const CENTRAL_HEADER: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const ZIP64_END: u32 = 0x0606_4b50;
const ZIP64_LOCATOR: u32 = 0x0706_4b50;

/// Where the time and the date lie in the headers, two bytes each.
const LOCAL_DOS_TIME: u64 = 10;
const CENTRAL_DOS_TIME: u64 = 12;

/// The name is UTF-8.
const FLAGS: u16 = 1 << 11;
const DEFLATED: u16 = 8;
/// "Made by" a Unix system, so that the mode counts.
const UNIX: u16 = 3 << 8;
/// A regular file that its owner may write and all may read.
const MODE: u32 = 0o100_644 << 16;
/// Stands where the records of ZIP64 have the value.
const ELSEWHERE: u32 = u32::MAX;

const ZIP64_EXTRA: u16 = 0x0001;
/// Of a time in seconds since 1970; that in the headers is local, and even.
const TIME_EXTRA: u16 = 0x5455;

/// What goes into an archive.
#[derive(Debug)]
pub(super) struct ZipEntry<'a> {
    pub(super) name: Cow<'a, str>,
    /// Nanoseconds since 1970.
    pub(super) modified_ns: i64,
    pub(super) source: &'a dyn DataFile,
    /// Bytes of the source.
    pub(super) len: u64,
}

/// Why there is no archive.
#[derive(Debug)]
pub(super) enum ZipError {
    Read(io::Error),
    Write(io::Error),
    /// The caller's wish.
    Stopped,
}

impl ZipEntry<'_> {
    /// Writes the archive to an empty file, without syncing it, and returns its length. `pace` is called again and again
    /// with the bytes written so far; what it fails with ends everything.
    pub(super) fn write(
        &self,
        target: &dyn DataFile,
        pace: &mut dyn FnMut(u64) -> Result<(), ZipError>,
    ) -> Result<u64, ZipError> {
        self.write_as(self.len >= ZIP64_FROM_BYTES, target, pace)
    }

    fn write_as(
        &self,
        zip64: bool,
        target: &dyn DataFile,
        pace: &mut dyn FnMut(u64) -> Result<(), ZipError>,
    ) -> Result<u64, ZipError> {
        let mut headers = Headers { entry: self, zip64, modified: self.modified(), crc: 0, compressed: 0 };
        let start = headers.local().len() as u64;
        let mut output = Output { file: target, position: start };
        let mut deflate = Compress::new(Compression::default(), false);
        let mut crc = crc32fast::Hasher::new();
        let mut input = vec![0; CHUNK_BYTES];
        let mut read = 0;
        loop {
            let count = usize::try_from(self.len - read).unwrap_or(usize::MAX).min(CHUNK_BYTES);
            let bytes = input.get_mut(..count).unwrap_or_default();
            read_exact_at(self.source, bytes, read).map_err(ZipError::Read)?;
            crc.update(bytes);
            read += bytes.len() as u64;
            let is_last = read == self.len;
            output.deflate(&mut deflate, bytes, is_last).map_err(ZipError::Write)?;
            if is_last {
                break;
            }
            pace(output.position)?;
        }
        headers.crc = crc.finalize();
        headers.compressed = output.position - start;
        let central = output.position;
        output.write(&headers.central()).map_err(ZipError::Write)?;
        let end = headers.end(central, output.position - central);
        output.write(&end).map_err(ZipError::Write)?;
        let len = output.position;
        output.position = 0;
        output.write(&headers.local()).map_err(ZipError::Write)?;
        Ok(len)
    }

    /// Where an archive of `archive_len` bytes has the time of its entry. Two archives of one name that differ nowhere
    /// else hold the same bytes, written at different times.
    pub(super) fn times(&self, archive_len: u64) -> [Range<u64>; 4] {
        let zip64 = self.len >= ZIP64_FROM_BYTES;
        let headers = Headers { entry: self, zip64, modified: self.modified(), crc: 0, compressed: 0 };
        let local = headers.local().len() as u64;
        let end = archive_len.saturating_sub(headers.end(0, 0).len() as u64);
        let central = end.saturating_sub(headers.central().len() as u64);
        // The time of the extra field is the last of a header.
        let extra = if headers.seconds().is_some() { 4 } else { 0 };
        let dos_time = |start: u64| start..start + 4;
        [
            dos_time(LOCAL_DOS_TIME),
            local - extra..local,
            dos_time(central + CENTRAL_DOS_TIME),
            end.saturating_sub(extra)..end,
        ]
    }

    fn modified(&self) -> Timestamp {
        Timestamp::from_nanosecond(self.modified_ns.into()).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// Where the next bytes go.
struct Output<'a> {
    file: &'a dyn DataFile,
    position: u64,
}

impl Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_all_at(self.file, &mut [IoSlice::new(bytes)], self.position)?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn deflate(&mut self, deflate: &mut Compress, mut input: &[u8], is_last: bool) -> io::Result<()> {
        let flush = if is_last { FlushCompress::Finish } else { FlushCompress::None };
        let mut compressed = Vec::with_capacity(CHUNK_BYTES);
        loop {
            compressed.clear();
            let before = deflate.total_in();
            let status = deflate.compress_vec(input, &mut compressed, flush).map_err(io::Error::other)?;
            let taken = usize::try_from(deflate.total_in() - before).unwrap_or(usize::MAX);
            input = input.get(taken..).unwrap_or_default();
            self.write(&compressed)?;
            if status == Status::StreamEnd || (!is_last && input.is_empty()) {
                return Ok(());
            }
        }
    }
}

/// The records around the compressed bytes; all numbers are little-endian.
struct Headers<'a> {
    entry: &'a ZipEntry<'a>,
    zip64: bool,
    modified: Timestamp,
    crc: u32,
    compressed: u64,
}

impl Headers<'_> {
    fn version(&self) -> u16 {
        if self.zip64 { 45 } else { 20 }
    }

    fn local(&self) -> Vec<u8> {
        let mut bytes = Bytes::of(LOCAL_HEADER);
        self.common(&mut bytes);
        bytes.tail(self.entry.name.as_bytes()).tail(&self.extra()).0
    }

    fn central(&self) -> Vec<u8> {
        let mut bytes = Bytes::of(CENTRAL_HEADER).u16(UNIX | self.version());
        self.common(&mut bytes);
        // No comment, first disk, no internal attributes; the entry begins with the file.
        let bytes = bytes.u16(0).u16(0).u16(0).u32(MODE).u32(0);
        bytes.tail(self.entry.name.as_bytes()).tail(&self.extra()).0
    }

    /// What both headers have.
    fn common(&self, bytes: &mut Bytes) {
        let (time, date) = dos_time(TimeZone::try_system().unwrap_or(TimeZone::UTC).to_datetime(self.modified));
        let size = |size: u64| if self.zip64 { ELSEWHERE } else { u32::try_from(size).unwrap_or(ELSEWHERE) };
        let length = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        let common = std::mem::take(bytes).u16(self.version()).u16(FLAGS).u16(DEFLATED).u16(time).u16(date);
        let common = common.u32(self.crc).u32(size(self.compressed)).u32(size(self.entry.len));
        *bytes = common.u16(length(self.entry.name.as_bytes())).u16(length(&self.extra()));
    }

    fn extra(&self) -> Vec<u8> {
        let mut extra = Bytes::default();
        if self.zip64 {
            extra = extra.u16(ZIP64_EXTRA).u16(16).u64(self.entry.len).u64(self.compressed);
        }
        if let Some(seconds) = self.seconds() {
            extra = extra.u16(TIME_EXTRA).u16(5).tail(&[1]).u32(seconds);
        }
        extra.0
    }

    /// Readers differ on times that 31 bits do not hold.
    fn seconds(&self) -> Option<u32> {
        u32::try_from(self.modified.as_second()).ok().filter(|&seconds| i32::try_from(seconds).is_ok())
    }

    /// What the archive ends with, behind the central header at `start`.
    fn end(&self, start: u64, len: u64) -> Vec<u8> {
        let mut bytes = Bytes::default();
        if self.zip64 {
            let version = self.version();
            bytes = bytes.u32(ZIP64_END).u64(44).u16(UNIX | version).u16(version).u32(0).u32(0);
            bytes = bytes.u64(1).u64(1).u64(len).u64(start);
            bytes = bytes.u32(ZIP64_LOCATOR).u32(0).u64(start + len).u32(1);
        }
        let start = if self.zip64 { ELSEWHERE } else { u32::try_from(start).unwrap_or(ELSEWHERE) };
        let bytes = bytes.u32(END).u16(0).u16(0).u16(1).u16(1);
        bytes.u32(u32::try_from(len).unwrap_or(ELSEWHERE)).u32(start).u16(0).0
    }
}

/// Time and date of a header: from 1980 to 2107, in steps of two seconds.
fn dos_time(local: DateTime) -> (u16, u16) {
    const FIRST_YEAR: i16 = 1980;
    const YEARS: i16 = 128;
    let bits = |value: i8, shift: u32| u16::from(value.unsigned_abs()) << shift;
    let year = u16::try_from((local.year() - FIRST_YEAR).clamp(0, YEARS - 1)).unwrap_or_default();
    let time = bits(local.hour(), 11) | bits(local.minute(), 5) | bits(local.second() / 2, 0);
    (time, year << 9 | bits(local.month(), 5) | bits(local.day(), 0))
}

#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn of(signature: u32) -> Self {
        Self::default().u32(signature)
    }

    fn tail(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u16(self, value: u16) -> Self {
        self.tail(&value.to_le_bytes())
    }

    fn u32(self, value: u32) -> Self {
        self.tail(&value.to_le_bytes())
    }

    fn u64(self, value: u64) -> Self {
        self.tail(&value.to_le_bytes())
    }
}

#[cfg(test)]
mod tests;
