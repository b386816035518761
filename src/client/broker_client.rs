//! What one can ask a single broker, in terms of messages and offsets.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use tokio::sync::OnceCell;

use super::{ClientError, Connection, ConnectionOptions, PendingAnswer};
use crate::id::{MessageId, Offset, PartitionIndex};
use crate::message;
use crate::protocol::{Get, MAX_WAIT, OffsetQuery, Put, Request, Response, Stats, Status};

/// Most bytes of a broker's text that an error repeats.
const TOLD_BYTES: usize = 1024;

/// Requests to one broker; shared by reference, each call independent of the others.
#[derive(Debug)]
pub struct BrokerClient {
    connection: Connection,
    /// What the broker can, once it was asked.
    abilities: OnceCell<Abilities>,
}

/// What a broker tells of itself in the text of its version (D5).
#[derive(Debug, Clone, Copy)]
struct Abilities {
    holds_gets: bool,
    keeps_order: bool,
}

/// Where a message went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// The id that the broker gave it.
    pub id: MessageId,
    /// The partition, also where the broker chose it.
    pub partition: PartitionIndex,
    /// Its first byte; -1 inside a transaction.
    pub offset: Offset,
}

/// The answer to a get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// Bytes of the log from the offset on, cut anywhere.
    Data(Bytes),
    /// Continue at this offset instead.
    Moved(Offset),
    /// Nothing there, or not yet.
    Nothing,
}

/// First and next offset of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetRange {
    /// Offset of the oldest message.
    pub min: Offset,
    /// Offset behind the last visible message.
    pub max: Offset,
}

/// The partitions of a topic that hold or held messages.
pub type TopicOffsets = Vec<(PartitionIndex, OffsetRange)>;

impl BrokerClient {
    /// Connects to `host:port`.
    ///
    /// # Errors
    /// As [`Connection::connect`].
    pub async fn connect(address: &str, options: ConnectionOptions) -> Result<Self, ClientError> {
        Ok(Self { connection: Connection::connect(address, options).await?, abilities: OnceCell::new() })
    }

    /// `host:port` of the broker.
    pub fn address(&self) -> &str {
        self.connection.address()
    }

    /// Whether the connection has ended.
    pub fn is_lost(&self) -> bool {
        self.connection.is_lost()
    }

    /// Waits for the end of the connection without keeping it, and tells the reason; `None` if it was dropped.
    pub(super) fn ended(&self) -> impl Future<Output = Option<String>> + Send + 'static {
        self.connection.ended()
    }

    /// Puts one message and waits for the answer.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the broker did not take it; otherwise as [`Connection::request`].
    pub async fn put(
        &self,
        topic: &ByteString,
        partition: PartitionIndex,
        attribute: Option<&str>,
        payload: &[u8],
    ) -> Result<Sent, ClientError> {
        self.start_put(topic, partition, attribute, payload).await?.wait().await
    }

    /// Queues one message to be sent and returns what waits for the answer. Messages for one partition are stored in the
    /// order of the calls by a metaq broker; a broker on the JVM promises an order only if each answer is awaited before
    /// the next call (see [`keeps_order`](Self::keeps_order)).
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub async fn start_put(
        &self,
        topic: &ByteString,
        partition: PartitionIndex,
        attribute: Option<&str>,
        payload: &[u8],
    ) -> Result<PendingPut, ClientError> {
        let mut body = BytesMut::with_capacity(message::encoded_body_len(attribute, payload));
        let flag = message::encode_body(attribute, payload, &mut body);
        self.start_put_of(topic, partition, flag, body.freeze(), self.connection.request_timeout()).await
    }

    /// The same with an encoded body and a time-out of its own.
    pub(super) async fn start_put_of(
        &self,
        topic: &ByteString,
        partition: PartitionIndex,
        flag: i32,
        body: Bytes,
        timeout: Duration,
    ) -> Result<PendingPut, ClientError> {
        let put = Put {
            topic: topic.clone(),
            partition,
            flag,
            checksum: Some(message::checksum(&body)),
            transaction: None,
            opaque: self.connection.next_opaque(),
            body,
        };
        let answer = self.connection.send_within(&Request::Put(put), timeout).await?;
        Ok(PendingPut { answer, address: self.address().to_owned() })
    }

    /// Whether the broker stores pipelined messages for one partition in the order in which they were sent; it is asked
    /// once. A broker on the JVM does not.
    ///
    /// # Errors
    /// As [`Connection::request`].
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn keeps_order(&self) -> Result<bool, ClientError> {
        Ok(self.abilities().await?.keeps_order)
    }

    /// Whether the broker can hold a get back until there is something to answer; it is asked once. A broker on the JVM
    /// cannot.
    ///
    /// # Errors
    /// As [`Connection::request`].
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn holds_gets(&self) -> Result<bool, ClientError> {
        Ok(self.abilities().await?.holds_gets)
    }

    async fn abilities(&self) -> Result<Abilities, ClientError> {
        let ask = || async {
            let version = self.version().await?;
            let has = |wanted: fn(&str) -> bool| version.split(' ').any(wanted);
            let (holds_gets, keeps_order) = (has(|word| word == "wait"), has(|word| word.starts_with("metaq/")));
            Ok(Abilities { holds_gets, keeps_order })
        };
        self.abilities.get_or_try_init(ask).await.copied()
    }

    /// Gets at most `max_size` bytes from an offset on.
    ///
    /// # Errors
    /// [`ClientError::Refused`] for any status but 200, 301 and 404; otherwise as [`Connection::request`].
    pub async fn get(
        &self,
        topic: &ByteString,
        group: &ByteString,
        partition: PartitionIndex,
        offset: Offset,
        max_size: i32,
    ) -> Result<Fetched, ClientError> {
        self.get_within(topic, group, partition, offset, max_size, Duration::ZERO).await
    }

    /// The same, but lets the broker hold the answer back while the partition ends exactly at the offset: until a message
    /// is there, for `wait` at most, whole milliseconds up to [`MAX_WAIT`]. Other requests of the connection
    /// go on meanwhile.
    ///
    /// [`Fetched::Nothing`] comes at once from a broker that does not [hold gets back](Self::holds_gets), that holds too
    /// many of this connection already, or whose partition does not end at the offset: pause before asking again if it
    /// came early.
    ///
    /// # Errors
    /// As [`get`](Self::get), the time-out beginning after the wait.
    pub async fn get_waiting(
        &self,
        topic: &ByteString,
        group: &ByteString,
        partition: PartitionIndex,
        offset: Offset,
        max_size: i32,
        wait: Duration,
    ) -> Result<Fetched, ClientError> {
        let wait = if !wait.is_zero() && self.holds_gets().await? { wait.min(MAX_WAIT) } else { Duration::ZERO };
        self.get_within(topic, group, partition, offset, max_size, wait).await
    }

    async fn get_within(
        &self,
        topic: &ByteString,
        group: &ByteString,
        partition: PartitionIndex,
        offset: Offset,
        max_size: i32,
        wait: Duration,
    ) -> Result<Fetched, ClientError> {
        let surplus = if wait.is_zero() { ByteString::new() } else { Get::surplus_for_wait(wait) };
        let get = Get {
            topic: topic.clone(),
            group: group.clone(),
            partition,
            offset,
            max_size,
            opaque: self.connection.next_opaque(),
            surplus,
        };
        match self.connection.send(&Request::Get(get)).await?.held_for(wait).wait().await? {
            Response::Value(value) => Ok(Fetched::Data(value.data)),
            Response::Result(result) if result.status == Status::NOT_FOUND => Ok(Fetched::Nothing),
            Response::Result(result) if result.status == Status::MOVED => {
                self.offset_in(&result.body).map(Fetched::Moved)
            }
            Response::Result(result) if result.status == Status::SUCCESS => {
                Err(unexpected(self.address(), format!("'{}' without data to a get", told(&result.body))))
            }
            Response::Result(result) => Err(refused(result.status, &result.body)),
        }
    }

    /// Asks for the nearest offset that is sure to be the start of a record: the start of the segment (01 §8.4).
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the partition does not exist; otherwise as [`Connection::request`].
    pub async fn nearest_offset(
        &self,
        topic: &ByteString,
        group: &ByteString,
        partition: PartitionIndex,
        offset: Offset,
    ) -> Result<Offset, ClientError> {
        let opaque = self.connection.next_opaque();
        let query = OffsetQuery { topic: topic.clone(), group: group.clone(), partition, offset, opaque };
        let text = self.success(&Request::Offset(query)).await?;
        self.offset_in(text.as_bytes())
    }

    /// Asks for a statistics item; the empty one is the broker's own.
    ///
    /// # Errors
    /// As [`Connection::request`].
    pub async fn stats(&self, item: &str) -> Result<String, ClientError> {
        let opaque = self.connection.next_opaque();
        self.success(&Request::Stats(Stats { item: item.into(), opaque })).await
    }

    /// The broker's version text.
    ///
    /// # Errors
    /// As [`Connection::request`].
    pub async fn version(&self) -> Result<String, ClientError> {
        self.success(&Request::Version(self.connection.next_opaque())).await
    }

    /// The partitions of a topic that hold or held messages, in ascending order.
    ///
    /// # Errors
    /// As [`Connection::request`].
    pub async fn topic_offsets(&self, topic: &str) -> Result<TopicOffsets, ClientError> {
        let text = self.stats("offsets").await?;
        let mut partitions: TopicOffsets = text
            .lines()
            .filter_map(offsets_line)
            .filter(|(t, ..)| *t == topic)
            .map(|(_, p, range)| (p, range))
            .collect();
        partitions.sort_unstable_by_key(|(partition, _)| *partition);
        Ok(partitions)
    }

    async fn success(&self, request: &Request) -> Result<String, ClientError> {
        success_text(self.connection.request(request).await?, self.address())
    }

    fn offset_in(&self, body: &[u8]) -> Result<Offset, ClientError> {
        let text = told(body);
        let offset = text.trim().parse().ok().filter(|&offset| offset >= Offset::ZERO);
        offset.ok_or_else(|| unexpected(self.address(), format!("'{text}' as an offset")))
    }
}

/// A message under way.
#[derive(Debug)]
pub struct PendingPut {
    answer: PendingAnswer,
    address: String,
}

impl PendingPut {
    /// Waits for the answer.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the broker did not take the message; otherwise as [`PendingAnswer::wait`].
    pub async fn wait(mut self) -> Result<Sent, ClientError> {
        self.answered().await
    }

    /// The same, to be called until it has returned once. Cancellation-safe.
    pub(super) async fn answered(&mut self) -> Result<Sent, ClientError> {
        let text = success_text(self.answer.answered().await?, &self.address)?;
        let mut numbers = text.split(' ');
        let mut next = || numbers.next().and_then(|number| number.parse::<i64>().ok());
        match (next(), next().and_then(|n| i32::try_from(n).ok()), next()) {
            (Some(id), Some(partition), Some(offset)) => Ok(Sent {
                id: MessageId::new(id),
                partition: PartitionIndex::new(partition),
                offset: Offset::new(offset),
            }),
            _ => {
                let text = told(text.as_bytes());
                Err(unexpected(&self.address, format!("'{text}' as the result of a put")))
            }
        }
    }
}

fn success_text(response: Response, address: &str) -> Result<String, ClientError> {
    match response {
        Response::Result(result) if result.status == Status::SUCCESS => {
            Ok(String::from_utf8_lossy(&result.body).into_owned())
        }
        Response::Result(result) => Err(refused(result.status, &result.body)),
        Response::Value(_) => Err(unexpected(address, "data of a get".to_owned())),
    }
}

fn unexpected(address: &str, what: String) -> ClientError {
    ClientError::Unexpected { address: address.to_owned(), what }
}

fn refused(status: Status, body: &[u8]) -> ClientError {
    ClientError::Refused { status, text: told(body) }
}

/// A broker's text as errors repeat it, which end in logs and events: its beginning if it is long.
fn told(body: &[u8]) -> String {
    match body.split_at_checked(TOLD_BYTES) {
        Some((start, rest)) if !rest.is_empty() => {
            let more = rest.len();
            format!("{}… and {more} bytes more", String::from_utf8_lossy(start))
        }
        _ => String::from_utf8_lossy(body).into_owned(),
    }
}

/// `<topic> part <partition> min_offset <n> max_offset <n>` (01 §10.4).
fn offsets_line(line: &str) -> Option<(&str, PartitionIndex, OffsetRange)> {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        &[topic, "part", partition, "min_offset", min, "max_offset", max] => {
            Some((topic, partition.parse().ok()?, OffsetRange { min: min.parse().ok()?, max: max.parse().ok()? }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_offsets_statistics_are_read() {
        let range = OffsetRange { min: Offset::ZERO, max: Offset::new(103) };
        let line = "test part 4 min_offset 0 max_offset 103";
        assert_eq!(offsets_line(line), Some(("test", PartitionIndex::new(4), range)));
        for line in ["STATS", "END", "test part x min_offset 0 max_offset 1", ""] {
            assert_eq!(offsets_line(line), None);
        }
    }
}
