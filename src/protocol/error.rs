//! Why input cannot be decoded.

use super::InvalidTransactionKey;

/// Input that is no command. The connection it came from is closed, nothing is answered to it (01 §2.6).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The line has no first word.
    #[error("blank command line")]
    Blank,
    /// The first word is none of the protocol's.
    #[error("unknown command '{0}'")]
    UnknownCommand(String),
    /// Fewer or more tokens than the command can have.
    #[error("'{command}' with {count} tokens")]
    TokenCount {
        /// The command word.
        command: &'static str,
        /// Tokens in the line, the command word included.
        count: usize,
    },
    /// A token that should be a number is none, or is out of range.
    #[error("{field} '{text}' is not a number in range")]
    Number {
        /// What the number would have meant.
        field: &'static str,
        /// The token.
        text: String,
    },
    /// A transaction command of unknown type.
    #[error("unknown transaction type '{0}'")]
    TransactionType(String),
    /// A transaction key of unknown form.
    #[error(transparent)]
    TransactionKey(#[from] InvalidTransactionKey),
    /// No end of line within the limit.
    #[error("a command line of more than {limit} bytes (limit maxCommandLineBytes)")]
    LineTooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// A body beyond the limit was announced.
    #[error("a body of {length} bytes was announced, at most {limit} are accepted (limit maxBodyBytes)")]
    BodyTooLong {
        /// What the line announces.
        length: usize,
        /// The limit, in bytes.
        limit: usize,
    },
}

/// Longest part of the input that an error repeats.
const EXCERPT_CHARS: usize = 60;

/// A printable beginning of a piece of input, for logs: control characters escaped, length bounded.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    let head = bytes.get(..EXCERPT_CHARS * 4).unwrap_or(bytes);
    let text = String::from_utf8_lossy(head);
    let mut out: String = text.chars().take(EXCERPT_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(EXCERPT_CHARS).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_bounded_and_printable() {
        assert_eq!(excerpt(b"get\x1b[31m\0"), "get\\u{1b}[31m\\0");
        assert!(excerpt(&[b'x'; 1 << 20]).chars().count() <= EXCERPT_CHARS + 1);
        assert!(excerpt("é".repeat(1000).as_bytes()).chars().count() <= EXCERPT_CHARS + 1);
    }
}
