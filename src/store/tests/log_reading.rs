use std::fs;
use std::path::Path;

use super::super::OsFileSystem;
use super::super::commit_log::error::CommitLogError;
use super::super::commit_log::files::{LogFiles, remove_files};
use super::super::commit_log::format::{FRAME_HEAD_LEN, HEADER_LEN};
use super::super::commit_log::walk::{LogEnd, walk};
use super::log_kit::*;

/// Sequences of all frames, and where the log ends.
fn read(dir: &Path) -> Result<(Vec<u64>, Option<LogEnd>), CommitLogError> {
    let files = LogFiles::open(&OsFileSystem, dir)?;
    files.check()?;
    let mut seen = Vec::new();
    let end = walk::<CommitLogError>(&files, &mut |met| {
        seen.push(met.frame.sequence);
        Ok(())
    })?;
    Ok((seen, end))
}

/// Frames `first` to `last`, of one record each.
fn file(number: u64, first: u64, last: u64) -> LogFileKit {
    let mut file = LogFileKit::new(number, first);
    for sequence in first..=last {
        file.records("t", 0, 0, sequence * 25, &record(7, b"hello"));
    }
    file
}

#[test]
fn frames_are_read_through_all_files_whatever_their_names_and_first_numbers() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(read(dir.path()).unwrap(), (vec![], None));
    // Number 7 is the recycled file of number 5: its name is the lower one.
    let (first, second) = (file(6, 101, 110).padded(8192), file(7, 111, 113).padded(8192));
    first.write(dir.path());
    fs::write(dir.path().join("commitlog.5"), &second.bytes).unwrap();
    fs::write(dir.path().join("commitlog.8"), vec![0; 8192]).unwrap();
    fs::write(dir.path().join("commitlog.9"), b"").unwrap();
    let (seen, end) = read(dir.path()).unwrap();
    assert_eq!(seen, (101..=113).collect::<Vec<_>>());
    let end = end.unwrap();
    assert_eq!((end.sequence, end.witness), (114, None));
    assert!(end.path.ends_with("commitlog.5"));
    assert_eq!(LogFiles::open(&OsFileSystem, dir.path()).unwrap().next_number(), 10);
    assert_eq!(remove_files(&OsFileSystem, dir.path()).unwrap(), 4);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_log_torn_at_any_byte_ends_with_the_frame_before() {
    let mut whole = LogFileKit::new(1, 1);
    whole.synced = Some(0);
    for i in 0..4 {
        whole.records("t", 0, 0, i * 25, &record(7, b"hello"));
    }
    let ends: Vec<_> = whole.starts.iter().skip(1).copied().chain([whole.bytes.len()]).collect();
    for cut in HEADER_LEN..=whole.bytes.len() {
        for zeros in [0, 300] {
            let dir = tempfile::tempdir().unwrap();
            let torn = [&whole.bytes[..cut], &vec![0; zeros]].concat();
            fs::write(dir.path().join("commitlog.1"), &torn).unwrap();
            let frames = ends.iter().filter(|&&end| end <= cut).count();
            let (seen, end) = read(dir.path()).unwrap();
            // A frame that ends in zeros is whole without them.
            assert!(seen.len() == frames || zeros > 0 && torn.starts_with(&whole.bytes), "cut at {cut}");
            assert_eq!(end.unwrap().witness, None);
        }
    }
}

#[test]
fn a_hole_among_frames_that_were_never_synced_ends_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = LogFileKit::new(1, 1);
    log.synced = Some(2);
    for i in 0..6 {
        log.records("t", 0, 0, i * 25, &record(7, b"hello"));
    }
    let third = log.starts[2];
    log.bytes[third + 30] ^= 1;
    log.write(dir.path());
    let (seen, end) = read(dir.path()).unwrap();
    assert_eq!((seen, end.unwrap().sequence), (vec![1, 2], 3));
}

#[test]
fn a_hole_that_was_durable_is_refused_with_both_places() {
    for damaged in 0..10 {
        for byte in [0, 5, 9, 17, 24, 40] {
            let dir = tempfile::tempdir().unwrap();
            let mut log = file(3, 50, 60);
            let start = log.starts[damaged];
            log.bytes[start + byte] ^= 0xff;
            log.padded(16384).write(dir.path());
            let (seen, end) = read(dir.path()).unwrap();
            assert_eq!(seen.len(), damaged);
            let error = end.unwrap().check().unwrap_err().to_string();
            let expected = format!("frame {} is missing at byte {start} of", 50 + damaged);
            assert!(error.contains(&expected) && error.contains("commitlog.3 shows at byte"), "{error}");
        }
    }
}

#[test]
fn whatever_is_damaged_only_true_frames_are_read() {
    let seed = std::env::var("METAQ_TEST_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("METAQ_TEST_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..300 {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let split = rng.u64(1..20);
        let mut files = [file(1, 1, split), file(2, split + 1, 20)];
        for _ in 0..rng.u8(1..4) {
            let bytes = &mut rng.choice(&mut files).unwrap().bytes;
            let (start, len) = (rng.usize(..bytes.len()), rng.usize(1..600));
            match rng.u8(0..4) {
                0 => bytes.truncate(start),
                1 => bytes.iter_mut().skip(start).take(len).for_each(|byte| *byte = 0),
                2 => bytes.iter_mut().skip(start).take(len).for_each(|byte| *byte = rng.u8(..)),
                _ => bytes[start] ^= 1 << rng.u8(0..8),
            }
            if bytes.is_empty() {
                bytes.push(0);
            }
        }
        files.iter().for_each(|file| drop(file.write(dir.path())));
        let Ok((seen, end)) = read(dir.path()) else { continue };
        // Without a first file the second one is the log.
        let first = seen.first().copied().unwrap_or(1);
        assert!(first == 1 || first == split + 1);
        assert_eq!(seen, (first..first + seen.len() as u64).collect::<Vec<_>>());
        if let (Some(last), Some(end)) = (seen.last(), end) {
            assert_eq!(end.sequence, last + 1);
        }
    }
}

#[test]
fn a_missing_or_damaged_file_in_the_middle_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    file(1, 1, 10).write(dir.path());
    let middle = file(2, 11, 20);
    file(3, 21, 30).write(dir.path());
    for damage in ["missing", "blank", "last frames lost"] {
        let path = dir.path().join("commitlog.2");
        match damage {
            "missing" => {}
            "blank" => fs::write(&path, vec![0; 9000]).unwrap(),
            _ => fs::write(&path, &middle.bytes[..middle.starts[8]]).unwrap(),
        }
        let (_, end) = read(dir.path()).unwrap();
        let error = end.unwrap().check().unwrap_err();
        let CommitLogError::Damaged { witness, .. } = &error else { panic!("{error}") };
        assert!(witness.ends_with("commitlog.3"), "{damage}: {error}");
    }
    middle.write(dir.path());
    assert_eq!(read(dir.path()).unwrap().1.unwrap().witness, None);
}

#[test]
fn a_damaged_header_is_told_from_one_that_was_never_used() {
    let dir = tempfile::tempdir().unwrap();
    file(1, 1, 10).write(dir.path());
    // A spare file in which the frames of an earlier use still stand: its new header was torn.
    let mut torn = file(0, 1, 3);
    torn.bytes[100] ^= 1;
    fs::write(dir.path().join("commitlog.0"), &torn.bytes).unwrap();
    assert_eq!(read(dir.path()).unwrap().1.unwrap().witness, None);
    let mut damaged = file(2, 11, 12);
    damaged.bytes[100] ^= 1;
    damaged.write(dir.path());
    let witness = read(dir.path()).unwrap().1.unwrap().witness.unwrap();
    assert!(witness.path.ends_with("commitlog.2"));
}

#[test]
fn frames_of_an_earlier_use_of_a_file_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let old = file(1, 1, 20);
    let mut new = LogFileKit::new(4, 61);
    new.records("t", 0, 0, 61 * 25, &record(7, b"hello"));
    let frame_len = old.starts[1] - old.starts[0];
    assert_eq!(new.bytes.len(), HEADER_LEN + frame_len);
    let recycled = [&new.bytes[..], &old.bytes[HEADER_LEN + frame_len..]].concat();
    fs::write(dir.path().join("commitlog.1"), recycled).unwrap();
    let (seen, end) = read(dir.path()).unwrap();
    assert_eq!((seen, end.unwrap().witness), (vec![61], None));
}

#[test]
fn what_this_release_does_not_know_and_what_does_not_belong_together_is_refused() {
    let refused = |files: &[(&str, &[u8])]| {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        read(dir.path()).unwrap_err()
    };
    let mut version = file(1, 1, 2).bytes;
    version[7] = 2;
    let crc = crc32fast::hash(&version[..HEADER_LEN - 4]);
    version[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&crc.to_be_bytes());
    assert!(matches!(refused(&[("commitlog.1", &version)]), CommitLogError::UnknownVersion { version: 2, .. }));
    let other = LogFileKit::with(LOG_ID + 1, 2, 3, Vec::new()).bytes;
    let two = refused(&[("commitlog.1", &file(1, 1, 2).bytes), ("commitlog.2", &other)]);
    assert!(matches!(two, CommitLogError::TwoLogs { .. }));
    let copy = file(1, 1, 2).bytes;
    let same = refused(&[("commitlog.1", &copy), ("commitlog.2", &copy)]);
    assert!(matches!(same, CommitLogError::SameNumber { number: 1, .. }));
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("commitlog.1")).unwrap();
    assert!(matches!(read(dir.path()).unwrap_err(), CommitLogError::NotAFile(_)));
}

#[test]
fn frames_longer_than_a_window_in_a_row_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = LogFileKit::new(1, 1);
    let mut offset = 0;
    for size in [1 << 19, 900_000, 3, 1_000_000, 0, 1_040_000, 700_000, 5] {
        let bytes = record(7, &vec![b'x'; size]);
        log.records("t", 0, 0, offset, &bytes);
        offset += bytes.len() as u64;
    }
    let last = log.starts[7];
    log.write(dir.path());
    assert_eq!(read(dir.path()).unwrap().0.len(), 8);
    // The damaged frame lies more than a window before the one that proves it.
    log.bytes[HEADER_LEN + FRAME_HEAD_LEN + 100] ^= 1;
    log.write(dir.path());
    let end = read(dir.path()).unwrap().1.unwrap();
    assert!(end.witness.is_some_and(|witness| witness.position < last as u64));
}
