//! Random power cuts: what was synced in the log is there afterwards, whatever the segments looked like.

use std::fs;

use fastrand::Rng;

use super::kit::*;
use super::log_kit::*;
use crate::id::PartitionIndex;
use crate::message::HEADER_LEN;

const P0: PartitionIndex = PartitionIndex::new(0);
const SECTOR: usize = 512;

/// A partition as it should have become.
struct Model {
    stream: Vec<u8>,
    /// Where each record begins, and the end.
    starts: Vec<usize>,
    /// Where each segment begins.
    segments: Vec<usize>,
}

fn model(rng: &mut Rng) -> Model {
    let (mut stream, mut starts, mut segments) = (Vec::new(), vec![0], vec![0]);
    let segment_size = rng.usize(1000..6000);
    for i in 0..rng.i64(2..40) {
        let len = match rng.u8(0..4) {
            0 => 0,
            1 => rng.usize(0..20),
            2 => rng.usize(0..2000),
            _ => rng.usize(0..300),
        };
        // Bodies with many zeros, and ids as they are given out.
        let body: Vec<u8> = (0..len).map(|_| if rng.bool() { 0 } else { rng.u8(..) }).collect();
        stream.extend(record((1_700_000_000_000 << 22) | i, &body));
        starts.push(stream.len());
        if stream.len() - segments.last().unwrap() >= segment_size {
            segments.push(stream.len());
        }
    }
    Model { stream, starts, segments }
}

impl Model {
    fn segment_of(&self, offset: usize) -> (usize, usize) {
        let next = self.segments.partition_point(|&start| start <= offset);
        (self.segments[next - 1], self.segments.get(next).copied().unwrap_or(usize::MAX))
    }

    /// Whether what was found behind what is durable, at the end of the log, may be what a power cut left of it: whole
    /// records, and headers that lost bytes. No checksum covers those, so they may pass for empty messages.
    fn allows(&self, found: &[u8], first_offset: usize, durable: usize) -> bool {
        let mut at = durable;
        while at < found.len() {
            let next = self.starts.partition_point(|&start| start <= first_offset + at);
            let ours = &self.stream[first_offset + at..self.starts[next]];
            if found[at..].starts_with(ours) {
                at += ours.len();
                continue;
            }
            let lost = found[at..].iter().zip(ours).all(|(found, ours)| *found == 0 || found == ours);
            at += HEADER_LEN;
            // Behind what was no empty message no other can be found.
            if !lost || ours.len() > HEADER_LEN && found.len() > at {
                return false;
            }
        }
        true
    }

    /// A log with the records from one number to another, several in a frame.
    fn log(&self, rng: &mut Rng, mut record: usize, end: usize) -> Vec<LogFileKit> {
        let mut files = vec![LogFileKit::new(rng.u64(1..9), rng.u64(1..1000))];
        while record < end {
            let offset = self.starts[record];
            let (segment, next) = self.segment_of(offset);
            let most = (record + rng.usize(1..5)).min(end);
            let last = (record + 1..=most).rfind(|&last| self.starts[last] <= next).unwrap();
            let file = files.last_mut().unwrap();
            file.records("t", 0, segment as u64, offset as u64, &self.stream[offset..self.starts[last]]);
            record = last;
            if rng.u8(0..5) == 0 {
                let (number, sequence) = (file.number + 1, file.next);
                files.push(LogFileKit::new(number, sequence));
            }
        }
        files
    }
}

/// What a power cut leaves of a file that was not synced behind `durable`: it ends anywhere, and sectors are missing.
fn torn(rng: &mut Rng, content: &[u8], durable: usize) -> Vec<u8> {
    let len = rng.usize(durable..=content.len());
    let mut torn = content[..len].to_vec();
    let lost = rng.u8(0..4);
    for sector in 0..len.div_ceil(SECTOR) {
        let range = (sector * SECTOR).max(durable)..((sector + 1) * SECTOR).min(len);
        if rng.u8(0..4) < lost && range.start < range.end {
            torn[range].fill(0);
        }
    }
    torn
}

#[test]
fn what_the_log_held_is_there_after_any_power_cut() {
    let seed = std::env::var("METAQ_TEST_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("METAQ_TEST_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    for round in 0..400 {
        let model = model(&mut rng);
        let records = model.starts.len() - 1;
        // In the log are the records `first..end`; those before `durable` are known to be in their segments.
        let end = rng.usize(1..=records);
        let durable = rng.usize(0..=end);
        let first = rng.usize(0..=durable);
        let (end_offset, durable_offset) = (model.starts[end], model.starts[durable]);
        // What was written to the segments at all.
        let written = model.starts[rng.usize(durable..=records)];
        let removed = rng.usize(0..=model.segments.partition_point(|&start| start < durable_offset).saturating_sub(1));

        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let (partition, transactions) = (dir.path().join("data/t-0"), dir.path().join("data/transactions"));
        fs::create_dir_all(&transactions).unwrap();
        for (i, &start) in model.segments.iter().enumerate().skip(removed) {
            let next = model.segments.get(i + 1).copied().unwrap_or(usize::MAX);
            // A segment has an entry at the latest when something in it is durable or a successor has one. None has one
            // before everything in its predecessor is durable, there or in the log: a roll waits for that.
            if start >= written || start > end_offset || start >= durable_offset && rng.u8(0..4) == 0 {
                break;
            }
            fs::create_dir_all(&partition).unwrap();
            let content = &model.stream[start..written.min(next)];
            let durable_here = durable_offset.clamp(start, start + content.len()) - start;
            let content = torn(&mut rng, content, durable_here);
            fs::write(partition.join(format!("{start:020}.meta")), content).unwrap();
        }
        let files = model.log(&mut rng, first, end);
        for (i, file) in files.iter().enumerate() {
            let mut file = file.clone();
            if i + 1 == files.len() {
                // A frame whose sync never finished.
                let start = file.bytes.len();
                file.records("t", 0, 0, end_offset as u64, &record(1, &[1; 600]));
                file.bytes.truncate(rng.usize(start..file.bytes.len()));
                file = file.padded(20_000_usize.max(start + 1000));
            }
            file.write(&transactions);
        }

        let store = open(&options(dir.path())).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let context = format!("round {round}: {first}..{end}, durable {durable}, written {written}, removed {removed}");
        assert!(store.health().is_healthy(), "{context}: {:?}", store.health().poisoned);
        let Some(partition) = store.get("t", P0) else {
            assert_eq!(first, end, "{context}: nothing to recover");
            continue;
        };
        let first_offset = model.segments[removed];
        let found: Vec<u8> =
            partition.segments().iter().flat_map(|segment| fs::read(segment.path()).unwrap()).collect();
        assert_eq!(partition.min_offset().get(), i64::try_from(first_offset).unwrap(), "{context}");
        let found_end = first_offset + found.len();
        assert!(found_end >= end_offset, "{context}: ends at {found_end}");
        assert_eq!(partition.max_offset().get(), i64::try_from(found_end).unwrap(), "{context}");
        let durable = end_offset.max(first_offset) - first_offset;
        assert!(found[..durable] == model.stream[first_offset..][..durable], "{context}");
        assert!(model.allows(&found, first_offset, durable), "{context}");
        drop(store);
        let again = open(&options(dir.path())).unwrap();
        assert_eq!(again.get("t", P0).unwrap().max_offset().get(), i64::try_from(found_end).unwrap(), "{context}");
    }
}
