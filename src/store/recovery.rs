//! Scan of the last segment for the end of its intact records (02 §11).

use std::io;

use crate::id::MessageId;
use crate::message::{HEADER_LEN, RecordHeader};

use super::fs::{DataFile, read_exact_at};
use super::ids::is_followed;

/// Bytes read at once.
const WINDOW: usize = 256 * 1024;

/// What a scan found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Scan {
    /// End of the last intact record: the file is good up to here.
    pub(super) end: u64,
    /// Intact records.
    pub(super) records: u64,
    /// The largest id among them that new ids must lie behind.
    pub(super) largest_id: Option<MessageId>,
}

/// Reads records from a position of a file, where one begins, until one is incomplete, damaged, or no record but zeros.
/// What lies before is taken to be intact.
///
/// What the format cannot tell (02 §4): no checksum covers the header, so a message of which only the sector with its id
/// got to the disk passes for an *empty* one. Hence empty messages at the very end do not count behind the position up
/// to which the commit log vouches for the file, if it does: whatever was answered as durable lies before that, or is
/// large. Without a log, as a broker on the JVM leaves it, every message counts.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn scan(file: &dyn DataFile, len: u64, start: u64, vouched: Option<u64>) -> io::Result<Scan> {
    let mut reader = Reader::new(file, len);
    let mut scan = Scan { end: start.min(len), ..Scan::default() };
    let mut trusted = scan;
    while let Some((header, end)) = reader.record(scan.end)? {
        scan.end = end;
        scan.records += 1;
        scan.largest_id = scan.largest_id.max(Some(header.id).filter(|&id| is_followed(id)));
        if header.length != 0 || vouched.is_none_or(|vouched| end <= vouched) {
            trusted = scan;
        }
    }
    Ok(trusted)
}

/// The header of the intact record that begins at a position of a file, `None` if none does.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn record_at(file: &dyn DataFile, len: u64, position: u64) -> io::Result<Option<RecordHeader>> {
    let found = Reader::new(file, len).record(position)?;
    Ok(found.map(|(header, _)| header))
}

/// Reads a file through a window that moves forward.
struct Reader<'a> {
    file: &'a dyn DataFile,
    len: u64,
    window: Vec<u8>,
    start: u64,
}

impl<'a> Reader<'a> {
    fn new(file: &'a dyn DataFile, len: u64) -> Self {
        Self { file, len, window: Vec::new(), start: 0 }
    }

    /// The intact record that begins at a position, and where it ends.
    fn record(&mut self, position: u64) -> io::Result<Option<(RecordHeader, u64)>> {
        let Some(header) = self.header(position)? else { return Ok(None) };
        let Some(record_len) = header.record_len().filter(|record_len| *record_len <= self.len - position) else {
            return Ok(None);
        };
        let end = position + record_len;
        let intact = !header.is_zero_fill() && self.checksum(position + HEADER_LEN as u64, end)? == header.checksum;
        Ok(intact.then_some((header, end)))
    }

    /// Bytes from a position on: at least `want` unless the file ends before, at most what the window holds.
    fn bytes(&mut self, position: u64, want: usize) -> io::Result<&[u8]> {
        let at = |start: u64| usize::try_from(position.wrapping_sub(start)).unwrap_or(usize::MAX);
        if self.window.get(at(self.start)..).is_none_or(|bytes| bytes.len() < want) {
            let len = usize::try_from(self.len - position).unwrap_or(usize::MAX).min(WINDOW);
            self.window.resize(len, 0);
            self.start = position;
            read_exact_at(self.file, &mut self.window, position)?;
        }
        Ok(self.window.get(at(self.start)..).unwrap_or_default())
    }

    fn header(&mut self, position: u64) -> io::Result<Option<RecordHeader>> {
        if self.len.saturating_sub(position) < HEADER_LEN as u64 {
            return Ok(None);
        }
        Ok(self.bytes(position, HEADER_LEN)?.first_chunk().map(RecordHeader::decode))
    }

    /// Checksum of the bytes from `position` to `end`, which lie within the file.
    fn checksum(&mut self, mut position: u64, end: u64) -> io::Result<i32> {
        let mut crc = crc32fast::Hasher::new();
        while position < end {
            let rest = usize::try_from(end - position).unwrap_or(usize::MAX);
            let bytes = self.bytes(position, 1)?;
            let bytes = &bytes[..bytes.len().min(rest)];
            crc.update(bytes);
            position += bytes.len() as u64;
        }
        Ok((crc.finalize() & 0x7fff_ffff).cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::super::fs::{Access, FileSystem, OsFileSystem};
    use super::*;
    use crate::message::checksum;

    fn record(id: i64, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let length = i32::try_from(body.len()).unwrap();
        RecordHeader { length, checksum: checksum(body), id: MessageId::new(id << 40), flag: 0 }.encode(&mut out);
        out.extend_from_slice(body);
        out
    }

    /// End, records, and the largest id in units of 2^40.
    fn scan_bytes(bytes: &[u8]) -> (u64, u64, Option<i64>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let scan = scan(&*OsFileSystem.open(file.path(), Access::Read).unwrap(), bytes.len() as u64, 0, None).unwrap();
        (scan.end, scan.records, scan.largest_id.map(|id| id.get() >> 40))
    }

    #[test]
    fn a_torn_tail_is_left_out_wherever_it_was_torn() {
        let data = [record(-1, b"hello"), record(-7, b""), record(-3, b"world!")].concat();
        for cut in 0..=data.len() {
            let records = [25, 45, 71].iter().filter(|&&end| end <= cut).count();
            let (end, count, _) = scan_bytes(&data[..cut]);
            assert_eq!((end, count), ([0, 25, 45, 71][records], records as u64), "cut at {cut}");
        }
        assert_eq!(scan_bytes(&data), (71, 3, None), "negative ids need not be passed");
        assert_eq!(scan_bytes(b""), (0, 0, None));
    }

    #[test]
    fn a_scan_may_begin_at_any_record_and_a_single_one_can_be_asked_for() {
        let data = [record(1, b"hello"), record(2, b""), record(3, b"world!")].concat();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &data).unwrap();
        let file = OsFileSystem.open(file.path(), Access::Read).unwrap();
        for (start, records) in [(0, 3), (25, 2), (45, 1), (71, 0), (72, 0)] {
            let scan = scan(&*file, 71, start, None).unwrap();
            assert_eq!((scan.end, scan.records), (71, records), "from {start}");
        }
        let id = |position| record_at(&*file, 71, position).unwrap().map(|header| header.id.get() >> 40);
        assert_eq!([0, 25, 45, 46, 60, 71, 100].map(id), [Some(1), Some(2), Some(3), None, None, None, None]);
        assert_eq!(record_at(&*file, 70, 45).unwrap(), None, "cut off");
    }

    #[test]
    fn empty_messages_at_the_end_count_only_as_far_as_the_log_vouches() {
        let data = [record(1, b"hello"), record(2, b""), record(3, b"x"), record(4, b""), record(5, b"")].concat();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &data).unwrap();
        let file = OsFileSystem.open(file.path(), Access::Read).unwrap();
        for (vouched, end, records) in
            [(None, 106, 5), (Some(106), 106, 5), (Some(105), 86, 4), (Some(66), 66, 3), (Some(0), 66, 3)]
        {
            let scan = scan(&*file, 106, 0, vouched).unwrap();
            assert_eq!((scan.end, scan.records), (end, records), "{vouched:?}");
        }
    }

    #[test]
    fn zeros_are_no_messages() {
        for zeros in [1, 19, 20, 55, 4096] {
            let data = [record(7, b"hello"), vec![0; zeros]].concat();
            assert_eq!(scan_bytes(&data), (25, 1, Some(7)), "{zeros} zeros");
        }
        assert_eq!(scan_bytes(&[0; 100]), (0, 0, None));
    }

    #[test]
    fn a_damaged_record_ends_the_scan() {
        let mut data = [record(1, b"hello"), record(2, b"world"), record(3, b"!")].concat();
        data[25 + 20] ^= 1;
        assert_eq!(scan_bytes(&data), (25, 1, Some(1)));
        for length in [-1, i32::MIN, i32::MAX] {
            let absurd = [record(1, b"hello"), length.to_be_bytes().to_vec(), vec![1; 100]].concat();
            assert_eq!(scan_bytes(&absurd), (25, 1, Some(1)), "length {length}");
        }
    }

    #[test]
    fn records_larger_than_the_window_and_across_its_end_are_read() {
        let sizes = [WINDOW - 30, 3, 17, WINDOW * 2 + 1, 0, WINDOW, 5];
        let records: Vec<_> = sizes.iter().zip(1..).map(|(&size, id)| record(id, &vec![b'x'; size])).collect();
        let data = records.concat();
        assert_eq!(scan_bytes(&data), (data.len() as u64, 7, Some(7)));
    }
}
