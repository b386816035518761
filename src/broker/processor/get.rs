//! `get` and `offset` (01 §8.3–8.4).

use bytes::BytesMut;

use super::Processor;
use crate::broker::outbound::Answers;
use crate::broker::realtime::Kind;
use crate::broker::refusal::Refusal;
use crate::id::Offset;
use crate::protocol::{Get, OffsetQuery, Response, Status, encode_value_head};
use crate::store::{ReadOutcome, Region};

impl Processor {
    pub(super) fn get(&self, get: &Get, answers: &mut Answers) {
        self.counters.gets.add_one();
        let statistics = self.topics.keeps_statistics(&get.topic);
        if statistics {
            self.realtime.add(Kind::Get, &get.topic, 1);
        }
        match self.find(get) {
            Ok(region) => {
                encode_value_head(region.len(), get.opaque, answers.buffer());
                answers.push_region(region);
            }
            Err(refusal) => {
                if refusal.status() == Status::MOVED {
                    self.count_offset_query(&get.topic, statistics);
                }
                if matches!(refusal.status(), Status::NOT_FOUND | Status::MOVED) {
                    self.counters.missed_gets.add_one();
                    if statistics {
                        self.realtime.add(Kind::GetMiss, &get.topic, 1);
                    }
                }
                refusal.encode(&self.identity, get.opaque, answers.buffer());
            }
        }
    }

    /// The first rule that fits, in the order of the reference.
    fn find<'a>(&self, get: &'a Get) -> Result<Region, Refusal<'a>> {
        let (topic, partition) = (&*get.topic, get.partition);
        if self.store.closed_partitions().is_closed(topic, partition) {
            return Err(Refusal::GetFromClosed { partition });
        }
        let log = self.store.get(topic, partition).ok_or(Refusal::NoSuchPartition { topic, partition })?;
        let max_size =
            usize::try_from(get.max_size).ok().filter(|&max| max > 0).ok_or(Refusal::MaxSize(get.max_size))?;
        match log.read(get.offset, max_size) {
            ReadOutcome::Region(region) => Ok(region),
            ReadOutcome::BelowMin(min) => Err(Refusal::ContinueAt(min)),
            ReadOutcome::BeyondEnd(end)
                if get.offset == Offset::LATEST || self.config.system.update_consumer_offsets =>
            {
                Err(Refusal::ContinueAt(end))
            }
            ReadOutcome::AtEnd | ReadOutcome::BeyondEnd(_) => Err(Refusal::NothingAt(get.offset)),
        }
    }

    /// A get that is moved counts as well (02 §11): it tells an offset.
    fn count_offset_query(&self, topic: &str, statistics: bool) {
        self.counters.offset_queries.add_one();
        if statistics {
            self.realtime.add(Kind::Offset, topic, 1);
        }
    }

    pub(super) fn nearest_offset(&self, query: &OffsetQuery, out: &mut BytesMut) {
        self.count_offset_query(&query.topic, self.topics.keeps_statistics(&query.topic));
        match self.store.get(&query.topic, query.partition) {
            Some(log) => {
                let nearest = log.nearest_offset(query.offset).to_string();
                Response::result(Status::SUCCESS, nearest, query.opaque).encode(out);
            }
            None => Refusal::NoSuchPartition { topic: &query.topic, partition: query.partition }.encode(
                &self.identity,
                query.opaque,
                out,
            ),
        }
    }
}
