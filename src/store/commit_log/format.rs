//! Bytes of the commit log: file header, frames, checkpoint table (08 §1–2). Both directions, and nothing else knows
//! them. Big-endian.

use bytes::{Buf, BufMut};
use crc32fast::Hasher;

use super::table::Checkpoint;
use crate::id::{PartitionIndex, TopicName};
use crate::store::fs::Stamp;

/// Bytes before the first frame of a file.
pub(in crate::store) const HEADER_LEN: usize = 4096;

/// Bytes of a frame before its body.
pub(in crate::store) const FRAME_HEAD_LEN: usize = 25;

/// Longest body of a frame. A longer one is damaged.
pub(in crate::store) const MAX_BODY_LEN: usize = 1 << 20;

const MAGIC: &[u8; 4] = b"MQCL";
const VERSION: u32 = 1;
const CRC_LEN: usize = 4;
/// Header fields before the table: magic, version, log id, file number, first sequence, length of the table.
const HEADER_FIELDS_LEN: usize = 36;
const MAX_HEADER_TABLE_LEN: usize = HEADER_LEN - HEADER_FIELDS_LEN - CRC_LEN;

const KIND_RECORDS: u8 = 1;
const KIND_FORGET: u8 = 2;
const KIND_TABLE: u8 = 3;

const FILE_PREFIX: &str = "commitlog.";

/// Name of the file that was created as number `number`. A recycled file keeps its name: its header rules.
pub(in crate::store) fn file_name(number: u64) -> String {
    format!("{FILE_PREFIX}{number}")
}

/// The number in the name of a log file, `None` for any other name.
pub(in crate::store) fn parse_file_name(name: &str) -> Option<u64> {
    name.strip_prefix(FILE_PREFIX)?.parse().ok()
}

/// What every checksum of a file begins with, so that frames of an earlier use of the file never pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Seed(u32);

impl Seed {
    pub(in crate::store) fn new(log_id: u64, file_number: u64) -> Self {
        let mut crc = Hasher::new();
        crc.update(&log_id.to_be_bytes());
        crc.update(&file_number.to_be_bytes());
        Self(crc.finalize())
    }

    fn checksum(self, bytes: &[u8]) -> u32 {
        let mut crc = Hasher::new_with_initial(self.0);
        crc.update(bytes);
        crc.finalize()
    }
}

/// Header of a log file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct FileHeader {
    pub(in crate::store) log_id: u64,
    pub(in crate::store) file_number: u64,
    /// Sequence of the first frame in the file.
    pub(in crate::store) first_sequence: u64,
    /// As much of the checkpoint table as fits; the rest follows in frames.
    pub(in crate::store) table: Vec<Checkpoint>,
}

/// What the first bytes of a log file are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) enum DecodedHeader {
    Valid(FileHeader),
    /// Intact, but of a version that this release does not know.
    UnknownVersion(u32),
    /// Never written, or torn.
    Invalid,
}

impl FileHeader {
    pub(in crate::store) fn seed(&self) -> Seed {
        Seed::new(self.log_id, self.file_number)
    }

    /// Encodes as much of the table as fits and returns how many entries that were.
    pub(in crate::store) fn encode(&self, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        let mut table = Vec::new();
        let mut fitting = 0;
        for entry in &self.table {
            let before = table.len();
            encode_checkpoint(entry, &mut table);
            if table.len() > MAX_HEADER_TABLE_LEN {
                table.truncate(before);
                break;
            }
            fitting += 1;
        }
        out.put_slice(MAGIC);
        out.put_u32(VERSION);
        out.put_u64(self.log_id);
        out.put_u64(self.file_number);
        out.put_u64(self.first_sequence);
        out.put_u32(u32::try_from(table.len()).unwrap_or(0));
        out.put_slice(&table);
        out.resize(start + HEADER_LEN - CRC_LEN, 0);
        let crc = crc32fast::hash(out.get(start..).unwrap_or_default());
        out.put_u32(crc);
        fitting
    }

    pub(in crate::store) fn decode(bytes: &[u8; HEADER_LEN]) -> DecodedHeader {
        Self::decode_fields(bytes).unwrap_or(DecodedHeader::Invalid)
    }

    fn decode_fields(bytes: &[u8]) -> Option<DecodedHeader> {
        let (content, mut crc) = bytes.split_at_checked(HEADER_LEN - CRC_LEN)?;
        if crc.get_u32() != crc32fast::hash(content) {
            return None;
        }
        let mut fields = content.strip_prefix(MAGIC)?;
        let version = fields.get_u32();
        if version != VERSION {
            return Some(DecodedHeader::UnknownVersion(version));
        }
        let (log_id, file_number, first_sequence) = (fields.get_u64(), fields.get_u64(), fields.get_u64());
        let table_len = usize::try_from(fields.get_u32()).ok()?;
        let table = decode_table(fields.get(..table_len)?)?;
        Some(DecodedHeader::Valid(Self { log_id, file_number, first_sequence, table }))
    }
}

/// Content of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) enum Body<'a> {
    /// Whole records of one partition, as they stand in its segment.
    Records {
        topic: TopicName,
        partition: PartitionIndex,
        /// Name of the segment that they belong to.
        segment: u64,
        /// Offset of the first byte.
        offset: u64,
        records: &'a [u8],
    },
    /// All earlier frames of the partition are void.
    Forget { topic: TopicName, partition: PartitionIndex },
    /// More of the table in the header.
    Table(Vec<Checkpoint>),
    /// Intact, but of a kind that this release does not know.
    Unknown(u8),
}

/// A whole frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Frame<'a> {
    pub(in crate::store) sequence: u64,
    /// The highest sequence known to be durable when the frame was made; 0 for none.
    pub(in crate::store) synced: u64,
    pub(in crate::store) body: Body<'a>,
    /// Bytes of the whole frame.
    pub(in crate::store) len: usize,
}

/// What lies at a position of a log file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) enum DecodedFrame<'a> {
    Valid(Frame<'a>),
    /// More bytes are needed to tell: as many from the start of the frame.
    Needs(usize),
    /// No frame of this file.
    Invalid,
}

/// Reads the frame at the start of `bytes`.
pub(in crate::store) fn decode_frame(bytes: &[u8], seed: Seed) -> DecodedFrame<'_> {
    let Some(mut head) = bytes.get(..FRAME_HEAD_LEN) else { return DecodedFrame::Needs(FRAME_HEAD_LEN) };
    let (crc, body_len) = (head.get_u32(), head.get_u32());
    let (sequence, synced, kind) = (head.get_u64(), head.get_u64(), head.get_u8());
    let Some(body_len) = usize::try_from(body_len).ok().filter(|&len| len <= MAX_BODY_LEN) else {
        return DecodedFrame::Invalid;
    };
    let len = FRAME_HEAD_LEN + body_len;
    let Some(frame) = bytes.get(..len) else { return DecodedFrame::Needs(len) };
    if seed.checksum(frame.get(CRC_LEN..).unwrap_or_default()) != crc {
        return DecodedFrame::Invalid;
    }
    match decode_body(kind, frame.get(FRAME_HEAD_LEN..).unwrap_or_default()) {
        Some(body) => DecodedFrame::Valid(Frame { sequence, synced, body, len }),
        None => DecodedFrame::Invalid,
    }
}

fn decode_body(kind: u8, mut body: &[u8]) -> Option<Body<'_>> {
    Some(match kind {
        KIND_RECORDS => {
            let (topic, partition) = decode_partition(&mut body)?;
            let (segment, offset) = (body.try_get_u64().ok()?, body.try_get_u64().ok()?);
            Body::Records { topic, partition, segment, offset, records: body }
        }
        KIND_FORGET => {
            let (topic, partition) = decode_partition(&mut body)?;
            Body::Forget { topic, partition }
        }
        KIND_TABLE => Body::Table(decode_table(body)?),
        kind => Body::Unknown(kind),
    })
}

/// A frame that is being written: where it began in the buffer.
#[derive(Debug, Clone, Copy)]
#[must_use = "a frame has to be finished"]
pub(in crate::store) struct Begun(usize);

impl Begun {
    /// Fills in what is known only now.
    pub(in crate::store) fn finish(self, out: &mut [u8], seed: Seed, sequence: u64, synced: u64) {
        let Some(frame) = out.get_mut(self.0..) else { return };
        let body_len = u32::try_from(frame.len().saturating_sub(FRAME_HEAD_LEN)).unwrap_or(u32::MAX);
        if let Some(mut fields) = frame.get_mut(CRC_LEN..FRAME_HEAD_LEN - 1) {
            fields.put_u32(body_len);
            fields.put_u64(sequence);
            fields.put_u64(synced);
        }
        let crc = seed.checksum(frame.get(CRC_LEN..).unwrap_or_default());
        if let Some(mut field) = frame.get_mut(..CRC_LEN) {
            field.put_u32(crc);
        }
    }
}

fn begin(out: &mut Vec<u8>, kind: u8) -> Begun {
    let begun = Begun(out.len());
    out.put_bytes(0, FRAME_HEAD_LEN - 1);
    out.put_u8(kind);
    begun
}

/// Begins a frame of records; they are appended to `out` next.
pub(in crate::store) fn begin_records(
    out: &mut Vec<u8>,
    topic: &TopicName,
    partition: PartitionIndex,
    segment: u64,
    offset: u64,
) -> Begun {
    let begun = begin(out, KIND_RECORDS);
    encode_partition(topic, partition, out);
    out.put_u64(segment);
    out.put_u64(offset);
    begun
}

/// Bytes that [`begin_records`] appends.
pub(in crate::store) fn records_overhead(topic: &TopicName) -> usize {
    FRAME_HEAD_LEN + 1 + topic.as_str().len() + 4 + 8 + 8
}

/// A frame that voids all earlier ones of a partition.
pub(in crate::store) fn begin_forget(out: &mut Vec<u8>, topic: &TopicName, partition: PartitionIndex) -> Begun {
    let begun = begin(out, KIND_FORGET);
    encode_partition(topic, partition, out);
    begun
}

/// A frame with the first entries of a table, as many as a frame holds; returns how many those were.
pub(in crate::store) fn begin_table(out: &mut Vec<u8>, table: &[Checkpoint]) -> (Begun, usize) {
    let begun = begin(out, KIND_TABLE);
    let body = out.len();
    let mut fitting = 0;
    for entry in table {
        let before = out.len();
        encode_checkpoint(entry, out);
        if out.len() - body > MAX_TABLE_FRAME_LEN {
            out.truncate(before);
            break;
        }
        fitting += 1;
    }
    (begun, fitting)
}

/// Longest body of a table's frame.
const MAX_TABLE_FRAME_LEN: usize = 64 * 1024;

fn encode_partition(topic: &TopicName, partition: PartitionIndex, out: &mut Vec<u8>) {
    // A topic's name has at most 200 bytes.
    out.put_u8(u8::try_from(topic.as_str().len()).unwrap_or(0));
    out.put_slice(topic.as_str().as_bytes());
    out.put_i32(partition.get());
}

fn decode_partition(body: &mut &[u8]) -> Option<(TopicName, PartitionIndex)> {
    let len = usize::from(body.try_get_u8().ok()?);
    let (topic, rest) = body.split_at_checked(len)?;
    *body = rest;
    let topic = TopicName::new(std::str::from_utf8(topic).ok()?).ok()?;
    Some((topic, PartitionIndex::new(body.try_get_i32().ok()?)))
}

fn encode_checkpoint(entry: &Checkpoint, out: &mut Vec<u8>) {
    encode_partition(&entry.topic, entry.partition, out);
    out.put_u64(entry.segment);
    out.put_u64(entry.stamp.len);
    out.put_i64(entry.stamp.modified_ns);
}

fn decode_table(mut bytes: &[u8]) -> Option<Vec<Checkpoint>> {
    let mut table = Vec::new();
    while !bytes.is_empty() {
        let (topic, partition) = decode_partition(&mut bytes)?;
        let segment = bytes.try_get_u64().ok()?;
        let (len, modified_ns) = (bytes.try_get_u64().ok()?, bytes.try_get_i64().ok()?);
        table.push(Checkpoint { topic, partition, segment, stamp: Stamp { len, modified_ns } });
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str) -> TopicName {
        TopicName::new(name).unwrap()
    }

    fn checkpoint(i: i32) -> Checkpoint {
        let stamp = Stamp { len: 77, modified_ns: -5 };
        Checkpoint { topic: topic("a-topic"), partition: PartitionIndex::new(i), segment: 1 << 40, stamp }
    }

    fn records_frame(seed: Seed, sequence: u64) -> Vec<u8> {
        let mut out = b"before".to_vec();
        let begun = begin_records(&mut out, &topic("t"), PartitionIndex::new(3), 1024, 2000);
        out.extend_from_slice(b"the records");
        begun.finish(&mut out, seed, sequence, sequence - 1);
        out.split_off(6)
    }

    #[test]
    fn a_frame_of_records_has_the_documented_bytes() {
        let seed = Seed::new(1, 2);
        let frame = records_frame(seed, 9);
        let mut expected = Vec::new();
        expected.put_u32(u32::try_from(frame.len() - FRAME_HEAD_LEN).unwrap());
        expected.put_u64(9);
        expected.put_u64(8);
        expected.put_slice(&[1, 1, b't', 0, 0, 0, 3]);
        expected.put_u64(1024);
        expected.put_u64(2000);
        expected.put_slice(b"the records");
        assert_eq!(frame[4..], expected);
        let seeded = [&1_u64.to_be_bytes()[..], &2_u64.to_be_bytes(), &expected].concat();
        assert_eq!(frame[..4], crc32fast::hash(&seeded).to_be_bytes());
        assert_eq!(frame.len(), records_overhead(&topic("t")) + 11);
    }

    #[test]
    fn frames_are_read_back_and_only_with_their_seed() {
        let seed = Seed::new(1, 2);
        let frame = records_frame(seed, 9);
        let body = Body::Records {
            topic: topic("t"),
            partition: PartitionIndex::new(3),
            segment: 1024,
            offset: 2000,
            records: b"the records",
        };
        let expected = Frame { sequence: 9, synced: 8, body, len: frame.len() };
        let longer = [&frame[..], b"more"].concat();
        assert_eq!(decode_frame(&longer, seed), DecodedFrame::Valid(expected));
        assert_eq!(decode_frame(&frame, Seed::new(1, 3)), DecodedFrame::Invalid);
        assert_eq!(decode_frame(&frame, Seed::new(2, 2)), DecodedFrame::Invalid);
        for cut in 0..frame.len() {
            let needs = if cut < FRAME_HEAD_LEN { FRAME_HEAD_LEN } else { frame.len() };
            assert_eq!(decode_frame(&frame[..cut], seed), DecodedFrame::Needs(needs));
        }
        for i in 0..frame.len() {
            let mut damaged = frame.clone();
            damaged[i] ^= 0x40;
            assert!(!matches!(decode_frame(&damaged, seed), DecodedFrame::Valid(_)), "byte {i}");
        }
        assert_eq!(decode_frame(&[0; 64], seed), DecodedFrame::Invalid, "zeros are no frame");
    }

    #[test]
    fn forget_table_and_unknown_kinds_are_read_back() {
        let seed = Seed::new(7, 7);
        let mut out = Vec::new();
        begin_forget(&mut out, &topic("t"), PartitionIndex::new(3)).finish(&mut out, seed, 1, 0);
        let DecodedFrame::Valid(frame) = decode_frame(&out, seed) else { panic!() };
        assert_eq!(frame.body, Body::Forget { topic: topic("t"), partition: PartitionIndex::new(3) });
        let table: Vec<_> = (0..5000).map(checkpoint).collect();
        let mut read = Vec::new();
        let mut rest = &table[..];
        while !rest.is_empty() {
            let mut out = Vec::new();
            let (begun, fitting) = begin_table(&mut out, rest);
            begun.finish(&mut out, seed, 1, 0);
            let DecodedFrame::Valid(frame) = decode_frame(&out, seed) else { panic!() };
            let Body::Table(entries) = frame.body else { panic!() };
            assert_eq!(entries.len(), fitting);
            read.extend(entries);
            rest = &rest[fitting..];
        }
        assert_eq!(read, table);
        let mut out = Vec::new();
        begin(&mut out, 200).finish(&mut out, seed, 1, 0);
        let DecodedFrame::Valid(frame) = decode_frame(&out, seed) else { panic!() };
        assert_eq!(frame.body, Body::Unknown(200));
    }

    #[test]
    fn a_header_is_read_back_with_the_entries_that_fit() {
        let table: Vec<_> = (0..500).map(checkpoint).collect();
        for entries in [0, 1, 500] {
            let header = FileHeader { log_id: 5, file_number: 6, first_sequence: 7, table: table[..entries].to_vec() };
            let mut out = Vec::new();
            let fitting = header.encode(&mut out);
            assert!(fitting == entries || (entries == 500 && fitting > 50));
            let bytes: [u8; HEADER_LEN] = out.try_into().unwrap();
            let expected = FileHeader { table: table[..fitting].to_vec(), ..header };
            assert_eq!(FileHeader::decode(&bytes), DecodedHeader::Valid(expected));
            for i in (0..HEADER_LEN).step_by(97).chain([0, 4095]) {
                let mut damaged = bytes;
                damaged[i] ^= 1;
                assert_eq!(FileHeader::decode(&damaged), DecodedHeader::Invalid);
            }
        }
        assert_eq!(FileHeader::decode(&[0; HEADER_LEN]), DecodedHeader::Invalid);
        let mut later = Vec::new();
        FileHeader { log_id: 5, file_number: 6, first_sequence: 7, table: vec![] }.encode(&mut later);
        later[7] = 2;
        let crc = crc32fast::hash(&later[..HEADER_LEN - 4]);
        later[HEADER_LEN - 4..].copy_from_slice(&crc.to_be_bytes());
        assert_eq!(FileHeader::decode(&later.try_into().unwrap()), DecodedHeader::UnknownVersion(2));
    }

    #[test]
    fn only_names_of_log_files_are_recognised() {
        assert_eq!(parse_file_name(&file_name(12)), Some(12));
        for other in ["commitlog.", "commitlog.x", "commitlog", "redo.1", "commitlog.-1"] {
            assert_eq!(parse_file_name(other), None, "{other}");
        }
    }
}
