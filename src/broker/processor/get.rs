//! `get` and `offset` (01 §8.3–8.4).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BytesMut;
use tokio::time::Instant;

use super::Processor;
use crate::broker::batch::Batch;
use crate::broker::outbound::Answers;
use crate::broker::realtime::Kind;
use crate::broker::refusal::Refusal;
use crate::id::Offset;
use crate::protocol::{Get, MAX_WAIT, OffsetQuery, Opaque, Response, Status, encode_value_head};
use crate::store::{PartitionLog, ReadOutcome, Region};

/// Longest wait of a get that did not ask for one, for a flush of what is written already.
const FLUSH_WAIT: Duration = Duration::from_millis(20);

/// A get at the end of its partition that waits for messages.
#[derive(Debug)]
pub(in crate::broker) struct AtEnd {
    pub(in crate::broker) log: Arc<PartitionLog>,
    /// When it is answered as it stands.
    pub(in crate::broker) deadline: Instant,
    offset: Offset,
    max_size: usize,
    opaque: Opaque,
}

/// What a get finds.
enum Found<'a> {
    Region(Region),
    Refusal(Refusal<'a>),
    /// Nothing yet: it is exactly at the end.
    AtEnd(Arc<PartitionLog>),
}

impl Processor {
    /// Answers a get, or lets it wait if it asks for that, or if a flush is about to bring something.
    pub(super) fn get(&self, get: &Get, batch: &mut Batch) {
        self.counters.gets.add_one();
        if self.topics.keeps_statistics(&get.topic) {
            self.realtime.add(Kind::Get, &get.topic, 1);
        }
        let answers = &mut batch.answers;
        match self.find(get) {
            Found::Region(region) => self.answer_region(region, get.opaque, answers),
            Found::Refusal(refusal) => self.refuse_get(&refusal, &get.topic, get.opaque, answers),
            Found::AtEnd(log) => {
                let asked = self.longest_wait(get.wait());
                let flush = if self.store.flush_soon(&log) { FLUSH_WAIT } else { Duration::ZERO };
                let wait = asked.max(flush);
                if wait.is_zero() {
                    return self.refuse_get(&Refusal::NothingAt(get.offset), &get.topic, get.opaque, answers);
                }
                let (offset, opaque, deadline) = (get.offset, get.opaque, Instant::now() + wait);
                let max_size = usize::try_from(get.max_size).unwrap_or(0);
                batch.held.push(AtEnd { log, deadline, offset, max_size, opaque });
            }
        }
    }

    /// A connection must not fall silent for so long that it counts as idle.
    fn longest_wait(&self, asked: Duration) -> Duration {
        let idle = Duration::from_millis(self.topics.config().metaq.connection_idle_timeout_ms);
        let longest = if idle.is_zero() { MAX_WAIT } else { MAX_WAIT.min(idle / 2) };
        asked.min(longest)
    }

    /// Whether there is still nothing to say to a get that waits. Has what it waits for flushed.
    pub(in crate::broker) fn must_wait(&self, get: &AtEnd) -> bool {
        if self.stopping.load(Ordering::Acquire) {
            return false;
        }
        let is_at_end = matches!(self.look(&get.log, get.offset, get.max_size), Ok(ReadOutcome::AtEnd));
        if is_at_end {
            self.store.flush_soon(&get.log);
        }
        is_at_end
    }

    /// Answers a get that has waited, as it stands.
    pub(in crate::broker) fn answer_held(&self, get: &AtEnd, answers: &mut Answers) {
        if self.stopping.load(Ordering::Acquire) {
            return self.refuse(&Refusal::Stopping, get.opaque, answers.buffer());
        }
        let outcome = self.look(&get.log, get.offset, get.max_size);
        let refusal = match outcome.map(|outcome| self.outcome(outcome, &get.log, get.offset)) {
            Ok(Found::Region(region)) => return self.answer_region(region, get.opaque, answers),
            Ok(Found::AtEnd(_)) => Refusal::NothingAt(get.offset),
            Ok(Found::Refusal(refusal)) | Err(refusal) => refusal,
        };
        self.refuse_get(&refusal, get.log.topic().as_str(), get.opaque, answers);
    }

    fn answer_region(&self, region: Region, opaque: Opaque, answers: &mut Answers) {
        encode_value_head(region.len(), opaque, answers.buffer());
        answers.push_region(region);
    }

    fn refuse_get(&self, refusal: &Refusal<'_>, topic: &str, opaque: Opaque, answers: &mut Answers) {
        let statistics = self.topics.keeps_statistics(topic);
        if refusal.status() == Status::MOVED {
            self.count_offset_query(topic, statistics);
        }
        if matches!(refusal.status(), Status::NOT_FOUND | Status::MOVED) {
            self.counters.missed_gets.add_one();
            if statistics {
                self.realtime.add(Kind::GetMiss, topic, 1);
            }
        }
        self.refuse(refusal, opaque, answers.buffer());
    }

    /// The first rule that fits, in the order of the reference.
    fn find<'a>(&self, get: &'a Get) -> Found<'a> {
        let (topic, partition) = (&*get.topic, get.partition);
        if self.store.closed_partitions().is_closed(topic, partition) {
            return Found::Refusal(Refusal::GetFromClosed { partition });
        }
        let Some(log) = self.store.get(topic, partition) else {
            return Found::Refusal(Refusal::NoSuchPartition { topic, partition });
        };
        match usize::try_from(get.max_size) {
            Ok(max_size) if max_size > 0 => self.outcome(log.read(get.offset, max_size), &log, get.offset),
            _ => Found::Refusal(Refusal::MaxSize(get.max_size)),
        }
    }

    /// Reads from a partition, unless the operator has closed it.
    fn look(&self, log: &PartitionLog, offset: Offset, max_size: usize) -> Result<ReadOutcome, Refusal<'static>> {
        let partition = log.index();
        if self.store.closed_partitions().is_closed(log.topic().as_str(), partition) {
            return Err(Refusal::GetFromClosed { partition });
        }
        Ok(log.read(offset, max_size))
    }

    fn outcome(&self, outcome: ReadOutcome, log: &Arc<PartitionLog>, offset: Offset) -> Found<'static> {
        match outcome {
            ReadOutcome::Region(region) => Found::Region(region),
            ReadOutcome::BelowMin(min) => Found::Refusal(Refusal::ContinueAt(min)),
            ReadOutcome::BeyondEnd(end)
                if offset == Offset::LATEST || self.topics.config().system.update_consumer_offsets =>
            {
                Found::Refusal(Refusal::ContinueAt(end))
            }
            ReadOutcome::BeyondEnd(_) => Found::Refusal(Refusal::NothingAt(offset)),
            ReadOutcome::AtEnd => Found::AtEnd(Arc::clone(log)),
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
            None => {
                let refusal = Refusal::NoSuchPartition { topic: &query.topic, partition: query.partition };
                self.refuse(&refusal, query.opaque, out);
            }
        }
    }
}
