//! A command line taken apart (01 §2.2, §2.4).

use std::str::FromStr;

use bytes::Bytes;
use bytestring::ByteString;

use super::DecodeError;
use super::error::excerpt;

/// Cursor over the tokens of one line. Text tokens are slices of the line, not copies.
#[derive(Debug)]
pub(super) struct Tokens {
    line: Bytes,
    count: usize,
    taken: usize,
}

impl Tokens {
    /// Takes a line without its CRLF. Empty tokens at the end are dropped, those in the middle count.
    pub(super) fn new(mut line: Bytes) -> Self {
        let end = line.iter().rposition(|&b| b != b' ').map_or(0, |last| last + 1);
        line.truncate(end);
        let count = if line.is_empty() { 0 } else { 1 + line.iter().filter(|&&b| b == b' ').count() };
        Self { line, count, taken: 0 }
    }

    /// Tokens of the whole line, taken ones included.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The next token as it stands in the line; the empty token where the line has no more.
    pub(super) fn bytes(&mut self) -> Bytes {
        let rest = &self.line;
        let end = rest.iter().position(|&b| b == b' ').unwrap_or(rest.len());
        let token = self.line.split_to(end);
        if !self.line.is_empty() {
            let _space = self.line.split_to(1);
        }
        self.taken += 1;
        token
    }

    /// The next token as text, malformed UTF-8 replaced.
    pub(super) fn text(&mut self) -> ByteString {
        text(self.bytes())
    }

    /// The next token as a decimal number of any of the protocol's types.
    pub(super) fn number<T: FromStr>(&mut self, field: &'static str) -> Result<T, DecodeError> {
        number(&self.bytes(), field)
    }

    /// What was not taken, as it stands in the line.
    pub(super) fn rest(self) -> ByteString {
        text(self.line)
    }

    /// Whether `count` is one that `command` can have.
    pub(super) fn expect(&self, command: &'static str, allowed: bool) -> Result<(), DecodeError> {
        if allowed { Ok(()) } else { Err(DecodeError::TokenCount { command, count: self.count }) }
    }
}

/// Text of a token, malformed UTF-8 replaced by U+FFFD.
pub(super) fn text(token: Bytes) -> ByteString {
    ByteString::try_from(token.clone()).unwrap_or_else(|_| String::from_utf8_lossy(&token).into_owned().into())
}

/// A decimal number with an optional sign and leading zeros.
pub(super) fn number<T: FromStr>(token: &[u8], field: &'static str) -> Result<T, DecodeError> {
    std::str::from_utf8(token)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| DecodeError::Number { field, text: excerpt(token) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &'static str) -> Vec<String> {
        let mut tokens = Tokens::new(Bytes::from_static(line.as_bytes()));
        (0..tokens.count()).map(|_| tokens.text().to_string()).collect()
    }

    #[test]
    fn lines_are_split_at_every_single_space() {
        assert_eq!(split("get t g 0"), ["get", "t", "g", "0"]);
        assert_eq!(split("get  t"), ["get", "", "t"]);
        assert_eq!(split("get t   "), ["get", "t"]);
        assert_eq!(split(" get"), ["", "get"]);
        assert_eq!(split(""), [""; 0]);
        assert_eq!(split("   "), [""; 0]);
    }

    #[test]
    fn numbers_have_the_grammar_of_the_reference() {
        assert_eq!(number::<i32>(b"-2147483648", "n"), Ok(i32::MIN));
        assert_eq!(number::<i32>(b"+007", "n"), Ok(7));
        assert_eq!(number::<i64>(b"9223372036854775807", "n"), Ok(i64::MAX));
        for bad in [&b""[..], b"-", b"1 ", b"2147483648", b"x", b"0x10", b"1.0", b"\xff"] {
            assert!(number::<i32>(bad, "n").is_err(), "{bad:?}");
        }
    }

    #[test]
    fn malformed_text_is_replaced() {
        assert_eq!(&*text(Bytes::from_static(b"a\xfez")), "a\u{fffd}z");
    }
}
