//! One round: what is staged gets offsets and frames, one write takes all of it to the log, and whoever made it durable
//! settles and answers it (08 §3).

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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

/// Room that a frame is given in the log beyond its records.
const FRAME_OVERHEAD: usize = 512;

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
    /// Groups that have their offsets; their frames are in the log's buffer or written.
    staged: Vec<AppendGroup>,
    /// Of these, the ones at the front that wait for no sync.
    without_sync: usize,
    needs_sync: bool,
    tail_bytes: usize,
}

/// Groups that are written, and what remains to be done.
#[derive(Debug)]
pub(super) struct Written {
    /// Groups at the front that need no sync. Behind one that does the others wait too, so that answers keep the order
    /// of arrival.
    pub(super) without_sync: usize,
    /// What the others wait for, unless it is durable already.
    pub(super) sync: Option<Covered>,
    /// The last sequence of their frames.
    pub(super) sequence: u64,
    /// The number of the round: 0, 1, 2…
    pub(super) number: u64,
}

impl Round {
    pub(super) fn new(shared: Arc<Shared>, ids: Arc<IdGenerator>, flusher: Arc<Flusher>, log: LogWriter) -> Self {
        Self {
            shared,
            ids,
            flusher,
            log,
            drawn: Vec::new(),
            number: 0,
            staged: Vec::new(),
            without_sync: 0,
            needs_sync: false,
            tail_bytes: 0,
        }
    }

    pub(super) fn log(&mut self) -> &mut LogWriter {
        &mut self.log
    }

    pub(super) fn has_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    /// Whether a group can be staged without waiting for a disk.
    pub(super) fn is_ready_for(&self, group: &AppendGroup) -> bool {
        let bytes = group.bytes();
        group.large_bytes() == 0
            && self.log.has_room(bytes + group.batches.len() * FRAME_OVERHEAD)
            && self.shared.tails.have_room()
            && group.batches.iter().all(|batch| batch.partition.is_ready_for(bytes))
    }

    /// Gives all messages of a group their ids and offsets.
    pub(super) fn stage(&mut self, mut group: AppendGroup) {
        self.drawn.clear();
        self.ids.draw(group.len(), &mut self.drawn);
        for (put, id) in group.puts.iter_mut().zip(&self.drawn) {
            put.id = *id;
        }
        for batch in 0..group.batches.len() {
            let Some(place) = group.batches.get_mut(batch) else { break };
            let partition = Arc::clone(&place.partition);
            place.group_commit = partition.is_group_commit();
            self.needs_sync |= place.group_commit;
            self.append(&mut group, batch, &partition);
        }
        self.shared.tails.add(mem::take(&mut self.tail_bytes));
        self.without_sync += usize::from(!self.needs_sync);
        self.staged.push(group);
    }

    /// Writes what is staged and moves it to the empty `groups`.
    pub(super) fn write(&mut self, groups: &mut Vec<AppendGroup>) -> Written {
        let number = self.number;
        self.number += 1;
        mem::swap(&mut self.staged, groups);
        let needs_sync = mem::take(&mut self.needs_sync);
        let mut without_sync = mem::take(&mut self.without_sync);
        let mut sync = None;
        if self.log.write().is_err() {
            // Every put that is not durable already is refused.
            without_sync = 0;
        } else if needs_sync {
            sync = self.log.unsynced();
        }
        self.tell_flusher(groups, needs_sync);
        self.shared.tails.keep_bound();
        Written { without_sync, sync, sequence: self.log.last_sequence(), number }
    }

    fn tell_flusher(&self, groups: &[AppendGroup], syncs_now: bool) {
        let now = Instant::now();
        let batches = groups.iter().flat_map(|group| &group.batches).filter(|batch| !batch.group_commit);
        let mut wake = false;
        for partition in batches.map(|batch| &batch.partition) {
            if partition.is_flush_awaited() {
                self.flusher.flush_soon(partition);
            }
            wake |= partition.needs_scheduling();
            wake |= !syncs_now && partition.is_dirty() && partition.flush_due_in(now) == Duration::ZERO;
        }
        if wake {
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
                _ => self.append_frame(group, batch, next, partition),
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
        let count = |counter: &AtomicU64| counter.store(counter.load(Ordering::Relaxed) + messages, Ordering::Relaxed);
        count(&partition.messages);
        if group.batches.get(batch).is_some_and(|batch| !batch.group_commit) {
            count(&partition.to_flush);
        }
    }

    /// Frames the small messages from `first` on, as many as fit a frame and the segment: how many those were, and the
    /// one behind them.
    fn append_frame(
        &mut self,
        group: &mut AppendGroup,
        batch: usize,
        first: u32,
        partition: &Arc<PartitionLog>,
    ) -> Result<(u64, u32), AppendError> {
        let segment = self.segment_for_next(partition)?;
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
        let group_commit = group.batches.get(batch).is_some_and(|batch| batch.group_commit);
        self.log.end_records(begun, partition, group_commit);
        let records = self.log.buffer().get(records..).unwrap_or_default();
        self.tail_bytes += records.len();
        if partition.add_to_tail(records) {
            // It is accounted for before it is written.
            self.shared.tails.add(mem::take(&mut self.tail_bytes));
            self.shared.tails.file(partition);
        }
        self.roll_if_full(partition, segment);
        Ok((count, end_of_frame))
    }

    fn append_large(
        &mut self,
        group: &mut AppendGroup,
        put: u32,
        partition: &Arc<PartitionLog>,
    ) -> Result<(u64, u32), AppendError> {
        let segment = self.segment_for_next(partition)?;
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

    /// The segment that the next record goes to. A new one begins only when everything before it is durable: whatever a
    /// crash leaves, the earlier one can be filled up to it.
    fn segment_for_next(&mut self, partition: &PartitionLog) -> Result<u64, AppendError> {
        if partition.is_about_to_roll() {
            self.log.make_durable()?;
        }
        partition.segment_for_next()
    }

    /// A full segment gets its successor at once (02 §8).
    fn roll_if_full(&mut self, partition: &PartitionLog, segment: u64) {
        if partition.room_in_segment(segment) == 0
            && let Err(error) = self.segment_for_next(partition)
            && partition.poison().is_none()
        {
            // These records are stored; the next append tries again and answers with what still stands in the way.
            warn!(partition = %partition.name(), %error, "could not begin a new segment");
        }
    }
}

/// Lets readers see what has become durable, and refuses what has not although it should have.
pub(super) fn settle(groups: &mut [AppendGroup], is_durable: bool, log_failed: bool) {
    for group in groups {
        for batch in 0..group.batches.len() {
            let Some(place) = group.batches.get(batch) else { break };
            if place.group_commit && is_durable {
                if let Some(end) = group.end_of(place) {
                    place.partition.mark_visible(end);
                }
            } else if place.group_commit || log_failed {
                refuse_invisible(group, batch);
            }
        }
    }
}

fn refuse_invisible(group: &mut AppendGroup, batch: usize) {
    let Some(place) = group.batches.get(batch) else { return };
    let (mut next, partition) = (place.first, Arc::clone(&place.partition));
    let visible = partition.visible.load(Ordering::Acquire);
    while let Some(put) = group.puts.get(next as usize) {
        if put.is_stored() && put.end() > visible {
            return group.refuse_from(next, partition.poison_error());
        }
        next = put.next;
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
