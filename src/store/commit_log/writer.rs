//! The writing end of the commit log (08 §2–3).

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::format::{Begun, FileHeader, HEADER_LEN, Seed, begin_forget, begin_records, begin_table, records_overhead};
use super::pool::{LogFile, Pool, Sealed};
use super::syncs::{Covered, Lane, Syncs, poison};
use super::table::Checkpoint;
use crate::common::guard::lock;
use crate::store::checkpoint::Checkpointer;
use crate::store::error::AppendError;
use crate::store::fs::write_all_at;
use crate::store::partition::{PartitionLog, Shared, Unsynced};
use crate::store::topics::Topics;

/// Frames that are gathered before they are written in the middle of a round.
const BUFFER_BYTES: usize = 1 << 20;

/// Gathers frames and writes them, file after file. Owned by the round.
#[derive(Debug)]
pub(in crate::store) struct LogWriter {
    shared: Arc<Shared>,
    topics: Arc<Topics>,
    pool: Arc<Pool>,
    syncs: Arc<Syncs>,
    checkpointer: Arc<Checkpointer>,
    log_id: u64,
    /// Of the next frame.
    sequence: u64,
    current: Option<Current>,
    /// Frames that are not written yet.
    buffer: Vec<u8>,
    dirty: Vec<Arc<PartitionLog>>,
    spare: Vec<(Arc<PartitionLog>, Unsynced)>,
}

#[derive(Debug)]
struct Current {
    file: LogFile,
    number: u64,
    seed: Seed,
    /// Where the buffer will be written.
    position: u64,
    /// Where no further frame begins that would not end before it.
    end: u64,
    pins: Vec<Arc<PartitionLog>>,
}

impl LogWriter {
    /// A log without a file: the first frame takes one.
    pub(in crate::store) fn new(
        shared: Arc<Shared>,
        topics: Arc<Topics>,
        pool: Arc<Pool>,
        syncs: Arc<Syncs>,
        checkpointer: Arc<Checkpointer>,
    ) -> Self {
        let sequence = syncs.durable() + 1;
        Self {
            shared,
            topics,
            pool,
            syncs,
            checkpointer,
            log_id: fastrand::u64(..),
            sequence,
            current: None,
            buffer: Vec::new(),
            dirty: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Whether so many bytes of frames can be added without waiting for another file.
    pub(in crate::store) fn has_room(&self, bytes: usize) -> bool {
        let fits = |current: &Current| current.position + (self.buffer.len() + bytes) as u64 <= current.end;
        self.current.as_ref().is_some_and(fits)
    }

    /// Begins a frame for up to `bytes` bytes of records, which are appended to [`buffer`](Self::buffer) next.
    ///
    /// # Errors
    /// When the log failed, or has no file left and cannot get one for want of space.
    pub(in crate::store) fn begin_records(
        &mut self,
        partition: &PartitionLog,
        segment: u64,
        offset: u64,
        bytes: usize,
    ) -> Result<Begun, AppendError> {
        self.make_room(records_overhead(partition.topic()) + bytes)?;
        Ok(begin_records(&mut self.buffer, partition.topic(), partition.index(), segment, offset))
    }

    /// Where the records of a frame go.
    pub(in crate::store) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Ends a frame of records. In group commit the groups themselves tell what becomes visible.
    pub(in crate::store) fn end_records(&mut self, begun: Begun, partition: &Arc<PartitionLog>, group_commit: bool) {
        self.finish(begun);
        let Some(current) = &mut self.current else { return };
        if partition.pinned_file.load(Ordering::Relaxed) != current.number {
            partition.pinned_file.store(current.number, Ordering::Relaxed);
            current.pins.push(Arc::clone(partition));
        }
        if !group_commit && !partition.in_dirty_list.load(Ordering::Relaxed) {
            partition.in_dirty_list.store(true, Ordering::Relaxed);
            self.dirty.push(Arc::clone(partition));
        }
    }

    /// The sequence of the last frame.
    pub(in crate::store) fn last_sequence(&self) -> u64 {
        self.sequence - 1
    }

    /// Voids all frames of a partition, durably.
    ///
    /// # Errors
    /// As of [`begin_records`](Self::begin_records), or when the log fails.
    pub(in crate::store) fn forget(&mut self, partition: &PartitionLog) -> Result<(), AppendError> {
        self.make_room(records_overhead(partition.topic()))?;
        let begun = begin_forget(&mut self.buffer, partition.topic(), partition.index());
        self.finish(begun);
        self.make_durable()
    }

    fn finish(&mut self, begun: Begun) {
        let Some(current) = &self.current else { return };
        begun.finish(&mut self.buffer, current.seed, self.sequence, self.syncs.durable());
        self.sequence += 1;
    }

    fn make_room(&mut self, bytes: usize) -> Result<(), AppendError> {
        if self.buffer.len() >= BUFFER_BYTES {
            self.write()?;
        }
        if self.has_room(bytes) { Ok(()) } else { self.next_file() }
    }

    /// Writes what is gathered.
    ///
    /// # Errors
    /// When the log fails, which ends it.
    pub(in crate::store) fn write(&mut self) -> Result<(), AppendError> {
        if let Some(reason) = self.shared.log_poison.get() {
            self.buffer.clear();
            return Err(AppendError::LogFailed(Arc::clone(reason)));
        }
        let Some(current) = self.current.as_mut().filter(|_| !self.buffer.is_empty()) else { return Ok(()) };
        let LogFile { path, file, .. } = current.file.clone();
        let start = Instant::now();
        let result = write_all_at(&*file, &mut [IoSlice::new(&self.buffer)], current.position);
        self.shared.times.log_write.record(start.elapsed());
        current.position += self.buffer.len() as u64;
        self.buffer.clear();
        result.map_err(|error| self.fail(&format!("write to the commit log {} failed: {error}", path.display())))
    }

    fn fail(&self, reason: &str) -> AppendError {
        poison(&self.shared, reason);
        let reason = self.shared.log_poison.get().cloned().unwrap_or_else(|| reason.into());
        AppendError::LogFailed(reason)
    }

    /// What a sync has to cover for everything written to become durable; `None` if it is.
    pub(in crate::store) fn unsynced(&mut self) -> Option<Covered> {
        let current = self.current.as_ref()?;
        if self.sequence <= self.syncs.durable() + 1 && self.dirty.is_empty() {
            return None;
        }
        let mut partitions = std::mem::take(&mut self.spare);
        partitions.extend(self.dirty.drain(..).map(|partition| {
            partition.in_dirty_list.store(false, Ordering::Relaxed);
            let unsynced = partition.about_to_sync();
            (partition, unsynced)
        }));
        let file = current.file.clone();
        Some(Covered { file, sequence: self.sequence - 1, partitions })
    }

    /// Takes back a list that a sync has emptied.
    pub(in crate::store) fn reuse(&mut self, list: Vec<(Arc<PartitionLog>, Unsynced)>) {
        if list.capacity() > self.spare.capacity() {
            self.spare = list;
        }
    }

    /// Writes and syncs everything framed so far.
    ///
    /// # Errors
    /// When the log fails.
    pub(in crate::store) fn make_durable(&mut self) -> Result<(), AppendError> {
        self.write()?;
        if let Some(covered) = self.unsynced() {
            self.syncs.sync(&covered, Lane::Writer);
            self.spare = self.syncs.mark(covered);
        }
        match self.shared.log_poison.get() {
            Some(reason) => Err(AppendError::LogFailed(Arc::clone(reason))),
            None => Ok(()),
        }
    }

    /// Ends the current file, durably, and begins the next one.
    fn next_file(&mut self) -> Result<(), AppendError> {
        self.make_durable()?;
        let file = self.wait_for_file()?;
        if let Some(Current { file, number, pins, .. }) = self.current.take() {
            self.pool.seal(Sealed { file, number, pins: pins.into() });
        }
        self.begin_file(file)
    }

    fn wait_for_file(&self) -> Result<LogFile, AppendError> {
        let mut first = true;
        loop {
            if let Some(file) = self.pool.take() {
                return Ok(file);
            }
            // The current file is not sealed yet, so there is something to wait for only if others are.
            self.checkpointer.help_out()?;
            self.pool.wait(first)?;
            first = false;
        }
    }

    fn begin_file(&mut self, file: LogFile) -> Result<(), AppendError> {
        let number = self.pool.draw_number();
        let table = self.checkpoint_table();
        let header = FileHeader { log_id: self.log_id, file_number: number, first_sequence: self.sequence, table };
        let seed = header.seed();
        let mut bytes = Vec::with_capacity(HEADER_LEN);
        let fitting = header.encode(&mut bytes);
        let mut rest = header.table.get(fitting..).unwrap_or_default();
        while !rest.is_empty() {
            let (begun, count) = begin_table(&mut bytes, rest);
            begun.finish(&mut bytes, seed, self.sequence, self.syncs.durable());
            self.sequence += 1;
            rest = rest.get(count.max(1)..).unwrap_or_default();
        }
        let written = write_all_at(&*file.file, &mut [IoSlice::new(&bytes)], 0).and_then(|()| file.file.sync_data());
        let path = file.path.display();
        written.map_err(|error| self.fail(&format!("could not begin the file {path} of the commit log: {error}")))?;
        let position = bytes.len() as u64;
        // A table that leaves too little room makes the file grow: otherwise each frame might need a file of its own.
        let end = self.pool.file_bytes().max(position + self.pool.file_bytes() / 2);
        self.current = Some(Current { file, number, seed, position, end, pins: Vec::new() });
        Ok(())
    }

    /// What is durable in the segments themselves.
    fn checkpoint_table(&self) -> Vec<Checkpoint> {
        let entry = |partition: &Arc<PartitionLog>| {
            let is_whole = partition.checkpointed.load(Ordering::Acquire) == partition.written.load(Ordering::Acquire);
            if is_whole { lock(&partition.checkpoint).clone() } else { None }
        };
        self.topics.all().iter().filter_map(entry).collect()
    }
}
