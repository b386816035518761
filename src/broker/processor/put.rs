//! `put` (01 §8.2).

use std::sync::{Arc, PoisonError};

use bytes::BytesMut;
use tokio::sync::OwnedSemaphorePermit;
use tracing::error;

use super::Processor;
use crate::broker::batch::{Batch, Puts};
use crate::broker::identity::Identity;
use crate::broker::outbound::{AnswerSender, Answers};
use crate::broker::realtime::Kind;
use crate::broker::refusal::Refusal;
use crate::broker::topics::store_settings;
use crate::config::TopicSettings;
use crate::id::{PartitionIndex, TopicName};
use crate::message::{NO_CHECKSUM, checksum};
use crate::protocol::{Opaque, Put, Response, Status};
use crate::store::{AppendError, AppendGroup, AppendSink, Appended, PartitionLog};

impl Processor {
    /// Accepts a put into the batch, or refuses it.
    pub(super) fn put(&self, put: Put, batch: &mut Batch) {
        self.counters.puts.add_one();
        let accepted = self.accept(&put);
        // Asked afterwards: the put may be the one that the topic is born with.
        if self.topics.keeps_statistics(&put.topic) {
            self.realtime.add(Kind::Put, &put.topic, 1);
            self.realtime.add(Kind::MessageSize, &put.topic, put.body.len() as u64);
        }
        match accepted {
            Ok((partition, checksum)) => {
                batch.puts.push(put, &partition, checksum);
            }
            Err(refusal) => {
                if refusal.status() == Status::ERROR {
                    self.count_failed_put(&put.topic);
                }
                refusal.encode(&self.identity, put.opaque, batch.answers.buffer());
            }
        }
    }

    /// The partition that takes a put, and the checksum of its body.
    fn accept<'a>(&self, put: &'a Put) -> Result<(Arc<PartitionLog>, i32), Refusal<'a>> {
        if put.transaction.is_some() {
            return Err(Refusal::Transactions);
        }
        let topic = &*put.topic;
        if self.store.closed_partitions().is_closed(topic, put.partition) {
            return Err(Refusal::PutToClosed { topic, partition: put.partition });
        }
        let failed = |partition, detail| Refusal::Put { topic, partition, detail };
        let settings = self
            .topics
            .admit(topic)
            .ok_or_else(|| failed(put.partition, format!("The server do not accept topic {topic}")))?;
        let partition = if put.partition == PartitionIndex::RANDOM {
            self.random_open_partition(topic, settings)
                .ok_or(Refusal::PutToClosed { topic, partition: PartitionIndex::RANDOM })?
        } else {
            put.partition
        };
        if u32::try_from(partition.get()).map_or(true, |index| index >= settings.num_partitions) {
            return Err(failed(partition, format!("wrong partition {partition}")));
        }
        let actual = checksum(&put.body);
        if put.checksum.is_some_and(|sent| sent != NO_CHECKSUM && sent != actual) {
            let detail = "Checksum failure,message may be corrupted when transfering on networking.";
            return Err(failed(partition, detail.to_owned()));
        }
        let log = match self.store.get(topic, partition) {
            Some(log) => log,
            None => self.new_partition(topic, partition, settings).map_err(|detail| failed(partition, detail))?,
        };
        Ok((log, actual))
    }

    /// One of the open partitions of a topic, each as likely as the other; `None` when all are closed.
    fn random_open_partition(&self, topic: &str, settings: &TopicSettings) -> Option<PartitionIndex> {
        let all = 0..i32::try_from(settings.num_partitions).unwrap_or(i32::MAX);
        let closed = self.store.closed_partitions();
        let first = PartitionIndex::new(fastrand::i32(all.clone()));
        if !closed.is_closed(topic, first) {
            return Some(first);
        }
        let open: Vec<_> = all.map(PartitionIndex::new).filter(|&index| !closed.is_closed(topic, index)).collect();
        fastrand::choice(open)
    }

    fn new_partition(
        &self,
        topic: &str,
        partition: PartitionIndex,
        settings: &TopicSettings,
    ) -> Result<Arc<PartitionLog>, String> {
        let name = TopicName::new(topic).map_err(|error| error.to_string())?;
        self.topics.announce(&name).map_err(|error| error.to_string())?;
        self.store.get_or_create(&name, partition, &store_settings(settings)).map_err(|error| {
            if let Some(failures) = self.partition_failures.lock().unwrap_or_else(PoisonError::into_inner).count() {
                error!(topic, %partition, %error, failures, "cannot make a partition");
            }
            error.to_string()
        })
    }

    fn count_failed_put(&self, topic: &str) {
        self.counters.failed_puts.add_one();
        if self.topics.keeps_statistics(topic) {
            self.realtime.add(Kind::PutFailed, topic, 1);
        }
    }

    /// Hands puts to the committer, once there is room, and lets their answers go out when they are stored. Batches of
    /// one connection are handed over in the order of the calls.
    pub(in crate::broker) async fn submit(
        self: &Arc<Self>,
        puts: Puts,
        permit: Option<OwnedSemaphorePermit>,
        answers: AnswerSender,
    ) {
        let room = self.committer_room.take(puts.cost()).await;
        let processor = Arc::clone(self);
        let sink = PutSink(std::sync::Mutex::new(Some((processor, answers, room, permit))));
        let Puts { group } = puts;
        let group = group.with_sink(Arc::new(sink));
        self.store.committer().submit(&mut vec![group]);
    }

    fn encode_put_result(
        &self,
        result: Result<Appended, AppendError>,
        place: &PartitionLog,
        opaque: Opaque,
        out: &mut BytesMut,
    ) {
        let identity: &Identity = &self.identity;
        match result {
            Ok(Appended { id, index, offset }) => {
                Response::result(Status::SUCCESS, format!("{id} {index} {offset}"), opaque).encode(out);
            }
            Err(AppendError::Closed) => Refusal::Stopping.encode(identity, opaque, out),
            Err(error) => {
                let topic = place.topic().as_str();
                self.count_failed_put(topic);
                Refusal::Put { topic, partition: place.index(), detail: error.to_string() }
                    .encode(identity, opaque, out);
            }
        }
    }
}

struct PutSink(
    std::sync::Mutex<
        Option<(Arc<Processor>, AnswerSender, Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>)>,
    >,
);

impl AppendSink for PutSink {
    fn complete(&self, groups: &mut Vec<AppendGroup>) {
        for group in groups.drain(..) {
            let Some((processor, answers, room, permit)) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
            else {
                continue;
            };
            drop(room);
            let mut ready = Answers::default();
            ready.permit = permit;
            for (token, place, result) in group.results() {
                processor.encode_put_result(result, place, Opaque::new(token.cast_signed()), ready.buffer());
            }
            let _ = answers.send(ready);
        }
    }
}
