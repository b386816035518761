//! The bytes of the log and of a snapshot. Numbers are big-endian.
//!
//! | | |
//! |---|---|
//! | log header | magic (8), id of the log (8), last transaction before it (8), CRC-32 of these (4) |
//! | frame | id of the log (8), length (4), CRC-32 of these and of the payload (4), payload: transactions |
//! | snapshot | magic (8), content, CRC-32 of all before (4) |
//!
//! A frame is synced before the next one is written. So only the last can be torn, and an intact one behind a broken one
//! proves damage.

use bytes::BytesMut;
use memchr::memmem;

use crate::zk::local::jute::{Reader, Writer, length};
use crate::zk::local::state::State;

/// Version 1 of the log.
const LOG_MAGIC: &[u8; 8] = b"MQZKLOG1";
/// Version 1 of the snapshot.
const SNAPSHOT_MAGIC: &[u8; 8] = b"MQZKSNP1";

/// Bytes of a log's header.
pub(super) const LOG_HEADER_BYTES: u64 = 28;
/// Bytes of a frame before its payload.
const FRAME_HEAD_BYTES: usize = 16;
const CRC_BYTES: usize = 4;

/// What a log begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogHeader {
    /// Marks the frames of this log.
    pub(super) log_id: u64,
    /// The last transaction before it.
    pub(super) base: i64,
}

impl LogHeader {
    pub(super) fn bytes(self) -> Vec<u8> {
        let mut bytes = LOG_MAGIC.to_vec();
        bytes.extend(self.log_id.to_be_bytes());
        bytes.extend(self.base.to_be_bytes());
        bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
        bytes
    }

    /// Reads the header of a log; otherwise the reason why there is none.
    pub(super) fn read(log: &[u8]) -> Result<Self, String> {
        let mut r = Reader::new(log);
        let no_header = |_| "it is shorter than its header".to_owned();
        let magic = r.take(LOG_MAGIC.len()).map_err(no_header)?;
        if magic != LOG_MAGIC {
            return Err("it does not begin like a log of this release".to_owned());
        }
        let mut long = || r.long().map_err(no_header);
        let header = Self { log_id: long()?.cast_unsigned(), base: long()? };
        if log.starts_with(&header.bytes()) {
            Ok(header)
        } else {
            Err("the checksum of its header is wrong".to_owned())
        }
    }
}

/// What stands before a payload.
pub(super) fn frame(log_id: u64, payload: &[u8]) -> Vec<u8> {
    let mut head = log_id.to_be_bytes().to_vec();
    head.extend(length(payload.len()).to_be_bytes());
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head);
    crc.update(payload);
    head.extend(crc.finalize().to_be_bytes());
    head
}

/// The intact frames of a log.
#[derive(Debug)]
pub(super) struct Frames<'a> {
    pub(super) payloads: Vec<&'a [u8]>,
    /// Where the last one ends; what lies behind is a torn one.
    pub(super) end: u64,
}

/// Goes from frame to frame; otherwise the reason why the log is damaged.
pub(super) fn walk(log: &[u8], log_id: u64) -> Result<Frames<'_>, String> {
    let mut payloads = Vec::new();
    let mut at = usize::try_from(LOG_HEADER_BYTES).unwrap_or_default();
    while let Some(payload) = intact(&log[at..], log_id) {
        payloads.push(payload);
        at += FRAME_HEAD_BYTES + payload.len();
    }
    let rest = &log[at..];
    let later = memmem::find_iter(rest, &log_id.to_be_bytes()).find(|&from| intact(&rest[from..], log_id).is_some());
    match later {
        Some(from) => Err(format!("what was stored at byte {at} is broken, but intact again from byte {}", at + from)),
        None => Ok(Frames { payloads, end: at as u64 }),
    }
}

fn intact(bytes: &[u8], log_id: u64) -> Option<&[u8]> {
    let (head, rest) = bytes.split_at_checked(FRAME_HEAD_BYTES)?;
    let len = Reader::new(&head[size_of::<u64>()..]).int().ok()?;
    let payload = rest.get(..usize::try_from(len).ok()?)?;
    (!payload.is_empty() && head == frame(log_id, payload)).then_some(payload)
}

/// The whole file.
pub(super) fn write_snapshot(state: &State) -> BytesMut {
    let mut w = Writer::default();
    w.raw(SNAPSHOT_MAGIC);
    state.write(&mut w);
    let crc = crc32fast::hash(w.bytes());
    w.raw(&crc.to_be_bytes());
    w.into_bytes()
}

/// The content of a snapshot; otherwise the reason why it is damaged.
pub(super) fn read_snapshot(file: &[u8]) -> Result<&[u8], String> {
    let content = file.strip_prefix(SNAPSHOT_MAGIC).ok_or("it does not begin like a snapshot of this release")?;
    let (content, crc) = content.split_last_chunk::<CRC_BYTES>().ok_or("it ends too early")?;
    let is_intact = crc32fast::hash(&file[..file.len() - CRC_BYTES]).to_be_bytes() == *crc;
    if is_intact { Ok(content) } else { Err("its checksum is wrong".to_owned()) }
}
