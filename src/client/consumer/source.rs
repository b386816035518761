//! The engine's way to brokers.

use std::sync::Arc;
use std::time::Duration;

use bytestring::ByteString;
use futures_core::future::BoxFuture;
use tokio::time::Instant;

use crate::client::session::Session;
use crate::client::{self, BrokerClient, ClientError, Outcome};
use crate::fetch::{Fetched, Get, MessageSource, SourceError};
use crate::id::{GroupName, Offset, TopicPartition};
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
        of: &TopicPartition,
        timeout: Duration,
        request: impl AsyncFnOnce(&BrokerClient) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let broker = of.partition.broker;
        let client = self.session.for_reading(broker).await?;
        let answer = match tokio::time::timeout(timeout, request(&client)).await {
            Ok(answer) => answer,
            Err(_) => Err(ClientError::Timeout { address: client.address().to_owned(), timeout }),
        };
        if answer.as_ref().is_err_and(|error| error.outcome() == Outcome::Unknown && !is_refusal(error)) {
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
        match self.ask(get.from, self.timeout + get.wait, request).await {
            Ok(client::Fetched::Data(data)) => Ok(Fetched::Data(data)),
            Ok(client::Fetched::Moved(offset)) => Ok(Fetched::Moved(offset)),
            Ok(client::Fetched::Nothing) => {
                let waited = !get.wait.is_zero() && asked.elapsed() >= HELD.min(get.wait);
                Ok(Fetched::Nothing { waited })
            }
            // A closed partition is opened again some time (05 §10).
            Err(ClientError::Refused { status, .. }) if status == Status::FORBIDDEN => {
                Ok(Fetched::Nothing { waited: false })
            }
            Err(error) => Err(error),
        }
    }

    /// One get from the master, not held back (05 §14).
    pub(super) async fn once(
        &self,
        topic: &TopicName,
        partition: Partition,
        offset: Offset,
        max_size: i32,
    ) -> Result<Fetched, ClientError> {
        let client = self.session.for_writing(partition.broker).await?;
        let get = client.get(&topic.to_wire(), &self.group, partition.index, offset, max_size);
        let answer = tokio::time::timeout(self.timeout, get).await;
        self.understood(partition.broker, &client, answer.unwrap_or_else(|_| Err(self.timed_out(&client, self.timeout))))
            .map(|fetched| fetched_now(fetched))
    }

    pub(super) async fn nearest(&self, of: &TopicPartition, offset: Offset) -> Result<Offset, ClientError> {
        let topic = of.topic.to_wire();
        let request =
            async |client: &BrokerClient| client.nearest_offset(&topic, &self.group, of.partition.index, offset).await;
        self.ask(of, self.timeout, request).await
    }
}

fn is_refusal(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused { .. })
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
