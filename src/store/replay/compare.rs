//! Compares records of the log with what a segment holds at their place (08 §5).

use std::io;
use std::ops::Range;

use super::super::fs::{DataFile, read_exact_at};
use super::super::recovery::record_at;
use crate::message::{HEADER_LEN, RecordHeader};

/// What has to happen with records of the log.
#[derive(Debug, PartialEq, Eq, Default)]
pub(super) struct Verdict {
    /// The part of them that has to be written; whole records.
    pub(super) write: Range<usize>,
    /// Where another's record stands, and its header; nothing from there on is to be written.
    pub(super) foreign: Option<(usize, RecordHeader)>,
}

/// Compares whole records with what a file of `len` bytes holds from a position on, which may be its end.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn compare(records: &[u8], file: &dyn DataFile, len: u64, position: u64) -> io::Result<Verdict> {
    let rest = usize::try_from(len.saturating_sub(position)).unwrap_or(usize::MAX);
    let mut held = vec![0; records.len().min(rest)];
    read_exact_at(file, &mut held, position)?;
    if held == records {
        return Ok(Verdict::default());
    }
    let (mut at, mut write) = (0, None);
    while at < records.len() {
        let end = record_end(records, at);
        if held.get(at..end) != records.get(at..end) {
            if let Some(other) = record_at(file, len, position + at as u64)?
                && !is_torn(&other, held.get(at..).unwrap_or_default(), records.get(at..end).unwrap_or_default())
            {
                return Ok(Verdict { write: write.map_or(0..0, |start| start..at), foreign: Some((at, other)) });
            }
            write.get_or_insert(at);
        }
        at = end;
    }
    Ok(Verdict { write: write.map_or(0..0, |start| start..at), foreign: None })
}

/// Where the record that begins at a position of a frame ends.
pub(in crate::store) fn record_end(records: &[u8], at: usize) -> usize {
    let header = records.get(at..).and_then(|rest| rest.first_chunk::<HEADER_LEN>()).map(RecordHeader::decode);
    let len = header.and_then(|header| header.record_len()).and_then(|len| usize::try_from(len).ok());
    len.and_then(|len| at.checked_add(len)).map_or(records.len(), |end| end.min(records.len()))
}

/// Whether what passes for another record is ours after all: torn over zeros, it lost some bytes and changed none. No
/// checksum covers the header, so such a record may look intact.
fn is_torn(other: &RecordHeader, held: &[u8], ours: &[u8]) -> bool {
    let len = other.record_len().and_then(|len| usize::try_from(len).ok()).unwrap_or(usize::MAX);
    let (Some(held), Some(ours)) = (held.get(..len), ours.get(..len)) else { return false };
    held.iter().zip(ours).all(|(held, ours)| *held == 0 || held == ours)
}

#[cfg(test)]
mod tests {
    use super::super::super::fs::{Access, FileSystem, OsFileSystem};
    use super::super::super::tests::log_kit::record;
    use super::*;

    fn verdict(records: &[u8], file: &[u8], position: u64) -> (Range<usize>, Option<(usize, i64)>) {
        let temporary = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(temporary.path(), file).unwrap();
        let opened = OsFileSystem.open(temporary.path(), Access::Read).unwrap();
        let Verdict { write, foreign } = compare(records, &*opened, file.len() as u64, position).unwrap();
        (write, foreign.map(|(at, header)| (at, header.id.get())))
    }

    fn ours() -> Vec<u8> {
        [record(0x0101, b"hello"), record(0x0202, b""), record(0x0303, b"world!")].concat()
    }

    #[test]
    fn what_is_there_is_left_alone_and_what_is_missing_is_written_from_its_record_on() {
        let before = record(9, b"before");
        let position = before.len() as u64;
        for cut in 0..=71 {
            let start = [0, 25, 45, 71].into_iter().rfind(|&start| start <= cut).unwrap();
            for zeros in [0, 1, 20, 200] {
                let file = [&before[..], &ours()[..cut], &vec![0; zeros]].concat();
                let (write, foreign) = verdict(&ours(), &file, position);
                assert_eq!(foreign, None);
                // Zeros may stand where a record has some itself.
                assert!(
                    cut == 71 || write.start == start || zeros > 0 && write.start > start,
                    "cut {cut}, {zeros} zeros"
                );
                let mut replayed = [&file[..], &vec![0; 97_usize.saturating_sub(file.len())]].concat();
                let (from, to) = (before.len() + write.start, before.len() + write.end);
                replayed[from..to].copy_from_slice(&ours()[write]);
                assert_eq!(replayed[..97], [&before[..], &ours()].concat(), "cut {cut}, {zeros} zeros");
            }
        }
        for more in [&b""[..], &record(8, b"more"), b"junk"] {
            assert_eq!(verdict(&ours(), &[&ours()[..], more].concat(), 0), (0..0, None));
        }
    }

    #[test]
    fn another_record_is_found_wherever_it_begins_and_however_long_it_is() {
        for (at, before) in [(0, 0), (25, 25), (45, 45)] {
            for other in [record(77, b""), record(77, b"HELLO"), record(77, &[7; 5000]), record(1 << 60, b"hello")] {
                let file = [&ours()[..before], &other[..]].concat();
                let (write, foreign) = verdict(&ours(), &file, 0);
                let id = RecordHeader::decode(other[..20].try_into().unwrap()).id.get();
                assert_eq!((write.is_empty(), foreign), (true, Some((at, id))));
            }
        }
        // What is torn before it is written all the same.
        let mut file = [&ours()[..25], &[0; 20], &record(77, b"HELLO")[..]].concat();
        assert_eq!(verdict(&ours(), &file, 0), (25..45, Some((45, 77))));
        file[46] ^= 0x40;
        assert_eq!(verdict(&ours(), &file, 0), (25..71, None), "no intact record");
    }

    #[test]
    fn a_record_of_ours_that_lost_bytes_is_not_taken_for_anothers() {
        let ours = record(0x0102_0304_0506_0708, b"");
        for lost in 0..1_u32 << 8 {
            let mut file = ours.clone();
            (0..8).filter(|byte| lost & (1 << byte) != 0).for_each(|byte| file[8 + byte] = 0);
            let write = if lost == 0 { 0..0 } else { 0..20 };
            assert_eq!(verdict(&ours, &file, 0), (write, None), "lost {lost:b}");
        }
        let torn = [record(0x0101, b"hello"), vec![0; 46]].concat();
        let mut torn = torn[..71].to_vec();
        torn[3] = 0;
        torn[4..8].fill(0);
        assert_eq!(verdict(&self::ours(), &torn, 0), (0..71, None), "the length was lost, an empty record remains");
        let changed = record(0x0102_0304_0506_0709, b"");
        assert_eq!(verdict(&ours, &changed, 0), (0..0, Some((0, 0x0102_0304_0506_0709))));
    }
}
