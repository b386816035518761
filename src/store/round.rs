//! One round of the committer: offsets, frames, one write, one sync, answers (08 §3).

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tracing::{error, warn};

use super::append::{AppendGroup, NONE};
use super::commit_log::syncs::Covered;
use super::commit_log::writer::LogWriter;
use super::error::AppendError;
use super::flush::Flusher;
use super::ids::IdGenerator;
use super::partition::{PartitionLog, Shared};
use crate::id::MessageId;

/// Bytes of records in one frame, but for a single larger one.
const FRAME_RECORDS_BYTES: u64 = 256 * 1024;

/// Where the id stands in a record.
const ID_AT: usize = 8;

/// Puts everything in its place. Whoever holds it gives out offsets.
#[derive(Debug)]
pub(super) struct Round {
    shared: Arc<Shared>,
    ids: Arc<IdGenerator>,
    flusher: Arc<Flusher>,
    log: LogWriter,
    drawn: Vec<MessageId>,
    number: u64,
}

/// What remains to be done when everything is written.
#[derive(Debug)]
pub(super) struct Written {
    /// Groups at the front that need no sync.
    pub(super) done: usize,
    /// What the others wait for.
    pub(super) sync: Option<Covered>,
    /// The number of the round: 0, 1, 2…
    pub(super) number: u64,
}

impl Round {
    pub(super) fn new(shared: Arc<Shared>, ids: Arc<IdGenerator>, flusher: Arc<Flusher>, log: LogWriter) -> Self {
        Self { shared, ids, flusher, log, drawn: Vec::new(), number: 0 }
    }

    pub(super) fn log(&mut self) -> &mut LogWriter {
        &mut self.log
    }

    /// Whether a small group can be stored without waiting for anything but one write and one sync.
    pub(super) fn is_ready_for(&self, group: &AppendGroup) -> bool {
        // Frames have some overhead; as much again is plenty for small groups.
        group.puts.iter().all(|put| !put.is_large()) && self.log.has_room(2 * group.bytes() + 4096)
    }

    /// Gives all messages their ids and offsets and writes them.
    ///
    /// Groups at the front that wait for no sync may be answered at once; behind one that does they wait, so that
    /// answers keep the order of arrival.
    pub(super) fn write(&mut self, groups: &mut [AppendGroup]) -> Written {
        let number = self.number;
        self.number += 1;
        self.drawn.clear();
        self.ids.draw(groups.iter().map(AppendGroup::len).sum(), &mut self.drawn);
        let drawn = mem::take(&mut self.drawn);
        let mut ids = drawn.iter().copied();
        let (mut needs_sync, mut flush_due, mut done) = (false, false, 0);
        let now = Instant::now();
        for group in groups.iter_mut() {
            for (put, id) in group.puts.iter_mut().zip(ids.by_ref()) {
                put.id = id;
            }
            for batch in 0..group.batches.len() {
                let Some(partition) = group.batches.get(batch).map(|batch| Arc::clone(&batch.partition)) else { break };
                self.append(group, batch, &partition);
                if partition.is_group_commit() {
                    // Also of a partition whose segment failed meanwhile: the log has what was stored before.
                    needs_sync |= partition.visible.load(Ordering::Acquire) < partition.written.load(Ordering::Acquire);
                } else {
                    flush_due |= partition.is_dirty() && partition.flush_due_in(now) == Duration::ZERO;
                }
            }
            if !needs_sync {
                done += 1;
            }
        }
        self.drawn = drawn;
        if self.log.write().is_err() {
            // Every put that is not durable already is refused.
            return Written { done: 0, sync: None, number };
        }
        let sync = if needs_sync { self.log.unsynced() } else { None };
        self.tell_flusher(groups, flush_due && !needs_sync);
        self.shared.tails.keep_bound();
        Written { done, sync, number }
    }

    fn tell_flusher(&self, groups: &[AppendGroup], is_due: bool) {
        let partitions = groups.iter().flat_map(|group| &group.batches).map(|batch| &batch.partition);
        let unknown = partitions.filter(|partition| !partition.is_group_commit() && partition.needs_scheduling());
        if unknown.count() > 0 || is_due {
            self.flusher.wake();
        }
    }

    /// Stores the messages of one partition.
    fn append(&mut self, group: &mut AppendGroup, batch: usize, partition: &Arc<PartitionLog>) {
        let Some(mut next) = group.batches.get(batch).map(|batch| batch.first) else { return };
        let mut messages = 0;
        if let Err(error) = partition.admit() {
            return group.refuse_from(next, error);
        }
        while next != NONE {
            let stored = match group.puts.get(next as usize) {
                Some(put) if put.is_large() => self.append_large(group, next, partition),
                _ => self.append_frame(group, next, partition),
            };
            match stored {
                Ok((count, following)) => {
                    messages += count;
                    next = following;
                }
                Err(error) => {
                    group.refuse_from(next, error);
                    break;
                }
            }
        }
        partition.messages.fetch_add(messages, Ordering::Relaxed);
        partition.unflushed.fetch_add(messages, Ordering::Relaxed);
    }

    /// Frames the small messages from `first` on, as many as fit a frame and the segment: how many those were, and the
    /// one behind them.
    fn append_frame(
        &mut self,
        group: &mut AppendGroup,
        first: u32,
        partition: &Arc<PartitionLog>,
    ) -> Result<(u64, u32), AppendError> {
        let segment = partition.segment_for_next()?;
        let limit = partition.room_in_segment(segment).min(FRAME_RECORDS_BYTES);
        let start = partition.written.load(Ordering::Acquire);
        let (mut bytes, mut end_of_frame) = (0, first);
        while let Some(put) = group.puts.get(end_of_frame as usize) {
            if put.is_large() || (bytes > 0 && bytes >= limit) {
                break;
            }
            bytes += u64::from(put.len);
            end_of_frame = put.next;
        }
        if start.checked_add(bytes).is_none_or(|end| i64::try_from(end).is_err()) {
            return Err(AppendError::OffsetsExhausted(Arc::clone(partition.name())));
        }
        let begun = self.log.begin_records(partition, segment, start, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        let records = self.log.buffer().len();
        let (mut next, mut offset, mut count) = (first, start, 0);
        while next != end_of_frame {
            let Some(put) = group.puts.get_mut(next as usize) else { break };
            (put.offset, next) = (offset, put.next);
            let put = *put;
            offset += u64::from(put.len);
            count += 1;
            let buffer = self.log.buffer();
            let at = buffer.len();
            buffer.extend_from_slice(group.record(&put));
            if let Some(id) = buffer.get_mut(at + ID_AT..at + ID_AT + 8) {
                id.copy_from_slice(&put.id.get().to_be_bytes());
            }
        }
        self.log.end_records(begun, partition);
        let records = self.log.buffer().get(records..).unwrap_or_default();
        if partition.add_to_tail(records) {
            self.shared.tails.file(partition);
        }
        self.roll_if_full(partition, segment);
        Ok((count, end_of_frame))
    }

    fn append_large(
        &self,
        group: &mut AppendGroup,
        put: u32,
        partition: &Arc<PartitionLog>,
    ) -> Result<(u64, u32), AppendError> {
        let segment = partition.segment_for_next()?;
        let start = partition.written.load(Ordering::Acquire);
        let Some(&message) = group.puts.get(put as usize) else { return Ok((0, NONE)) };
        if start.checked_add(message.len.into()).is_none_or(|end| i64::try_from(end).is_err()) {
            return Err(AppendError::OffsetsExhausted(Arc::clone(partition.name())));
        }
        let Some(large) = group.large(&message) else { return Ok((0, NONE)) };
        partition.write_large(message.id, large)?;
        if let Some(message) = group.puts.get_mut(put as usize) {
            message.offset = start;
        }
        self.roll_if_full(partition, segment);
        Ok((1, message.next))
    }

    /// A full segment gets its successor at once (02 §8).
    fn roll_if_full(&self, partition: &PartitionLog, segment: u64) {
        if partition.room_in_segment(segment) == 0
            && let Err(error) = partition.segment_for_next()
            && partition.poison().is_none()
        {
            // These records are stored; the next append tries again and answers with what still stands in the way.
            warn!(partition = %partition.name(), %error, "could not begin a new segment");
        }
    }
}

/// Refuses what did not become durable although it should have.
pub(super) fn check(groups: &mut [AppendGroup], log_failed: bool) {
    for group in groups {
        for batch in 0..group.batches.len() {
            let Some((first, partition)) = group.batches.get(batch).map(|b| (b.first, Arc::clone(&b.partition))) else {
                break;
            };
            if !partition.is_group_commit() && !log_failed {
                continue;
            }
            let visible = partition.visible.load(Ordering::Acquire);
            let mut next = first;
            while let Some(put) = group.puts.get(next as usize) {
                if put.is_stored() && put.end() > visible {
                    group.refuse_from(next, partition.poison_error());
                    break;
                }
                next = put.next;
            }
        }
    }
}

/// Gives groups back to where they came from, in their order.
pub(super) fn answer(groups: &mut Vec<AppendGroup>, count: usize) {
    let mut done = groups.drain(..count.min(groups.len())).peekable();
    let mut together = Vec::new();
    while let Some(group) = done.next() {
        let Some(sink) = group.sink().cloned() else { continue };
        together.push(group);
        while let Some(next) = done.next_if(|next| next.sink().is_some_and(|other| Arc::ptr_eq(other, &sink))) {
            together.push(next);
        }
        // The store outlives a fault in what it calls.
        if catch_unwind(AssertUnwindSafe(|| sink.complete(&mut together))).is_err() {
            error!("the receiver of an append's result panicked");
        }
        together.clear();
    }
}
