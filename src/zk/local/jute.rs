//! Jute, the serialisation of ZooKeeper: big-endian numbers, buffers and texts with a length before them.

use bytes::{BufMut as _, Bytes, BytesMut};

/// Bytes that are not what the protocol says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    /// It ends too early.
    #[error("it ends too early")]
    Short,
    /// It goes on behind its end.
    #[error("it goes on behind its end")]
    Long,
    /// A negative length other than that of null.
    #[error("a length is negative")]
    Length,
    /// A text that is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// A number that is none of those that are known.
    #[error("a number is out of range")]
    Number,
}

/// Reads values off the front of some bytes.
#[derive(Debug, Clone)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fails unless everything was read.
    pub(super) fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Long) }
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn int(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn bool(&mut self) -> Result<bool, Malformed> {
        Ok(self.byte()? != 0)
    }

    /// `None` for null.
    pub(super) fn buffer(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.int()? {
            -1 => Ok(None),
            len => self.take(usize::try_from(len).map_err(|_| Malformed::Length)?).map(Some),
        }
    }

    /// Null reads as the empty text, which is no path.
    pub(super) fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.buffer()?.unwrap_or_default()).map_err(|_| Malformed::Text)
    }

    /// A list; null reads as an empty one. Nothing is reserved for a length that is only claimed.
    pub(super) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        match self.int()? {
            -1 => Ok(Vec::new()),
            len => (0..u32::try_from(len).map_err(|_| Malformed::Length)?).map(|_| item(self)).collect(),
        }
    }

    /// What `read` passes over.
    pub(super) fn span(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<(), Malformed>,
    ) -> Result<&'a [u8], Malformed> {
        let start = self.0;
        read(self)?;
        Ok(&start[..start.len() - self.0.len()])
    }
}

/// Builds bytes value by value.
#[derive(Debug, Default)]
pub(super) struct Writer(BytesMut);

impl Writer {
    /// A frame: its length is filled in by [`finish`](Self::finish).
    pub(super) fn frame() -> Self {
        let mut frame = Self::default();
        frame.int(0);
        frame
    }

    /// The frame with its length, which does not count itself.
    pub(super) fn finish(mut self) -> Bytes {
        let len = self.0.len() - size_of::<i32>();
        self.0[..size_of::<i32>()].copy_from_slice(&length(len).to_be_bytes());
        self.0.freeze()
    }

    /// The bytes without a length before them.
    pub(super) fn into_bytes(self) -> BytesMut {
        self.0
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn int(&mut self, value: i32) {
        self.0.put_i32(value);
    }

    pub(super) fn long(&mut self, value: i64) {
        self.0.put_i64(value);
    }

    pub(super) fn byte(&mut self, value: u8) {
        self.0.put_u8(value);
    }

    pub(super) fn bool(&mut self, value: bool) {
        self.byte(value.into());
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.put_slice(bytes);
    }

    pub(super) fn buffer(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            None => self.int(-1),
            Some(bytes) => {
                self.int(length(bytes.len()));
                self.raw(bytes);
            }
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        self.buffer(Some(text.as_bytes()));
    }

    pub(super) fn texts<'a>(&mut self, texts: impl ExactSizeIterator<Item = &'a str>) {
        self.int(length(texts.len()));
        texts.for_each(|text| self.text(text));
    }
}

/// A length on the wire. The limits of requests and of the tree keep every one far below 2 GiB.
pub(super) fn length(len: usize) -> i32 {
    i32::try_from(len).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_null_is_not_empty() {
        let mut w = Writer::frame();
        w.buffer(None);
        w.buffer(Some(b""));
        w.text("täg");
        w.long(-2);
        w.texts(["a", "b"].into_iter());
        let bytes = w.finish();
        let mut r = Reader::new(&bytes);
        assert_eq!(usize::try_from(r.int().unwrap()).unwrap(), bytes.len() - 4);
        assert_eq!((r.buffer(), r.buffer()), (Ok(None), Ok(Some(&b""[..]))));
        assert_eq!((r.text(), r.long()), (Ok("täg"), Ok(-2)));
        assert_eq!(r.list(Reader::text), Ok(vec!["a", "b"]));
        assert_eq!(r.end(), Ok(()));
    }

    #[test]
    fn lengths_that_lie_are_refused_before_memory_is_given() {
        for (bytes, expected) in [
            (&b"\0\0\0"[..], Malformed::Short),
            (b"\0\0\0\x02a", Malformed::Short),
            (b"\xff\xff\xff\xfe", Malformed::Length),
            (b"\0\0\0\x01\xff", Malformed::Text),
        ] {
            assert_eq!(Reader::new(bytes).text(), Err(expected), "{bytes:?}");
        }
        assert_eq!(Reader::new(b"\x7f\xff\xff\xff\0\0\0\0").list(Reader::text), Err(Malformed::Short));
        assert_eq!(Reader::new(b"x").end(), Err(Malformed::Long));
    }
}
