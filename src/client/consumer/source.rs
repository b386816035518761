//! The engine's way to brokers.

use std::sync::Arc;
use std::time::Duration;

use bytestring::ByteString;
use futures_core::future::BoxFuture;
use tokio::time::Instant;

use crate::client::session::Session;
use crate::client::{self, BrokerClient, ClientError, NoAnswer};
use crate::fetch::{Fetched, Get, MessageSource, SourceError};
use crate::id::{BrokerId, GroupName, Offset, TopicPartition};
use crate::protocol::Status;

/// An answer that took so long was held back, whatever the broker had to say.
const HELD: Duration = Duration::from_secs(1);

/// Reads from whichever broker serves a partition now.
#[derive(Debug)]
pub(super) struct BrokerSource {
    session: Arc<Session>,
    group: ByteString,
    timeout: Duration,
}

impl BrokerSource {
    /// `timeout` is for each answer, beyond the time that the broker may hold it back.
    pub(super) fn new(session: Arc<Session>, group: &GroupName, timeout: Duration) -> Self {
        Self { session, group: group.to_wire(), timeout }
    }

    async fn ask<T>(
        &self,
        broker: BrokerId,
        client: Arc<BrokerClient>,
        timeout: Duration,
        request: impl AsyncFnOnce(&BrokerClient) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let answer = tokio::time::timeout(timeout, request(&client)).await.unwrap_or_else(|_| {
            let address = client.address().to_owned();
            Err(NoAnswer::Timeout { address, timeout }.into())
        });
        if let Err(ClientError::Unknown(_) | ClientError::NotSent { .. }) = answer {
            self.session.failed(broker, &client);
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
        let answer = self.ask(broker, client, self.timeout + get.wait, request).await;
        let waited = !get.wait.is_zero() && asked.elapsed() >= HELD.min(get.wait);
        understood(answer, waited)
    }

    /// One get from the master, not held back (05 §14).
    pub(super) async fn once(
        &self,
        of: &TopicPartition,
        offset: Offset,
        max_size: i32,
    ) -> Result<Fetched, ClientError> {
        let broker = of.partition.broker;
        let client = self.session.for_writing(broker).await?;
        let topic = of.topic.to_wire();
        let request =
            async |client: &BrokerClient| client.get(&topic, &self.group, of.partition.index, offset, max_size).await;
        understood(self.ask(broker, client, self.timeout, request).await, false)
    }

    pub(super) async fn nearest(&self, of: &TopicPartition, offset: Offset) -> Result<Offset, ClientError> {
        let broker = of.partition.broker;
        let client = self.session.for_reading(broker).await?;
        let topic = of.topic.to_wire();
        let request =
            async |client: &BrokerClient| client.nearest_offset(&topic, &self.group, of.partition.index, offset).await;
        self.ask(broker, client, self.timeout, request).await
    }
}

/// A closed partition is opened again some time: it has nothing for now (05 §10).
fn understood(answer: Result<client::Fetched, ClientError>, waited: bool) -> Result<Fetched, ClientError> {
    match answer {
        Ok(client::Fetched::Data(data)) => Ok(Fetched::Data(data)),
        Ok(client::Fetched::Moved(offset)) => Ok(Fetched::Moved(offset)),
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
