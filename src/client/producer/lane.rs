//! The way of messages to one partition: one after the other in their order, many at a time where the broker keeps it.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{timeout, timeout_at};

use super::dispatch::{Inner, report_failure};
use super::entry::Entry;
use super::handle::SendResult;
use crate::client::session::Session;
use crate::client::{BrokerClient, ClientError, NoAnswer, PendingPut, Sent};
use crate::id::{Partition, PartitionIndex, TopicName};
use crate::zk::ClusterError;

/// Pause between two looks for a broker that messages wait for.
const WAIT_PAUSE: Duration = Duration::from_millis(50);

/// A lane that had nothing to send for so long ends; the next message for its place makes another one.
pub(super) const IDLE: Duration = Duration::from_secs(60);

/// A message with less time than this that goes unanswered says more about its sender than about the connection, which the
/// whole factory shares.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where a lane leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// A partition of the cluster.
    Partition(Partition),
    /// A partition of the one broker that is known by its address.
    Server(PartitionIndex),
}

/// Runs as a task until no more messages can come and all have their results.
pub(super) struct Lane {
    topic: TopicName,
    place: Place,
    session: Arc<Session>,
    /// For messages that go another way after a failure.
    producer: Weak<Inner>,
    wait_for_broker: bool,
    /// Where the messages in flight are; `None` without any, so that a broker that left is left alone.
    client: Option<Arc<BrokerClient>>,
    in_flight: VecDeque<(PendingPut, Entry)>,
}

impl Lane {
    pub(super) fn new(topic: TopicName, place: Place, producer: &Arc<Inner>) -> Self {
        Self {
            topic,
            place,
            session: Arc::clone(producer.session()),
            producer: Arc::downgrade(producer),
            wait_for_broker: producer.config().wait_for_broker,
            client: None,
            in_flight: VecDeque::new(),
        }
    }

    pub(super) async fn run(mut self, mut queue: mpsc::UnboundedReceiver<Entry>) {
        loop {
            let entry = match self.beside_answers(timeout(IDLE, queue.recv())).await {
                Ok(Some(entry)) => entry,
                Ok(None) => break,
                Err(_) if self.in_flight.is_empty() && self.is_let_go(&queue) => break,
                Err(_) => continue,
            };
            match self.start(&entry).await {
                Ok((pending, client)) => {
                    self.client = Some(client);
                    self.in_flight.push_back((pending, entry));
                }
                Err(error) => self.fail(entry, error),
            }
        }
        self.drain().await;
    }

    /// Whether nobody sends to this lane any more.
    fn is_let_go(&self, queue: &mpsc::UnboundedReceiver<Entry>) -> bool {
        self.producer.upgrade().is_none_or(|producer| producer.lets_go(&self.topic, self.place, queue))
    }

    /// Sends a message, in its turn.
    async fn start(&mut self, entry: &Entry) -> Result<(PendingPut, Arc<BrokerClient>), ClientError> {
        loop {
            let error = match self.try_start(entry).await {
                Ok(started) => return Ok(started),
                Err(error) => error,
            };
            if !self.wait_for_broker || !is_away(&error) || entry.left() <= WAIT_PAUSE {
                return Err(error);
            }
            self.beside_answers(tokio::time::sleep(WAIT_PAUSE)).await;
        }
    }

    async fn try_start(&mut self, entry: &Entry) -> Result<(PendingPut, Arc<BrokerClient>), ClientError> {
        let session = Arc::clone(&self.session);
        let place = self.place;
        let connecting = timeout_at(entry.deadline(), async {
            match place {
                Place::Partition(partition) => session.for_writing(partition.broker).await,
                Place::Server(_) => session.only_broker().await.unwrap_or(Err(ClientError::Shutdown(super::PRODUCER))),
            }
        });
        let client = match self.beside_answers(connecting).await {
            Ok(Ok(client)) => client,
            Ok(Err(ClientError::Cluster(ClusterError::NoMaster { .. }))) => return Err(self.no_server(entry)),
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(entry.timed_out("the broker was still being connected")),
        };
        // Two connections have no order between them.
        if self.client.as_ref().is_some_and(|present| !Arc::ptr_eq(present, &client)) {
            self.drain().await;
        }
        let asking = timeout_at(entry.deadline(), client.keeps_order());
        match self.beside_answers(asking).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => self.drain().await,
            // The question was not answered; the message was not sent.
            Ok(Err(error)) => {
                self.give_up(&client, &error);
                let address = client.address().to_owned();
                return Err(ClientError::NotSent { address, reason: error.to_string() });
            }
            Err(_) => return Err(entry.timed_out(format!("{} did not answer before", client.address()))),
        }
        let left = entry.left();
        if left.is_zero() {
            return Err(entry.timed_out(format!("{} was busy with messages before it", client.address())));
        }
        let index = match place {
            Place::Partition(partition) => partition.index,
            Place::Server(index) => index,
        };
        let put = client.start_put_of(&entry.topic, index, entry.flag, entry.body.clone(), left);
        match self.beside_answers(put).await {
            Ok(pending) => Ok((pending, client)),
            Err(error) => {
                self.give_up(&client, &error);
                Err(error)
            }
        }
    }

    /// Awaits something while answers go on to be taken.
    async fn beside_answers<F: Future>(&mut self, other: F) -> F::Output {
        let mut other = pin!(other);
        loop {
            tokio::select! {
                biased;
                answer = first_answer(&mut self.in_flight), if !self.in_flight.is_empty() => self.settle(answer),
                output = &mut other => return output,
            }
        }
    }

    /// Takes all answers that are still to come.
    async fn drain(&mut self) {
        while !self.in_flight.is_empty() {
            let answer = first_answer(&mut self.in_flight).await;
            self.settle(answer);
        }
    }

    /// Takes the answer to the first message in flight.
    fn settle(&mut self, answer: Result<Sent, ClientError>) {
        let Some((_, entry)) = self.in_flight.pop_front() else { return };
        let client = if self.in_flight.is_empty() { self.client.take() } else { self.client.clone() };
        match answer {
            Ok(sent) => {
                let broker = match self.place {
                    Place::Partition(partition) => Some(partition.broker),
                    Place::Server(_) => None,
                };
                let result = SendResult { broker, partition: sent.partition, offset: sent.offset, id: sent.id };
                let (topic, bytes) = (entry.message.topic(), entry.body.len());
                self.session.metrics().sent(topic, result.place(), bytes, entry.started.elapsed());
                // Nobody may wait for the result any more.
                let _ = entry.reply.send(Ok(result));
            }
            Err(error) => {
                let timed_out = matches!(error, ClientError::Unknown(NoAnswer::Timeout { .. }));
                if let Some(client) = client
                    && !(timed_out && entry.timeout < PATIENCE)
                {
                    self.give_up(&client, &error);
                }
                let error = match error {
                    ClientError::Unknown(NoAnswer::Timeout { address, .. }) => {
                        NoAnswer::SendTimeout { address, timeout: entry.timeout }.into()
                    }
                    other => other,
                };
                self.fail(entry, error);
            }
        }
    }

    /// The connection is of no use after this error.
    fn give_up(&self, client: &Arc<BrokerClient>, error: &ClientError) {
        let is_refusal = matches!(error, ClientError::Refused { .. } | ClientError::Unsendable(_));
        match self.place {
            _ if is_refusal => {}
            Place::Partition(partition) => self.session.failed(partition.broker, client),
            Place::Server(_) => self.session.only_broker_failed(client),
        }
    }

    fn fail(&self, entry: Entry, error: ClientError) {
        match self.producer.upgrade() {
            Some(producer) => producer.failed(entry, self.place, error),
            // Nobody is left who could send it elsewhere.
            None => report_failure(&self.session, entry, error),
        }
    }

    fn no_server(&self, entry: &Entry) -> ClientError {
        match self.place {
            Place::Partition(partition) => ClientError::NoServer { topic: entry.message.topic().clone(), partition },
            Place::Server(_) => ClientError::Shutdown(super::PRODUCER),
        }
    }
}

/// Cancellation-safe.
async fn first_answer(in_flight: &mut VecDeque<(PendingPut, Entry)>) -> Result<Sent, ClientError> {
    match in_flight.front_mut() {
        Some((pending, _)) => pending.answered().await,
        None => std::future::pending().await,
    }
}

/// Whether the broker could not be reached, so that the message was not sent and can wait for it.
fn is_away(error: &ClientError) -> bool {
    match error {
        ClientError::Connect { .. } | ClientError::NotSent { .. } | ClientError::NoServer { .. } => true,
        ClientError::Cluster(_) => error.is_retryable(),
        _ => false,
    }
}
