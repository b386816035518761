//! Requests of a client, and of a master to its synchronous slave (01 §3).

use std::fmt::Display;
use std::fmt::Write as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;

use super::tokens::Tokens;
use super::{DecodeError, Opaque, Transaction, TransactionKey};
use crate::id::{MessageId, Offset, PartitionIndex};

/// What a peer asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Read from a partition.
    Get(Get),
    /// Append to a partition.
    Put(Put),
    /// Append what the master has already given an id.
    Sync(Sync),
    /// Ask for the nearest offset that is safe to read from.
    Offset(OffsetQuery),
    /// Ask for statistics.
    Stats(Stats),
    /// Ask for the version; the heartbeat of clients.
    Version(Opaque),
    /// A step of a transaction.
    Transaction(Transaction),
    /// Close the connection; never answered.
    Quit,
}

/// `get topic group partition offset maxSize opaque`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Get {
    /// Topic, as sent.
    pub topic: ByteString,
    /// Consumer group; for statistics and filters only.
    pub group: ByteString,
    /// Partition.
    pub partition: PartitionIndex,
    /// First byte wanted.
    pub offset: Offset,
    /// Most bytes wanted, as sent; the broker's own limit applies too.
    pub max_size: i32,
    /// Correlation id.
    pub opaque: Opaque,
    /// Tokens behind the opaque, which the reference ignores; the place of extensions, see [`wait`](Self::wait).
    pub surplus: ByteString,
}

/// Longest time that a get may ask to wait.
pub const MAX_WAIT: Duration = Duration::from_secs(30);

/// Begins the surplus token with the milliseconds that a get may wait.
const WAIT_PREFIX: &str = "wait=";

/// `put topic partition value-length flag [checksum] [transactionKey] opaque` and a body
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Put {
    /// Topic, as sent.
    pub topic: ByteString,
    /// Partition, or [`PartitionIndex::RANDOM`].
    pub partition: PartitionIndex,
    /// Stored as sent.
    pub flag: i32,
    /// Checksum of the body; absent from clients before 1.4.4, -1 where a client has none.
    pub checksum: Option<i32>,
    /// Present inside a transaction.
    pub transaction: Option<TransactionKey>,
    /// Correlation id.
    pub opaque: Opaque,
    /// Attribute block and payload.
    pub body: Bytes,
}

/// `sync topic partition value-length flag msgId [checksum] opaque` and a body
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sync {
    /// Topic, as sent.
    pub topic: ByteString,
    /// Partition.
    pub partition: PartitionIndex,
    /// Stored as sent.
    pub flag: i32,
    /// The id that the master gave.
    pub id: MessageId,
    /// Checksum of the body; absent from masters before 1.4.4.
    pub checksum: Option<i32>,
    /// Correlation id.
    pub opaque: Opaque,
    /// Attribute block and payload.
    pub body: Bytes,
}

/// `offset topic group partition offset opaque`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OffsetQuery {
    /// Topic, as sent.
    pub topic: ByteString,
    /// Consumer group; for statistics only.
    pub group: ByteString,
    /// Partition.
    pub partition: PartitionIndex,
    /// The offset in question.
    pub offset: Offset,
    /// Correlation id.
    pub opaque: Opaque,
}

/// `stats [item] [opaque]`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stats {
    /// What statistics; empty for the broker's own.
    pub item: ByteString,
    /// Correlation id.
    pub opaque: Opaque,
}

/// A request whose line is complete and whose body may not be.
#[derive(Debug)]
pub(super) enum Head {
    Complete(Request),
    Body { length: usize, request: Request },
}

impl Head {
    /// Decodes a line whose first word was taken and is a request's.
    pub(super) fn decode(word: &[u8], mut tokens: Tokens) -> Option<Result<Self, DecodeError>> {
        let complete = |request: Result<Request, DecodeError>| Some(request.map(Self::Complete));
        match word {
            b"put" => Some(Put::decode(tokens)),
            b"get" => complete(Get::decode(tokens).map(Request::Get)),
            b"offset" => complete(OffsetQuery::decode(tokens).map(Request::Offset)),
            b"version" => complete(opaque_or_absent(&mut tokens, 2).map(Request::Version)),
            b"stats" => complete(Stats::decode(tokens).map(Request::Stats)),
            b"transaction" => complete(Transaction::decode(tokens).map(Request::Transaction)),
            b"sync" => Some(Sync::decode(tokens)),
            b"quit" => complete(Ok(Request::Quit)),
            _ => None,
        }
    }
}

impl Request {
    /// The opaque under which the request is answered.
    pub fn opaque(&self) -> Opaque {
        match self {
            Self::Get(get) => get.opaque,
            Self::Put(put) => put.opaque,
            Self::Sync(sync) => sync.opaque,
            Self::Offset(query) => query.opaque,
            Self::Stats(stats) => stats.opaque,
            Self::Version(opaque) => *opaque,
            Self::Transaction(transaction) => transaction.opaque,
            Self::Quit => Opaque::ABSENT,
        }
    }

    /// Whether every text of the request fits its place in the line: there is no escaping in it (01 §2.8).
    ///
    /// # Errors
    /// A text with a blank or an end of line, or an empty one where there must be one.
    pub fn check(&self) -> Result<(), Unsendable> {
        match self {
            Self::Get(Get { topic, group, .. }) | Self::Offset(OffsetQuery { topic, group, .. }) => {
                check_token("topic", topic)?;
                check_token("group", group)
            }
            Self::Put(Put { topic, .. }) | Self::Sync(Sync { topic, .. }) => check_token("topic", topic),
            Self::Stats(stats) if stats.item.is_empty() => Ok(()),
            Self::Stats(stats) => check_token("item", &stats.item),
            Self::Transaction(transaction) => transaction.check(),
            Self::Version(_) | Self::Quit => Ok(()),
        }
    }

    /// Appends the frame to a buffer, as the reference's current client would write it.
    pub fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Get(get) => get.encode(out),
            Self::Put(put) => put.encode(out),
            Self::Sync(sync) => sync.encode(out),
            Self::Offset(query) => query.encode(out),
            Self::Stats(stats) => {
                put_words(out, "stats", &stats.item);
                put_opaque(out, stats.opaque);
            }
            Self::Version(opaque) => {
                out.extend_from_slice(b"version ");
                put_opaque(out, *opaque);
            }
            Self::Transaction(transaction) => transaction.encode(out),
            Self::Quit => out.extend_from_slice(b"quit\r\n"),
        }
    }

    /// Hands over the body of a request that was announced by [`Head::Body`].
    pub(super) fn with_body(mut self, body: Bytes) -> Self {
        match &mut self {
            Self::Put(put) => put.body = body,
            Self::Sync(sync) => sync.body = body,
            _ => {}
        }
        self
    }
}

impl Get {
    /// How long the broker may hold the answer back while there is nothing at the offset: `wait=<ms>` behind the opaque,
    /// [`MAX_WAIT`] at most. Zero without such a token or with a malformed one.
    pub fn wait(&self) -> Duration {
        let asked = self.surplus.split(' ').find_map(|token| token.strip_prefix(WAIT_PREFIX)?.parse().ok());
        asked.map_or(Duration::ZERO, Duration::from_millis).min(MAX_WAIT)
    }

    /// The surplus of a get that may wait so long, in whole milliseconds.
    pub fn surplus_for_wait(wait: Duration) -> ByteString {
        format!("{WAIT_PREFIX}{}", wait.min(MAX_WAIT).as_millis()).into()
    }

    fn decode(mut tokens: Tokens) -> Result<Self, DecodeError> {
        tokens.expect("get", tokens.count() >= 7)?;
        Ok(Self {
            topic: tokens.text(),
            group: tokens.text(),
            partition: tokens.number("partition")?,
            offset: tokens.number("offset")?,
            max_size: tokens.number("maxSize")?,
            opaque: Opaque::new(tokens.number("opaque")?),
            surplus: tokens.rest(),
        })
    }

    fn encode(&self, out: &mut BytesMut) {
        put_words(out, "get", &self.topic);
        put_token(out, &self.group);
        put_number(out, self.partition);
        put_number(out, self.offset);
        put_number(out, self.max_size);
        if self.surplus.is_empty() {
            put_opaque(out, self.opaque);
        } else {
            put_number(out, self.opaque);
            out.extend_from_slice(self.surplus.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

impl Put {
    fn decode(mut tokens: Tokens) -> Result<Head, DecodeError> {
        let count = tokens.count();
        tokens.expect("put", (6..=8).contains(&count))?;
        let topic = tokens.text();
        let partition = tokens.number("partition")?;
        let length = body_length(&mut tokens)?;
        let flag = tokens.number("flag")?;
        let (checksum, transaction) = match count {
            6 => (None, None),
            7 => {
                let token = tokens.text();
                if token.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
                    (Some(super::tokens::number(token.as_bytes(), "checksum")?), None)
                } else {
                    (None, Some(TransactionKey::new(token)?))
                }
            }
            _ => (Some(tokens.number("checksum")?), Some(TransactionKey::new(tokens.text())?)),
        };
        let opaque = Opaque::new(tokens.number("opaque")?);
        let put = Self { topic, partition, flag, checksum, transaction, opaque, body: Bytes::new() };
        Ok(Head::Body { length, request: Request::Put(put) })
    }

    fn encode(&self, out: &mut BytesMut) {
        put_words(out, "put", &self.topic);
        put_number(out, self.partition);
        put_number(out, self.body.len());
        put_number(out, self.flag);
        if let Some(checksum) = self.checksum {
            put_number(out, checksum);
        }
        if let Some(key) = &self.transaction {
            put_token(out, key.as_str());
        }
        put_opaque(out, self.opaque);
        out.extend_from_slice(&self.body);
    }
}

impl Sync {
    fn decode(mut tokens: Tokens) -> Result<Head, DecodeError> {
        let count = tokens.count();
        tokens.expect("sync", (7..=8).contains(&count))?;
        let topic = tokens.text();
        let partition = tokens.number("partition")?;
        let length = body_length(&mut tokens)?;
        let flag = tokens.number("flag")?;
        let id = tokens.number("message id")?;
        let checksum = if count == 8 { Some(tokens.number("checksum")?) } else { None };
        let opaque = Opaque::new(tokens.number("opaque")?);
        let sync = Self { topic, partition, flag, id, checksum, opaque, body: Bytes::new() };
        Ok(Head::Body { length, request: Request::Sync(sync) })
    }

    fn encode(&self, out: &mut BytesMut) {
        put_words(out, "sync", &self.topic);
        put_number(out, self.partition);
        put_number(out, self.body.len());
        put_number(out, self.flag);
        put_number(out, self.id);
        if let Some(checksum) = self.checksum {
            put_number(out, checksum);
        }
        put_opaque(out, self.opaque);
        out.extend_from_slice(&self.body);
    }
}

impl OffsetQuery {
    fn decode(mut tokens: Tokens) -> Result<Self, DecodeError> {
        tokens.expect("offset", tokens.count() >= 6)?;
        Ok(Self {
            topic: tokens.text(),
            group: tokens.text(),
            partition: tokens.number("partition")?,
            offset: tokens.number("offset")?,
            opaque: Opaque::new(tokens.number("opaque")?),
        })
    }

    fn encode(&self, out: &mut BytesMut) {
        put_words(out, "offset", &self.topic);
        put_token(out, &self.group);
        put_number(out, self.partition);
        put_number(out, self.offset);
        put_opaque(out, self.opaque);
    }
}

impl Stats {
    fn decode(mut tokens: Tokens) -> Result<Self, DecodeError> {
        let item = tokens.text();
        Ok(Self { item, opaque: opaque_or_absent(&mut tokens, 3)? })
    }
}

/// A text that has no place in a command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {field} {text:?} cannot be sent: it must be neither empty nor contain a blank or an end of line")]
pub struct Unsendable {
    field: &'static str,
    text: String,
}

pub(crate) fn check_token(field: &'static str, text: &str) -> Result<(), Unsendable> {
    let breaks_the_line = text.is_empty() || text.contains(' ') || text.contains("\r\n") || text.ends_with('\r');
    if breaks_the_line { Err(Unsendable { field, text: text.to_owned() }) } else { Ok(()) }
}

/// The opaque where the line has at least `count` tokens, else the one that stands for its absence.
fn opaque_or_absent(tokens: &mut Tokens, count: usize) -> Result<Opaque, DecodeError> {
    if tokens.count() < count { Ok(Opaque::ABSENT) } else { tokens.number("opaque").map(Opaque::new) }
}

/// Length of a body: a 32-bit number that is not negative.
pub(super) fn body_length(tokens: &mut Tokens) -> Result<usize, DecodeError> {
    let length: i32 = tokens.number("length")?;
    usize::try_from(length).map_err(|_| DecodeError::Number { field: "length", text: length.to_string() })
}

fn put_words(out: &mut BytesMut, command: &str, first: &str) {
    put_token(out, command);
    put_token(out, first);
}

fn put_token(out: &mut BytesMut, token: &str) {
    out.extend_from_slice(token.as_bytes());
    out.extend_from_slice(b" ");
}

/// Appends a number and a space.
pub(super) fn put_number(out: &mut BytesMut, number: impl Display) {
    // Writing to a growing buffer cannot fail.
    let _ = write!(out, "{number} ");
}

/// Appends the last token of a line and the end of the line.
pub(super) fn put_opaque(out: &mut BytesMut, opaque: Opaque) {
    let _ = write!(out, "{opaque}\r\n");
}
