//! What was stored last and is not in the segment files yet (08 §3).
//!
//! Each partition has a tail in memory; together they are bounded. The segment writer files them in large writes.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::partition::PartitionLog;
use crate::common::guard::lock;

/// A tail of this size is written at once,
pub(super) const TAIL_BYTES: usize = 64 * 1024;

/// and by whoever appends if the segment writer does not come to it.
const TAIL_BYTES_MAX: usize = 4 * TAIL_BYTES;

/// Over all partitions: beyond the first the oldest are written, beyond the second by whoever appends.
const ALL_TAILS_BYTES: usize = 6 << 20;
const ALL_TAILS_BYTES_MAX: usize = 8 << 20;

/// Age at which a tail is written.
const TAIL_AGE: Duration = Duration::from_secs(1);

/// How soon a tail that found the disk full is tried again.
const RETRY_PERIOD: Duration = Duration::from_secs(1);

/// Memory that a tail begins with. Buffers that have grown are not kept: they would go to tails that need less.
const BUFFER_BYTES: usize = 16 * 1024;

/// Memory of written tails that is kept for the next ones: as much as tails may hold, so that it is used again instead of
/// being given out by one thread and given back by another.
const SPARE_BYTES: usize = ALL_TAILS_BYTES_MAX;

/// The tails of all partitions.
#[derive(Debug, Default)]
pub(super) struct Tails {
    bytes: AtomicUsize,
    queue: Mutex<Queue>,
    arrived: Condvar,
    spare: Mutex<Spare>,
}

/// Buffers, and the memory that they hold.
#[derive(Debug, Default)]
struct Spare {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Queue {
    /// Partitions whose tail came to its size.
    full: VecDeque<Arc<PartitionLog>>,
    /// Partitions with a tail, in the order in which their tails began; written ones may still be in it.
    by_age: VecDeque<(Instant, Arc<PartitionLog>)>,
    /// Partitions whose tail found the disk full.
    failed: VecDeque<Arc<PartitionLog>>,
    idle: bool,
    closed: bool,
}

impl Tails {
    /// An empty buffer.
    pub(super) fn take_buffer(&self) -> Vec<u8> {
        let mut spare = lock(&self.spare);
        match spare.buffers.pop() {
            Some(buffer) => {
                spare.bytes -= buffer.capacity();
                buffer
            }
            None => Vec::with_capacity(BUFFER_BYTES),
        }
    }

    /// Takes back the buffer of a tail that was written.
    pub(super) fn written(&self, mut buffer: Vec<u8>) {
        self.bytes.fetch_sub(buffer.len(), Ordering::Relaxed);
        buffer.clear();
        let mut spare = lock(&self.spare);
        if buffer.capacity() <= BUFFER_BYTES && spare.bytes + buffer.capacity() <= SPARE_BYTES {
            spare.bytes += buffer.capacity();
            spare.buffers.push(buffer);
        }
    }

    /// Counts bytes that are gone without having been written.
    pub(super) fn dropped(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Notes that a tail grew; `true` if the caller has to write it. The bytes are [added](Self::add) for several at
    /// once.
    pub(super) fn grew(&self, partition: &Arc<PartitionLog>, before: usize, after: usize) -> bool {
        let came_to_size = before < TAIL_BYTES && after >= TAIL_BYTES;
        if before == 0 || came_to_size {
            let mut queue = lock(&self.queue);
            if before == 0 {
                queue.by_age.push_back((Instant::now(), Arc::clone(partition)));
            }
            if came_to_size {
                queue.full.push_back(Arc::clone(partition));
                self.wake(queue);
            }
        }
        after >= TAIL_BYTES_MAX
    }

    /// Counts bytes that tails grew by.
    pub(super) fn add(&self, bytes: usize) {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before < ALL_TAILS_BYTES && before + bytes >= ALL_TAILS_BYTES {
            self.wake(lock(&self.queue));
        }
    }

    fn wake(&self, mut queue: MutexGuard<'_, Queue>) {
        if mem::take(&mut queue.idle) {
            drop(queue);
            self.arrived.notify_one();
        }
    }

    /// Whether more can be added without anything to be written first.
    pub(super) fn have_room(&self) -> bool {
        self.bytes() <= ALL_TAILS_BYTES_MAX
    }

    /// Writes the oldest tails until the bound holds, for whoever appends faster than the segment writer writes.
    pub(super) fn keep_bound(&self) {
        while self.bytes.load(Ordering::Relaxed) > ALL_TAILS_BYTES_MAX {
            let Some((_, oldest)) = lock(&self.queue).by_age.pop_front() else { return };
            self.file(&oldest);
        }
    }

    /// Writes the tail of a partition; one that finds the disk full is tried again later.
    pub(super) fn file(&self, partition: &Arc<PartitionLog>) {
        if partition.file_tail().is_err() && partition.tail_failed() {
            let mut queue = lock(&self.queue);
            if !queue.failed.iter().any(|failed| Arc::ptr_eq(failed, partition)) {
                queue.failed.push_back(Arc::clone(partition));
            }
        }
    }

    /// Tries again to write the tails that found the disk full, up to the first that still does.
    pub(super) fn retry_failed(&self) {
        loop {
            let Some(partition) = lock(&self.queue).failed.pop_front() else { return };
            self.file(&partition);
            if partition.tail_failed() {
                return;
            }
        }
    }

    /// Bytes of all tails.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Forgets the partitions.
    pub(super) fn clear(&self) {
        let mut queue = lock(&self.queue);
        queue.full.clear();
        queue.by_age.clear();
        queue.failed.clear();
    }

    pub(super) fn close(&self) {
        lock(&self.queue).closed = true;
        self.arrived.notify_all();
    }

    /// Body of the segment writer's thread.
    pub(super) fn run(&self) {
        let mut retry_at = Instant::now() + RETRY_PERIOD;
        while let Some(due) = self.next(retry_at) {
            match due {
                Due::Tail(partition) => self.file(&partition),
                Due::Retry => {
                    self.retry_failed();
                    retry_at = Instant::now() + RETRY_PERIOD;
                }
            }
        }
    }

    /// Waits for what is to be done next; `None` at the end.
    fn next(&self, retry_at: Instant) -> Option<Due> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.closed {
                return None;
            }
            let now = Instant::now();
            if let Some(partition) = queue.next_due(now, self.bytes() >= ALL_TAILS_BYTES) {
                return Some(Due::Tail(partition));
            }
            if now >= retry_at && !queue.failed.is_empty() {
                return Some(Due::Retry);
            }
            queue.idle = true;
            let wait = queue.by_age.front().map_or(TAIL_AGE, |(since, _)| TAIL_AGE.saturating_sub(since.elapsed()));
            (queue, _) = self
                .arrived
                .wait_timeout(queue, wait.max(Duration::from_millis(1)))
                .unwrap_or_else(PoisonError::into_inner);
            queue.idle = false;
        }
    }
}

enum Due {
    Tail(Arc<PartitionLog>),
    Retry,
}

impl Queue {
    fn next_due(&mut self, now: Instant, over_bound: bool) -> Option<Arc<PartitionLog>> {
        if let Some(partition) = self.full.pop_front() {
            return Some(partition);
        }
        let (since, _) = self.by_age.front()?;
        let is_due = over_bound || now.saturating_duration_since(*since) >= TAIL_AGE;
        if is_due { self.by_age.pop_front().map(|(_, partition)| partition) } else { None }
    }
}
