//! The usual spelling of the busiest command and its answer, without anything allocated (01 §3.2, §4).
//!
//! Everything that is spelled otherwise, incomplete or wrong is left to the [`Decoder`](super::Decoder); what is taken
//! here, it would take in the same way.

use bytes::{BufMut, BytesMut};

use super::{Limits, Opaque};
use crate::id::{MessageId, Offset, PartitionIndex};

/// `put topic partition value-length flag checksum opaque` and its body, whole in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainPut<'a> {
    /// Topic, as sent: printable ASCII.
    pub topic: &'a str,
    /// Partition, or [`PartitionIndex::RANDOM`].
    pub partition: PartitionIndex,
    /// Stored as sent.
    pub flag: i32,
    /// Checksum of the body, -1 where a client has none.
    pub checksum: i32,
    /// Correlation id.
    pub opaque: Opaque,
    /// Attribute block and payload.
    pub body: &'a [u8],
}

/// The longest line that is worth a look.
const LINE_BYTES_MAX: usize = 512;

impl<'a> PlainPut<'a> {
    /// The put at the start of a buffer, and how many bytes it takes.
    pub fn decode(bytes: &'a [u8], limits: Limits) -> Option<(Self, usize)> {
        let line = bytes.strip_prefix(b"put ")?;
        let line = line.get(..line.len().min(LINE_BYTES_MAX)).unwrap_or(line);
        let mut line = Line(line);
        let topic = line.topic()?;
        let partition = line.number(b' ')?;
        let length = usize::try_from(line.number(b' ')?).ok()?;
        let flag = line.number(b' ')?;
        let checksum = line.number(b' ')?;
        let opaque = line.number(b'\r')?;
        let rest = line.0.strip_prefix(b"\n")?;
        // The line was cut at the end of what is worth a look, the buffer was not.
        let start = rest.as_ptr().addr() - bytes.as_ptr().addr();
        if start > limits.line_bytes || length > limits.body_bytes {
            return None;
        }
        let end = start.checked_add(length)?;
        let body = bytes.get(start..end)?;
        let (partition, opaque) = (PartitionIndex::new(partition), Opaque::new(opaque));
        Some((Self { topic, partition, flag, checksum, opaque, body }, end))
    }
}

/// What is left of a line.
struct Line<'a>(&'a [u8]);

impl<'a> Line<'a> {
    /// The next token and the space behind it.
    fn topic(&mut self) -> Option<&'a str> {
        let end = self.0.iter().position(|&b| !b.is_ascii_graphic())?;
        let (token, rest) = self.0.split_at_checked(end)?;
        self.0 = rest.strip_prefix(b" ")?;
        if token.is_empty() { None } else { std::str::from_utf8(token).ok() }
    }

    /// The next token as a number in its shortest spelling, and the byte behind it.
    fn number(&mut self, end: u8) -> Option<i32> {
        let (negative, digits) = match self.0.strip_prefix(b"-") {
            Some(digits) => (true, digits),
            None => (false, self.0),
        };
        let mut value = 0_i64;
        for (i, &byte) in digits.iter().enumerate() {
            if byte.is_ascii_digit() && i < 10 {
                value = value * 10 + i64::from(byte - b'0');
            } else if byte == end && i > 0 {
                self.0 = digits.get(i + 1..)?;
                return i32::try_from(if negative { -value } else { value }).ok();
            } else {
                return None;
            }
        }
        None
    }
}

/// Appends the answer to a put that was stored: `result 200 <length> <opaque>` and `<id> <partition> <offset>`.
pub fn encode_put_answer(id: MessageId, partition: PartitionIndex, offset: Offset, opaque: Opaque, out: &mut BytesMut) {
    let (mut id_digits, mut partition_digits) = (itoa::Buffer::new(), itoa::Buffer::new());
    let (mut offset_digits, mut number) = (itoa::Buffer::new(), itoa::Buffer::new());
    let id = id_digits.format(id.get());
    let partition = partition_digits.format(partition.get());
    let offset = offset_digits.format(offset.get());
    let length = id.len() + partition.len() + offset.len() + 2;
    out.reserve(length + 40);
    out.put_slice(b"result 200 ");
    out.put_slice(number.format(length).as_bytes());
    out.put_u8(b' ');
    out.put_slice(number.format(opaque.get()).as_bytes());
    out.put_slice(b"\r\n");
    out.put_slice(id.as_bytes());
    out.put_u8(b' ');
    out.put_slice(partition.as_bytes());
    out.put_u8(b' ');
    out.put_slice(offset.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Decoder, Request, Response, Status};
    use super::*;

    fn decode_both(bytes: &[u8]) -> (Option<(PlainPut<'_>, usize)>, Option<Command>) {
        let limits = Limits { line_bytes: 60, body_bytes: 100 };
        let mut buffer = BytesMut::from(bytes);
        let general = Decoder::new(limits).decode(&mut buffer).ok().flatten();
        let plain = PlainPut::decode(bytes, limits);
        if let Some((put, len)) = plain {
            assert_eq!(len, bytes.len() - buffer.len(), "{}", bytes.escape_ascii());
            let Some(Command::Request(Request::Put(general))) = &general else {
                panic!("not a put: {}", bytes.escape_ascii());
            };
            assert_eq!(
                (put.topic, put.partition, put.flag, Some(put.checksum), put.opaque, put.body),
                (&*general.topic, general.partition, general.flag, general.checksum, general.opaque, &*general.body)
            );
            assert!(general.transaction.is_none());
        }
        (plain, general)
    }

    #[test]
    fn ordinary_puts_are_taken() {
        let (plain, _) = decode_both(b"put test 3 5 1 -1 77\r\nhellomore");
        let expected = PlainPut {
            topic: "test",
            partition: PartitionIndex::new(3),
            flag: 1,
            checksum: -1,
            opaque: Opaque::new(77),
            body: b"hello",
        };
        assert_eq!(plain, Some((expected, 27)));
        for whole in ["put a-b -1 0 0 5 -2147483648\r\n", "put t 2147483647 1 -1 0 2147483647\r\nx"] {
            assert!(decode_both(whole.as_bytes()).0.is_some(), "{whole}");
        }
    }

    #[test]
    fn everything_else_is_left_to_the_decoder() {
        for other in [
            "put test 3 5 1 -1 77\r\nhell",
            "put test 3 5 1 -1 77\n",
            "put test 3 5 1 77\r\nhello",
            "put test 3 5 1 -1 1_2_3 77\r\nhello",
            "put test 3 5 1 -1 77 8\r\nhello",
            "put test  3 5 1 -1 77\r\nhello",
            "put test 3 5 1 -1 2147483648\r\nhello",
            "put test 3 5 1 -1 99999999999999999999\r\nhello",
            "put test 3 -5 1 -1 77\r\nhello",
            "put test 3 101 1 -1 77\r\n",
            "put \u{e4}\u{f6} 3 5 1 -1 77\r\nhello",
            "put  3 5 1 -1 77\r\nhello",
            "get test g 3 5 1 77\r\n",
            "put",
            "",
        ] {
            assert!(decode_both(other.as_bytes()).0.is_none(), "{other}");
        }
    }

    #[test]
    fn what_is_taken_is_what_the_decoder_takes_whatever_is_sent() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut taken = 0;
        for _ in 0..20_000 {
            let mut bytes = b"put test 3 5 1 -1 77\r\nhello and more".to_vec();
            for _ in 0..rng.usize(0..3) {
                let at = rng.usize(0..bytes.len());
                match rng.u32(0..3) {
                    0 => *bytes.get_mut(at).unwrap() = *rng.choice(b"put test\r\n 0123456789-\0\x80").unwrap(),
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, *rng.choice(b" 9-\rx").unwrap()),
                }
            }
            taken += u32::from(decode_both(&bytes).0.is_some());
        }
        assert!(taken > 1000, "{taken}");
    }

    #[test]
    fn the_answer_is_that_of_the_general_encoder() {
        for (id, partition, offset, opaque) in [(i64::MIN, 0, 0, -1), (i64::MAX, 999, i64::MAX, 7), (0, 1, 10, 0)] {
            let (id, partition) = (MessageId::new(id), PartitionIndex::new(partition));
            let (offset, opaque) = (Offset::new(offset), Opaque::new(opaque));
            let (mut ours, mut general) = (BytesMut::new(), BytesMut::new());
            encode_put_answer(id, partition, offset, opaque, &mut ours);
            Response::result(Status::SUCCESS, format!("{id} {partition} {offset}"), opaque).encode(&mut general);
            assert_eq!(ours, general);
        }
    }
}
