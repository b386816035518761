//! The walk over the frames of a log, in their order and through all its files, to its end; and whether that end is a
//! torn tail or damage (08 §2).

use std::path::{Path, PathBuf};

use bytes::Buf;
use memchr::memmem::Finder;

use super::error::CommitLogError;
use super::files::{LogFile, LogFiles};
use super::format::{DecodedFrame, FRAME_HEAD_LEN, Frame, HEADER_LEN, MAX_BODY_LEN, Seed, decode_frame};
use super::window::Window;
use crate::store::fs::DataFile;

/// Where the log ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct LogEnd {
    /// The first sequence without a frame.
    pub(in crate::store) sequence: u64,
    /// Where its frame would begin.
    pub(in crate::store) path: PathBuf,
    pub(in crate::store) position: u64,
    /// What proves that the frame was there and durable: then the log is damaged.
    pub(in crate::store) witness: Option<Witness>,
}

/// A place in a log file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Witness {
    pub(in crate::store) path: PathBuf,
    pub(in crate::store) position: u64,
}

impl LogEnd {
    /// Refuses an end that is damage.
    pub(in crate::store) fn check(&self) -> Result<(), CommitLogError> {
        let Some(witness) = &self.witness else { return Ok(()) };
        Err(CommitLogError::Damaged {
            sequence: self.sequence,
            path: self.path.clone(),
            position: self.position,
            witness: witness.path.clone(),
            witness_position: witness.position,
        })
    }
}

/// A frame that was met on a walk.
#[derive(Debug)]
pub(in crate::store) struct Met<'a> {
    /// Number of its file in [`LogFiles::used`].
    pub(in crate::store) file: usize,
    /// Where it begins.
    pub(in crate::store) position: u64,
    pub(in crate::store) frame: Frame<'a>,
}

/// Shows every frame of checked files in order of sequence and returns where the log ends, `None` without any file.
///
/// # Errors
/// When a file cannot be read, or what `visit` returns.
pub(in crate::store) fn walk<E: From<CommitLogError>>(
    files: &LogFiles,
    visit: &mut dyn FnMut(Met<'_>) -> Result<(), E>,
) -> Result<Option<LogEnd>, E> {
    let Some(first) = files.used.first() else { return Ok(None) };
    let mut expected = first.header.first_sequence;
    let mut last = (0, first, HEADER_LEN as u64);
    for (number, file) in files.used.iter().enumerate() {
        if file.header.first_sequence != expected {
            break;
        }
        let position = walk_file(number, file, &mut expected, visit)?;
        last = (number, file, position);
    }
    let (number, file, position) = last;
    let witness = find_witness(files, number, position, expected)?;
    Ok(Some(LogEnd { sequence: expected, path: file.path.clone(), position, witness }))
}

/// Shows the frames of one file and returns where the first one is missing.
fn walk_file<E: From<CommitLogError>>(
    number: usize,
    file: &LogFile,
    expected: &mut u64,
    visit: &mut dyn FnMut(Met<'_>) -> Result<(), E>,
) -> Result<u64, E> {
    let (seed, mut position) = (file.header.seed(), HEADER_LEN as u64);
    let mut window = Window::new(&*file.file, file.len);
    while let Some(frame) = frame_at(&mut window, position, seed).map_err(|error| unreadable(&file.path, error))? {
        if frame.sequence != *expected {
            break;
        }
        let end = position + frame.len as u64;
        visit(Met { file: number, position, frame })?;
        *expected += 1;
        position = end;
    }
    Ok(position)
}

/// The frame that begins at a position, `None` if none does.
fn frame_at<'a>(window: &'a mut Window<'_>, position: u64, seed: Seed) -> std::io::Result<Option<Frame<'a>>> {
    let mut want = FRAME_HEAD_LEN;
    if let DecodedFrame::Needs(whole) = decode_frame(window.at(position, want)?, seed) {
        want = whole;
    }
    match decode_frame(window.at(position, want)?, seed) {
        DecodedFrame::Valid(frame) => Ok(Some(frame)),
        DecodedFrame::Needs(_) | DecodedFrame::Invalid => Ok(None),
    }
}

/// Looks for proof that the frame `missing` was durable once. A file is synced before its successor's header is
/// written, so any file behind the end is one, and so is any frame that names a sequence known to be durable by then.
fn find_witness(
    files: &LogFiles,
    number: usize,
    position: u64,
    missing: u64,
) -> Result<Option<Witness>, CommitLogError> {
    let Some(file) = files.used.get(number) else { return Ok(None) };
    let found = frame_behind(&*file.file, file.len, position, file.header.seed(), missing);
    if let Some(position) = found.map_err(|error| unreadable(&file.path, error))? {
        return Ok(Some(Witness { path: file.path.clone(), position }));
    }
    if let Some(later) = files.used.get(number + 1) {
        return Ok(Some(Witness { path: later.path.clone(), position: 0 }));
    }
    // A header is synced before frames follow it: next file's frames behind an invalid header mean that it was damaged.
    let seed = Seed::new(file.header.log_id, file.header.file_number.wrapping_add(1));
    for blank in &files.blank {
        let mut window = Window::new(&*blank.file, blank.len);
        let frame = frame_at(&mut window, HEADER_LEN as u64, seed).map_err(|error| unreadable(&blank.path, error))?;
        if frame.is_some() {
            return Ok(Some(Witness { path: blank.path.clone(), position: HEADER_LEN as u64 }));
        }
    }
    Ok(None)
}

/// Searches the rest of a file, at every byte, for a frame that names `missing` or a later sequence as durable.
fn frame_behind(
    file: &dyn DataFile,
    len: u64,
    mut position: u64,
    seed: Seed,
    missing: u64,
) -> std::io::Result<Option<u64>> {
    let last = missing.saturating_add(len.saturating_sub(position) / FRAME_HEAD_LEN as u64);
    let mut window = Window::new(file, len);
    loop {
        let bytes = window.at(position, FRAME_HEAD_LEN)?;
        let Some(found) = next_candidate(bytes, missing, last) else {
            let seen = (bytes.len() + 1).saturating_sub(FRAME_HEAD_LEN) as u64;
            if seen == 0 {
                return Ok(None);
            }
            position += seen;
            continue;
        };
        position += found as u64;
        if frame_at(&mut window, position, seed)?.is_some() {
            return Ok(Some(position));
        }
        position += 1;
    }
}

/// The first place at which [`may_witness`] holds. Looks for the upper halves of the sequences in question, which is
/// much quicker than looking at each place.
fn next_candidate(bytes: &[u8], missing: u64, last: u64) -> Option<usize> {
    let with_upper_half_of = |sequence: u64| {
        let sequence = sequence.to_be_bytes();
        let finder = Finder::new(sequence.get(..UPPER_HALF_LEN)?);
        let mut from = 0;
        loop {
            let at = from + finder.find(bytes.get(from + SEQUENCE_AT..)?)?;
            if may_witness(bytes.get(at..at + FRAME_HEAD_LEN)?, missing, last) {
                return Some(at);
            }
            from = at + 1;
        }
    };
    // A file holds far fewer frames than there are lower halves.
    let first = with_upper_half_of(missing);
    if missing >> u32::BITS == last >> u32::BITS {
        first
    } else {
        first.into_iter().chain(with_upper_half_of(last)).min()
    }
}

/// Where the sequence stands in a frame's head.
const SEQUENCE_AT: usize = 8;

/// Bytes of the upper half of a sequence.
const UPPER_HALF_LEN: usize = 4;

/// Whether these may be the first bytes of a frame, of sequence `last` at most, that names `missing` or a later sequence
/// as durable. Payloads lie here too: each place that passes costs a checksum over up to [`MAX_BODY_LEN`] bytes.
fn may_witness(mut head: &[u8], missing: u64, last: u64) -> bool {
    let (_crc, body_len) = (head.get_u32(), head.get_u32());
    let (sequence, synced) = (head.get_u64(), head.get_u64());
    // 0 stands for none.
    let proves = synced >= missing.max(1) && synced < sequence;
    proves && sequence > missing && sequence <= last && body_len as usize <= MAX_BODY_LEN
}

fn unreadable(path: &Path, source: std::io::Error) -> CommitLogError {
    CommitLogError::Io { action: "read the commit log file", path: path.to_path_buf(), source }
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;

    use super::*;

    #[test]
    fn candidates_are_found_wherever_they_begin() {
        let seed = fastrand::u64(..);
        fastrand::seed(seed);
        for missing in [1_u64, 5, (1 << 32) - 3, (0x0101_0101 << 32) - 2, (1 << 62) + 12345] {
            let mut bytes = Vec::new();
            for _ in 0..20_000 {
                let number = fastrand::u64(missing.saturating_sub(4)..missing + 8);
                match fastrand::u8(..4) {
                    0 => bytes.put_bytes(fastrand::u8(..2), fastrand::usize(..12)),
                    1 => bytes.put_u32(fastrand::u32(..1 << 21)),
                    _ => bytes.put_u64(number),
                }
            }
            let heads = || bytes.windows(FRAME_HEAD_LEN).enumerate();
            let last = missing + 4;
            let expected: Vec<_> =
                heads().filter(|(_, head)| may_witness(head, missing, last)).map(|(at, _)| at).collect();
            let (mut found, mut from) = (Vec::new(), 0);
            while let Some(at) = next_candidate(&bytes[from..], missing, last) {
                found.push(from + at);
                from += at + 1;
            }
            assert_eq!(found, expected, "missing: {missing}, seed: {seed}");
            assert!(found.len() > 10, "too few to tell: {}, seed: {seed}", found.len());
        }
    }
}
