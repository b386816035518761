//! Reads one partition from an offset on.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use bytestring::ByteString;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::plain::Place;
use crate::cli::output::tell;
use crate::client::{ClientError, Fetched, MessageSessionFactory};
use crate::id::{MessageId, Offset};
use crate::message::{Body, Records};

/// Pause after a get that found nothing, doubled up to the longest while nothing comes.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// How long a follower lets the broker hold an answer back until there is a message.
const WAIT: Duration = Duration::from_secs(20);

/// Nothing that came earlier was not waited for: the next get comes after a pause.
const WAITED: Duration = Duration::from_secs(1);

/// Pause after a failure of the connection.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// A record that does not fit is asked for with twice the size, up to this one.
const MAX_SIZE_LIMIT: i32 = 256 << 20;

/// Answers without a whole record in a row before the reader gives up. A broker on the JVM may send a record that it is
/// still writing.
const INCOMPLETE_ANSWERS: u32 = 5;

/// One message as it was read.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) place: Place,
    pub(super) offset: Offset,
    pub(super) id: MessageId,
    pub(super) body: Body,
}

/// Reads one partition and hands its messages on, up to the end or for ever.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) factory: MessageSessionFactory,
    pub(super) place: Place,
    pub(super) topic: ByteString,
    pub(super) group: ByteString,
    pub(super) offset: Offset,
    pub(super) max_size: i32,
    pub(super) follow: bool,
    pub(super) deliveries: mpsc::Sender<Delivery>,
}

impl Reader {
    pub(super) async fn run(mut self) -> anyhow::Result<()> {
        let mut pause = PAUSE_MIN;
        let mut max_size = self.max_size;
        let mut complained = false;
        let mut incomplete = 0;
        loop {
            let asked = Instant::now();
            let fetched = match self.fetch(max_size).await {
                Ok(fetched) => fetched,
                Err(error) if self.follow && may_pass(&error) => {
                    if !std::mem::replace(&mut complained, true) {
                        tell(format_args!("metaq: partition {}: {error}; trying again", self.place.index));
                    }
                    tokio::time::sleep(RETRY_PAUSE).await;
                    continue;
                }
                Err(error) => return Err(error).with_context(|| format!("partition {}", self.place.index)),
            };
            complained = false;
            match fetched {
                // To where it stands: a broker that filters on the JVM does so for ever (01 §8.3).
                Fetched::Moved(offset) if offset == self.offset => tokio::time::sleep(PAUSE_MAX).await,
                Fetched::Moved(offset) => self.offset = offset,
                Fetched::Nothing if !self.follow => return Ok(()),
                Fetched::Nothing if asked.elapsed() >= WAITED => pause = PAUSE_MIN,
                Fetched::Nothing => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Fetched::Data(data) => {
                    let length = data.len();
                    let consumed = self.hand_on(data).await?;
                    let Some(consumed) = consumed else { return Ok(()) };
                    pause = PAUSE_MIN;
                    if consumed > 0 {
                        max_size = self.max_size;
                        incomplete = 0;
                    } else if length >= usize::try_from(max_size).unwrap_or(usize::MAX) && max_size < MAX_SIZE_LIMIT {
                        max_size = max_size.saturating_mul(2).min(MAX_SIZE_LIMIT);
                    } else {
                        incomplete += 1;
                        if incomplete == INCOMPLETE_ANSWERS {
                            return Err(self.too_large(length));
                        }
                        tokio::time::sleep(PAUSE_MAX).await;
                    }
                }
            }
        }
    }

    async fn fetch(&self, max_size: i32) -> Result<Fetched, ClientError> {
        let session = self.factory.session();
        let client = session.for_reading(self.place.broker_id()).await?;
        let wait = if self.follow { WAIT } else { Duration::ZERO };
        let get = client.get_waiting(&self.topic, &self.group, self.place.index, self.offset, max_size, wait);
        let result = get.await;
        // A refusal came over a connection that works.
        if matches!(result, Err(ClientError::Unknown(_) | ClientError::NotSent { .. })) {
            session.failed(self.place.broker_id(), &client);
        }
        result
    }

    /// Hands the whole records on and moves behind them. Returns how many bytes they have; `None` when nobody takes
    /// them any more.
    async fn hand_on(&mut self, data: Bytes) -> anyhow::Result<Option<usize>> {
        let start = self.offset;
        let mut records = Records::new(data, i32::MAX.cast_unsigned() as usize);
        let at = |position: usize| start.checked_add(position as u64).unwrap_or(Offset::LATEST);
        for record in records.by_ref() {
            let describe = || format!("partition {}, behind offset {start}", self.place.index);
            let record = record.with_context(describe)?;
            let offset = at(record.position);
            let body = record.decode_body().with_context(describe)?;
            let delivery = Delivery { place: self.place, offset, id: record.header.id, body };
            if self.deliveries.send(delivery).await.is_err() {
                return Ok(None);
            }
        }
        self.offset = at(records.consumed());
        Ok(Some(records.consumed()))
    }

    fn too_large(&self, got: usize) -> anyhow::Error {
        let (partition, offset) = (self.place.index, self.offset);
        anyhow!(
            "partition {partition}: the {got} bytes that the broker sends from offset {offset} on hold no whole message: \
             either no message begins there, or it is larger and the broker's maxTransferSize must be raised"
        )
    }
}

/// Whether waiting can help: a broker that is away comes back, and a partition that is closed is opened again.
fn may_pass(error: &ClientError) -> bool {
    !matches!(error, ClientError::Unexpected { .. })
}
