//! The record: a header of 20 bytes, big-endian, then the body (02 §3).

use bytes::{Buf, BufMut};

use super::checksum;
use crate::id::MessageId;

/// Length of the header of a record.
pub const HEADER_LEN: usize = 20;

/// Bit of the flag that says the body begins with an attribute block.
pub const FLAG_ATTRIBUTE: i32 = 1;

/// What precedes a body on disk and in a `value` answer. Topic, partition and offset are not part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHeader {
    /// Length of the body.
    pub length: i32,
    /// Checksum of the body; the header itself is not covered.
    pub checksum: i32,
    /// Identity given by the broker that stored it first.
    pub id: MessageId,
    /// Stored as the producer sent it; see [`FLAG_ATTRIBUTE`].
    pub flag: i32,
}

impl RecordHeader {
    /// Reads a header; the caller gives exactly its bytes.
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Self {
        let bytes: &mut &[u8] = &mut &bytes[..];
        Self {
            length: bytes.get_i32(),
            checksum: bytes.get_i32(),
            id: MessageId::new(bytes.get_i64()),
            flag: bytes.get_i32(),
        }
    }

    /// Writes the header.
    pub fn encode(&self, out: &mut impl BufMut) {
        out.put_i32(self.length);
        out.put_i32(self.checksum);
        out.put_i64(self.id.get());
        out.put_i32(self.flag);
    }

    /// Whether the body is the one that the header was made for.
    pub fn matches(&self, body: &[u8]) -> bool {
        checksum(body) == self.checksum
    }

    /// Whether this is no header but the zeros that a file system leaves at the end of a file after a power cut.
    ///
    /// Twenty zero bytes would pass for an empty message; no real one has id 0 (02 §11).
    pub fn is_zero_fill(&self) -> bool {
        self.length == 0 && self.checksum == 0 && self.id.get() == 0 && self.flag == 0
    }

    /// Length of header and body; `None` when the length is negative, which no real header has.
    pub fn record_len(&self) -> Option<u64> {
        u64::try_from(self.length).ok().map(|length| length + HEADER_LEN as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_the_bytes_of_the_reference() {
        let header = RecordHeader {
            length: 10,
            checksum: checksum(b"\0\0\0\x03tagpay"),
            id: MessageId::new(0x0102_0304_0506_0708),
            flag: 1,
        };
        let mut out = Vec::new();
        header.encode(&mut out);
        assert_eq!(
            out,
            [0, 0, 0, 0x0a, 0x41, 0xbc, 0x57, 0x55, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 1],
            "id 0x0102030405060708, flag 1, attribute tag, payload pay"
        );
        assert_eq!(RecordHeader::decode(out[..].try_into().unwrap()), header);
    }

    #[test]
    fn zeros_are_told_from_an_empty_message() {
        assert!(RecordHeader::decode(&[0; HEADER_LEN]).is_zero_fill());
        let empty = RecordHeader { length: 0, checksum: 0, id: MessageId::new(9), flag: 0 };
        assert!(!empty.is_zero_fill());
    }
}
