//! A source that answers from logs in memory, or as a test tells it.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::common::guard::lock;
use crate::fetch::{Fetched, Get, MessageSource, SourceError};
use crate::id::{MessageId, Offset, TopicPartition};
use crate::message::{RecordHeader, checksum, encode_body};

/// An answer that a test wants.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    /// An error.
    Failure,
    /// None at all.
    Silence,
    Nothing,
    Moved(i64),
}

/// One get as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// Milliseconds since the broker was made.
    pub(super) at: u128,
    pub(super) index: i32,
    pub(super) offset: i64,
    pub(super) size: i32,
}

#[derive(Debug, Default)]
struct Log {
    bytes: Vec<u8>,
    script: VecDeque<Answer>,
    /// What every get is answered when the script is over.
    always: Option<Answer>,
    nearest: i64,
    /// Where each message begins, and its id.
    messages: Vec<(i64, i64)>,
}

#[derive(Debug)]
pub(super) struct Broker {
    start: Instant,
    logs: Mutex<HashMap<i32, Log>>,
    seen: Mutex<Vec<Seen>>,
    nearest_asked: Mutex<Vec<(i32, i64)>>,
    /// Whether it holds answers back.
    holds: bool,
    /// How long an answer takes.
    latency: Duration,
    news: Notify,
    under_way: Mutex<(usize, usize)>,
}

impl Broker {
    pub(super) fn new(holds: bool) -> Self {
        Self {
            start: Instant::now(),
            logs: Mutex::default(),
            seen: Mutex::default(),
            nearest_asked: Mutex::default(),
            holds,
            latency: Duration::ZERO,
            news: Notify::new(),
            under_way: Mutex::default(),
        }
    }

    pub(super) fn slow(self, latency: Duration) -> Self {
        Self { latency, ..self }
    }

    /// Appends a message with a payload of so many bytes and returns its offset.
    pub(super) fn put(&self, index: i32, id: i64, payload: usize) -> i64 {
        self.append(index, id, &record(id, None, &vec![b'x'; payload]))
    }

    pub(super) fn append(&self, index: i32, id: i64, record: &[u8]) -> i64 {
        let mut logs = lock(&self.logs);
        let log = logs.entry(index).or_default();
        let offset = i64::try_from(log.bytes.len()).unwrap();
        log.bytes.extend_from_slice(record);
        log.messages.push((offset, id));
        self.news.notify_waiters();
        offset
    }

    pub(super) fn end(&self, index: i32) -> i64 {
        i64::try_from(lock(&self.logs).entry(index).or_default().bytes.len()).unwrap()
    }

    /// Ids of the partition, in order.
    pub(super) fn ids(&self, index: i32) -> Vec<i64> {
        lock(&self.logs).entry(index).or_default().messages.iter().map(|(_, id)| *id).collect()
    }

    /// Where each message begins, and its id.
    pub(super) fn messages(&self, index: i32) -> Vec<(i64, i64)> {
        lock(&self.logs).entry(index).or_default().messages.clone()
    }

    /// Flips a bit.
    pub(super) fn damage(&self, index: i32, position: usize) {
        lock(&self.logs).entry(index).or_default().bytes[position] ^= 1;
    }

    pub(super) fn script(&self, index: i32, answers: impl IntoIterator<Item = Answer>) {
        lock(&self.logs).entry(index).or_default().script.extend(answers);
    }

    pub(super) fn always(&self, index: i32, answer: Option<Answer>) {
        lock(&self.logs).entry(index).or_default().always = answer;
    }

    /// All gets so far.
    pub(super) fn seen(&self) -> Vec<Seen> {
        lock(&self.seen).clone()
    }

    /// When a partition was asked, in milliseconds.
    pub(super) fn times(&self, index: i32) -> Vec<u128> {
        self.seen().into_iter().filter(|seen| seen.index == index).map(|seen| seen.at).collect()
    }

    pub(super) fn nearest_asked(&self) -> Vec<(i32, i64)> {
        lock(&self.nearest_asked).clone()
    }

    /// The most gets that were under way at the same time.
    pub(super) fn most_gets(&self) -> usize {
        lock(&self.under_way).1
    }

    async fn answer(&self, get: Get<'_>) -> Result<Fetched, SourceError> {
        let index = get.from.partition.index.get();
        let seen = Seen { at: self.start.elapsed().as_millis(), index, offset: get.offset.get(), size: get.max_size };
        lock(&self.seen).push(seen);
        sleep(self.latency).await;
        let scripted = {
            let mut logs = lock(&self.logs);
            let log = logs.entry(index).or_default();
            log.script.pop_front().or_else(|| log.always.clone())
        };
        match scripted {
            Some(Answer::Failure) => return Err("the broker is away".into()),
            Some(Answer::Silence) => return std::future::pending().await,
            Some(Answer::Nothing) => return Ok(Fetched::Nothing { waited: false }),
            Some(Answer::Moved(to)) => {
                return Ok(Fetched::Moved { to: Offset::new(to), holds_gets: self.holds });
            }
            None => {}
        }
        let until = Instant::now() + get.wait;
        loop {
            let news = self.news.notified();
            if let Some(answer) = self.stored(index, get) {
                return Ok(answer);
            }
            if !self.holds || timeout(until.saturating_duration_since(Instant::now()), news).await.is_err() {
                return Ok(Fetched::Nothing { waited: self.holds });
            }
        }
    }

    fn stored(&self, index: i32, get: Get<'_>) -> Option<Fetched> {
        let mut logs = lock(&self.logs);
        let bytes = &logs.entry(index).or_default().bytes;
        let Some(rest) = usize::try_from(get.offset.get()).ok().and_then(|offset| bytes.get(offset..)) else {
            return Some(Fetched::Moved {
                to: Offset::new(i64::try_from(bytes.len()).unwrap()),
                holds_gets: self.holds,
            });
        };
        let length = rest.len().min(usize::try_from(get.max_size).unwrap()).min(1 << 20);
        (length > 0).then(|| Fetched::Data(Bytes::copy_from_slice(&rest[..length])))
    }
}

/// Counts gets under way, also those that are broken off.
struct UnderWay<'a>(&'a Broker);

impl<'a> UnderWay<'a> {
    fn new(broker: &'a Broker) -> Self {
        let mut count = lock(&broker.under_way);
        count.0 += 1;
        count.1 = count.1.max(count.0);
        Self(broker)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        lock(&self.0.under_way).0 -= 1;
    }
}

impl MessageSource for Broker {
    fn get<'a>(&'a self, get: Get<'a>) -> BoxFuture<'a, Result<Fetched, SourceError>> {
        Box::pin(async move {
            let _under_way = UnderWay::new(self);
            self.answer(get).await
        })
    }

    fn nearest_offset<'a>(
        &'a self,
        from: &'a TopicPartition,
        offset: Offset,
    ) -> BoxFuture<'a, Result<Offset, SourceError>> {
        Box::pin(async move {
            let index = from.partition.index.get();
            lock(&self.nearest_asked).push((index, offset.get()));
            Ok(Offset::new(lock(&self.logs).entry(index).or_default().nearest))
        })
    }
}

/// A record as it is stored.
pub(super) fn record(id: i64, attribute: Option<&str>, payload: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    let flag = encode_body(attribute, payload, &mut body);
    let length = i32::try_from(body.len()).unwrap();
    let mut record = Vec::new();
    RecordHeader { length, checksum: checksum(&body), id: MessageId::new(id), flag }.encode(&mut record);
    record.extend_from_slice(&body);
    record
}
