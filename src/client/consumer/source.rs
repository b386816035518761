//! The engine's way to brokers.

use std::sync::Arc;
use std::time::Duration;

use bytestring::ByteString;
use futures_core::future::BoxFuture;
use tokio::time::{Instant, timeout_at};

use crate::client::connection::after;
use crate::client::session::Session;
use crate::client::{self, BrokerClient, ClientError, NoAnswer};
use crate::fetch::{Fetched, Get, MessageSource, SourceError};
use crate::id::{BrokerId, GroupName, Offset, TopicPartition};
use crate::protocol::Status;

/// An answer that took so long was held back, whatever the broker had to say.
const HELD: Duration = Duration::from_secs(1);

/// Part of the fetch time-out that an answer may take. The engine breaks a get off when the whole of it is over, and then
/// nobody is left here who could give a silent connection up.
const SHARE: f64 = 0.95;

/// Part of the fetch time-out that a broker must have had for an answer, beyond what it may hold it back, before its
/// connection counts as silent: others use it as well, and connecting may have taken most of the time.
const SILENCE: f64 = 0.25;

/// Reads from whichever broker serves a partition now.
#[derive(Debug)]
pub(super) struct BrokerSource {
    session: Arc<Session>,
    group: ByteString,
    /// For each answer, connecting and the time that the broker may hold it back included.
    timeout: Duration,
    /// The time-out is one caller's, and says nothing about the connection, which others share.
    impatient: bool,
}

impl BrokerSource {
    /// For an engine with this [`fetch_timeout`](crate::fetch::FetchOptions::fetch_timeout).
    pub(super) fn new(session: Arc<Session>, group: &GroupName, fetch_timeout: Duration) -> Self {
        Self { session, group: group.to_wire(), timeout: fetch_timeout.mul_f64(SHARE), impatient: false }
    }

    /// For one request of a caller with a time-out of its own.
    pub(super) fn impatient(session: Arc<Session>, group: &GroupName, timeout: Duration) -> Self {
        Self { session, group: group.to_wire(), timeout, impatient: true }
    }

    /// Asks a broker. `since` is when that was wanted, `held` how long the broker may hold the answer back.
    async fn ask<T>(
        &self,
        broker: BrokerId,
        client: &Arc<BrokerClient>,
        (since, held): (Instant, Duration),
        request: impl AsyncFnOnce(&BrokerClient) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let sent = Instant::now();
        let answer = timeout_at(after(since, self.timeout), request(client)).await.unwrap_or_else(|_| {
            let address = client.address().to_owned();
            Err(NoAnswer::Timeout { address, timeout: self.timeout }.into())
        });
        let is_failure = match &answer {
            Err(ClientError::Unknown(NoAnswer::Timeout { .. })) => {
                let silence = held.saturating_add(self.timeout.mul_f64(SILENCE));
                !self.impatient && sent.elapsed() >= silence
            }
            Err(ClientError::Unknown(_) | ClientError::NotSent { .. }) => true,
            _ => false,
        };
        if is_failure {
            self.session.failed(broker, client);
        }
        answer
    }

    pub(super) async fn fetch(&self, get: Get<'_>) -> Result<Fetched, ClientError> {
        let topic = get.from.topic.to_wire();
        let index = get.from.partition.index;
        let asked = Instant::now();
        let request = async |client: &BrokerClient| {
            client.get_waiting(&topic, &self.group, index, get.offset, get.max_size, get.wait).await
        };
        let broker = get.from.partition.broker;
        let client = self.session.for_reading(broker).await?;
        let answer = self.ask(broker, &client, (asked, get.wait), request).await;
        let waited = !get.wait.is_zero() && asked.elapsed() >= HELD.min(get.wait);
        let mut fetched = understood(answer, waited)?;
        if let Fetched::Moved { holds_gets, .. } = &mut fetched {
            // A get that may be held was only sent after the broker had said whether it can: this waits for nothing.
            *holds_gets = !get.wait.is_zero() && client.holds_gets().await.unwrap_or(false);
        }
        Ok(fetched)
    }

    /// One get from the master, not held back (05 §14).
    pub(super) async fn once(
        &self,
        of: &TopicPartition,
        offset: Offset,
        max_size: i32,
    ) -> Result<Fetched, ClientError> {
        let (broker, asked) = (of.partition.broker, Instant::now());
        let client = self.session.for_writing(broker).await?;
        let topic = of.topic.to_wire();
        let request =
            async |client: &BrokerClient| client.get(&topic, &self.group, of.partition.index, offset, max_size).await;
        understood(self.ask(broker, &client, (asked, Duration::ZERO), request).await, false)
    }

    pub(super) async fn nearest(&self, of: &TopicPartition, offset: Offset) -> Result<Offset, ClientError> {
        let (broker, asked) = (of.partition.broker, Instant::now());
        let client = self.session.for_reading(broker).await?;
        let topic = of.topic.to_wire();
        let request =
            async |client: &BrokerClient| client.nearest_offset(&topic, &self.group, of.partition.index, offset).await;
        self.ask(broker, &client, (asked, Duration::ZERO), request).await
    }
}

/// A closed partition is opened again some time: it has nothing for now (05 §10).
fn understood(answer: Result<client::Fetched, ClientError>, waited: bool) -> Result<Fetched, ClientError> {
    match answer {
        Ok(client::Fetched::Data(data)) => Ok(Fetched::Data(data)),
        Ok(client::Fetched::Moved(to)) => Ok(Fetched::Moved { to, holds_gets: false }),
        Ok(client::Fetched::Nothing) => Ok(Fetched::Nothing { waited }),
        Err(ClientError::Refused { status, .. }) if status == Status::FORBIDDEN => {
            Ok(Fetched::Nothing { waited: false })
        }
        Err(error) => Err(error),
    }
}

impl MessageSource for BrokerSource {
    fn get<'a>(&'a self, get: Get<'a>) -> BoxFuture<'a, Result<Fetched, SourceError>> {
        Box::pin(async move { Ok(self.fetch(get).await?) })
    }

    fn nearest_offset<'a>(
        &'a self,
        from: &'a TopicPartition,
        offset: Offset,
    ) -> BoxFuture<'a, Result<Offset, SourceError>> {
        Box::pin(async move { Ok(self.nearest(from, offset).await?) })
    }
}
