//! Walk over the records in the body of a `value` answer (01 §6.3).

use bytes::Bytes;

use super::{Body, HEADER_LEN, InvalidBody, RecordHeader};

/// One whole record of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Position of the header, in bytes from the start of the answer.
    pub position: usize,
    /// The header.
    pub header: RecordHeader,
    /// The body, attribute block included.
    pub body: Bytes,
}

impl Record {
    /// Takes the body apart.
    ///
    /// # Errors
    /// As [`Body::decode`].
    pub fn decode_body(&self) -> Result<Body, InvalidBody> {
        Body::decode(self.header.flag, self.body.clone())
    }
}

/// Bytes that are no record; the walk cannot go on behind them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRecord {
    /// The length is negative or beyond the limit given to [`Records::new`].
    #[error("a record claims a body of {length} bytes, at most {limit} are accepted")]
    Length {
        /// What the header says.
        length: i32,
        /// What the reader accepts.
        limit: usize,
    },
    /// The checksum does not belong to the body.
    #[error("the checksum of a record at byte {position} of the answer does not match its body")]
    Checksum {
        /// Where the record begins.
        position: usize,
    },
}

/// Iterator over the whole records of an answer. What is cut off at the end is left out silently: an answer is cut by
/// byte count, anywhere.
///
/// After an error the iterator is at its end; [`Records::consumed`] then points at the broken record.
#[derive(Debug)]
pub struct Records {
    data: Bytes,
    position: usize,
    body_limit: usize,
    broken: bool,
}

impl Records {
    /// Walks over `data`; a body beyond `body_limit` bytes is an error rather than a reason to wait for more.
    pub fn new(data: Bytes, body_limit: usize) -> Self {
        Self { data, position: 0, body_limit, broken: false }
    }

    /// Bytes of all records yielded so far: the next get starts this much further on.
    pub fn consumed(&self) -> usize {
        self.position
    }
}

impl Iterator for Records {
    type Item = Result<Record, InvalidRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.broken {
            return None;
        }
        let header = RecordHeader::decode(self.data.get(self.position..)?.first_chunk::<HEADER_LEN>()?);
        let length = match usize::try_from(header.length) {
            Ok(length) if length <= self.body_limit => length,
            _ => {
                self.broken = true;
                return Some(Err(InvalidRecord::Length { length: header.length, limit: self.body_limit }));
            }
        };
        let start = self.position + HEADER_LEN;
        if self.data.len() - start < length {
            return None;
        }
        let body = self.data.slice(start..start + length);
        if !header.matches(&body) {
            self.broken = true;
            return Some(Err(InvalidRecord::Checksum { position: self.position }));
        }
        let record = Record { position: self.position, header, body };
        self.position = start + length;
        Some(Ok(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::MessageId;
    use crate::message::checksum;

    fn record(id: i64, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let length = i32::try_from(body.len()).unwrap();
        RecordHeader { length, checksum: checksum(body), id: MessageId::new(id), flag: 0 }.encode(&mut out);
        out.extend_from_slice(body);
        out
    }

    fn ids(data: &[u8]) -> (Vec<Result<i64, InvalidRecord>>, usize) {
        let mut records = Records::new(Bytes::copy_from_slice(data), 1 << 20);
        let ids = records.by_ref().map(|r| r.map(|r| r.header.id.get())).collect();
        (ids, records.consumed())
    }

    #[test]
    fn whole_records_are_yielded_and_a_cut_one_is_left_out_at_every_cut() {
        let data = [record(1, b"hello"), record(2, b""), record(-3, b"world!")].concat();
        for cut in 0..=data.len() {
            let whole = [25, 45, 71].iter().filter(|&&end| end <= cut).count();
            let (seen, consumed) = ids(&data[..cut]);
            assert_eq!(seen, [Ok(1), Ok(2), Ok(-3)][..whole], "cut at {cut}");
            assert_eq!(consumed, [0, 25, 45, 71][whole]);
        }
    }

    #[test]
    fn a_broken_checksum_ends_the_walk_in_front_of_the_record() {
        let mut data = [record(1, b"hello"), record(2, b"world"), record(3, b"!")].concat();
        data[25 + 20] ^= 1;
        assert_eq!(ids(&data), (vec![Ok(1), Err(InvalidRecord::Checksum { position: 25 })], 25));
    }

    #[test]
    fn an_absurd_length_is_an_error_and_not_a_reason_to_wait() {
        for length in [-1, i32::MIN, i32::MAX, (1 << 20) + 1] {
            let mut data = length.to_be_bytes().to_vec();
            data.extend_from_slice(&[0; 30]);
            assert_eq!(ids(&data), (vec![Err(InvalidRecord::Length { length, limit: 1 << 20 })], 0));
        }
    }
}
