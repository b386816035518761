//! Transaction commands and the keys they carry (01 §3.8, §9.1).

use std::fmt;

use bytes::BytesMut;
use bytestring::ByteString;

use super::error::excerpt;
use super::request::{Unsendable, check_token};
use super::tokens::{Tokens, number};
use super::{DecodeError, Opaque};

/// `transaction key session type [timeout] [qualifier] opaque`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Which transaction.
    pub key: TransactionKey,
    /// The session that the client names; brokers go by the key.
    pub session: ByteString,
    /// What to do.
    pub kind: TransactionType,
    /// Time-out in seconds; `None` and 0 mean none.
    pub timeout_s: Option<i32>,
    /// The producer's unique qualifier.
    pub qualifier: Option<ByteString>,
    /// Correlation id.
    pub opaque: Opaque,
}

/// What a transaction command asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "the names are those of the XA specification")]
pub enum TransactionType {
    Begin,
    Prepare,
    CommitOnePhase,
    CommitTwoPhase,
    Rollback,
    Recover,
    Forget,
    End,
}

impl TransactionType {
    /// Every type.
    pub const ALL: [Self; 8] = [
        Self::Begin,
        Self::Prepare,
        Self::CommitOnePhase,
        Self::CommitTwoPhase,
        Self::Rollback,
        Self::Recover,
        Self::Forget,
        Self::End,
    ];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Begin => "BEGIN",
            Self::Prepare => "PREPARE",
            Self::CommitOnePhase => "COMMIT_ONE_PHASE",
            Self::CommitTwoPhase => "COMMIT_TWO_PHASE",
            Self::Rollback => "ROLLBACK",
            Self::Recover => "RECOVER",
            Self::Forget => "FORGET",
            Self::End => "END",
        }
    }
}

/// A transaction key in its text form, of a shape that the protocol knows:
/// `null`, `TX:<session>:<number>` or `XID:<format>:<global id>:<branch>:<qualifier>`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TransactionKey(ByteString);

/// A text that is no transaction key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no transaction key")]
pub struct InvalidTransactionKey(String);

impl TransactionKey {
    /// Checks the shape of a key.
    ///
    /// A session id that itself contains `:` and a number beyond 32 bits are accepted, unlike in the reference (01 §9.1).
    pub fn new(text: ByteString) -> Result<Self, InvalidTransactionKey> {
        let valid = match text.split_once(':') {
            None => *text == *"null",
            Some(("TX", rest)) => rest.rsplit_once(':').is_some_and(|(_, n)| n.parse::<i64>().is_ok()),
            Some(("XID", rest)) => is_xid(rest),
            Some(_) => false,
        };
        if valid { Ok(Self(text)) } else { Err(InvalidTransactionKey(excerpt(text.as_bytes()))) }
    }

    /// The text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// `<format>:<global id hex>:<branch hex>:<qualifier>`; the last three may be empty.
fn is_xid(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    let &[format, global, branch, _qualifier] = parts.as_slice() else { return false };
    let is_hex = |part: &str| part.bytes().all(|b| b.is_ascii_hexdigit());
    format.parse::<i32>().is_ok() && is_hex(global) && is_hex(branch)
}

impl fmt::Display for TransactionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Transaction {
    pub(super) fn decode(mut tokens: Tokens) -> Result<Self, DecodeError> {
        tokens.expect("transaction", (5..=7).contains(&tokens.count()))?;
        let key = TransactionKey::new(tokens.text())?;
        let session = tokens.text();
        let word = tokens.text();
        let kind = TransactionType::ALL
            .into_iter()
            .find(|kind| kind.as_str() == &*word)
            .ok_or_else(|| DecodeError::TransactionType(excerpt(word.as_bytes())))?;
        let (timeout_s, qualifier) = match tokens.count() {
            5 => (None, None),
            6 => {
                // Digits alone are a time-out, even where a qualifier was meant; it is the grammar (01 §3.8).
                let token = tokens.text();
                if token.bytes().all(|b| b.is_ascii_digit()) {
                    (Some(number(token.as_bytes(), "timeout")?), None)
                } else {
                    (None, Some(token))
                }
            }
            _ => (Some(tokens.number("timeout")?), Some(tokens.text())),
        };
        let opaque = Opaque::new(tokens.number("opaque")?);
        Ok(Self { key, session, kind, timeout_s, qualifier, opaque })
    }

    pub(super) fn check(&self) -> Result<(), Unsendable> {
        check_token("transaction key", self.key.as_str())?;
        check_token("session", &self.session)?;
        self.qualifier.as_deref().map_or(Ok(()), |qualifier| check_token("qualifier", qualifier))
    }

    pub(super) fn encode(&self, out: &mut BytesMut) {
        for word in ["transaction", self.key.as_str(), &self.session, self.kind.as_str()] {
            out.extend_from_slice(word.as_bytes());
            out.extend_from_slice(b" ");
        }
        if let Some(timeout_s) = self.timeout_s {
            super::request::put_number(out, timeout_s);
        }
        if let Some(qualifier) = &self.qualifier {
            out.extend_from_slice(qualifier.as_bytes());
            out.extend_from_slice(b" ");
        }
        super::request::put_opaque(out, self.opaque);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_three_shapes_are_taken() {
        for key in [
            "null",
            "TX:172.17.0.1-1796060830582-1:1",
            "TX::0",
            "TX:[::1]-1-1:3000000000",
            "XID:100:ff0007:01ab:uq",
            "XID:-1:::",
            "XID:1:FF0:a:",
        ] {
            assert_eq!(TransactionKey::new(key.into()).unwrap().as_str(), key);
        }
        for key in ["", "NULL", "TX", "TX:1", "TX:s:x", "XID:1:2:3", "XID:x:::", "XID:1:zz::", "XID:1:a:b:c:d", "t:s:1"]
        {
            assert!(TransactionKey::new(key.into()).is_err(), "{key}");
        }
    }
}
