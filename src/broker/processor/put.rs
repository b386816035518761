//! `put` (01 §8.2).

use std::sync::Arc;

use bytes::BytesMut;
use tracing::error;

use super::Processor;
use crate::broker::batch::Batch;
use crate::broker::realtime::Kind;
use crate::broker::refusal::Refusal;
use crate::broker::routes::{Era, Route};
use crate::broker::topics::store_settings;
use crate::common::guard::lock;
use crate::config::TopicSettings;
use crate::id::{PartitionIndex, TopicName};
use crate::message::{NO_CHECKSUM, checksum};
use crate::protocol::{Opaque, PlainPut, Put, Status, encode_put_answer};
use crate::store::{AppendError, AppendGroup, Appended, PartitionLog};

impl Processor {
    /// Accepts a put into the batch, or refuses it.
    pub(super) fn put(&self, put: Put, batch: &mut Batch) {
        self.counters.puts.add_one();
        let era = self.routes.era();
        let accepted = self.accept(&put);
        // Asked afterwards: the put may be the one that the topic is born with.
        if self.topics.keeps_statistics(&put.topic) {
            self.realtime.add(Kind::Put, &put.topic, 1);
            self.realtime.add(Kind::MessageSize, &put.topic, put.body.len() as u64);
        }
        match accepted {
            Ok((partition, checksum)) => {
                self.learn_route(era, &partition);
                batch.puts.push_bytes(&partition, put.flag, checksum, put.body, put.opaque.get().cast_unsigned());
            }
            Err(refusal) => {
                if refusal.status() == Status::ERROR {
                    self.count_failed_put(&put.topic);
                }
                self.refuse(&refusal, put.opaque, batch.answers.buffer());
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
        let config = self.topics.config();
        let settings = config
            .topic(topic)
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

    /// Lets further puts to the same place take the short way.
    fn learn_route(&self, era: Era, partition: &Arc<PartitionLog>) {
        let topic = partition.topic().as_str();
        if self.routes.find(topic).is_some_and(|route| route.partition(partition.index()).is_some()) {
            return;
        }
        if let Some(settings) = self.topics.config().topic(topic) {
            self.routes.learn(era, partition, settings.num_partitions, self.topics.keeps_statistics(topic));
        }
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
        let created = self.store.get_or_create(&name, partition, &store_settings(settings));
        created.inspect(|log| self.topics.apply_settings(log)).map_err(|error| {
            if let Some(failures) = lock(&self.partition_failures).count() {
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

    /// Accepts a put of the usual kind to a topic and partition that were put to before: `false` if it is for
    /// [`put`](Self::put) to decide.
    pub(in crate::broker) fn plain_put(&self, put: &PlainPut<'_>, route: &Route, batch: &mut Batch) -> bool {
        let Some(partition) = route.partition(put.partition) else { return false };
        if self.is_stopping() || self.store.closed_partitions().is_closed(put.topic, put.partition) {
            return false;
        }
        let actual = checksum(put.body);
        if put.checksum != actual && put.checksum != NO_CHECKSUM {
            return false;
        }
        batch.count_command();
        batch.puts.push(partition, put.flag, actual, put.body, put.opaque.get().cast_unsigned());
        true
    }

    /// Counts plain puts to a topic.
    pub(in crate::broker) fn count_plain_puts(&self, route: &Route, count: u64, bytes: u64) {
        self.counters.puts.add(count);
        if route.statistics {
            self.realtime.add_many(Kind::Put, route.topic(), count, count);
            self.realtime.add_many(Kind::MessageSize, route.topic(), count, bytes);
        }
    }

    /// Encodes the answers to puts that came back from the store.
    pub(in crate::broker) fn encode_put_results(&self, group: &AppendGroup, out: &mut BytesMut) {
        for (token, place, result) in group.results() {
            self.encode_put_result(result, place, Opaque::new(token.cast_signed()), out);
        }
    }

    fn encode_put_result(
        &self,
        result: Result<Appended, AppendError>,
        place: &PartitionLog,
        opaque: Opaque,
        out: &mut BytesMut,
    ) {
        match result {
            Ok(Appended { id, index, offset }) => encode_put_answer(id, index, offset, opaque, out),
            Err(AppendError::Closed) => self.refuse(&Refusal::Stopping, opaque, out),
            Err(error) => {
                let topic = place.topic().as_str();
                self.count_failed_put(topic);
                let refusal = Refusal::Put { topic, partition: place.index(), detail: error.to_string() };
                self.refuse(&refusal, opaque, out);
            }
        }
    }
}
