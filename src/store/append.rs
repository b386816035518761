//! What the committer is asked and what it answers.
//!
//! A group is built by whoever reads a connection, filled in when it is staged, and goes back to where it came from: its
//! buffers are used again, and nothing is allocated for a message.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::error::AppendError;
use super::partition::PartitionLog;
use crate::id::{MessageId, Offset, PartitionIndex};
use crate::message::{HEADER_LEN, RecordHeader};

/// A record of at least this many bytes goes straight to its segment instead of through the commit log (08 §3).
pub const LARGE_RECORD_BYTES: usize = 64 * 1024;

/// Batches up to which a partition's batch is searched one by one.
const FEW_BATCHES: usize = 32;

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The id it was given.
    pub id: MessageId,
    /// The partition it is in.
    pub index: PartitionIndex,
    /// Offset of its first byte.
    pub offset: Offset,
}

/// Takes groups that are done, in the order in which they were handed over.
pub trait AppendSink: Send + Sync {
    /// Takes all groups out of the vector. Runs on a committer's thread, or on that of whoever hands groups over to a
    /// closed store: it must not block.
    fn complete(&self, groups: &mut Vec<AppendGroup>);
}

/// Marks the end of a batch's chain.
pub(super) const NONE: u32 = u32::MAX;

/// An offset that no message has: the message was not stored.
const NOT_STORED: u64 = u64::MAX;

/// One message of a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Put {
    /// Whatever the builder wants to know again.
    token: u32,
    pub(super) batch: u32,
    /// The next message of the same batch, or [`NONE`].
    pub(super) next: u32,
    /// Where its record begins in the group's records; of a large one, its number among the large ones.
    at: u32,
    /// Bytes of the record.
    pub(super) len: u32,
    pub(super) offset: u64,
    pub(super) id: MessageId,
}

impl Put {
    pub(super) fn is_large(&self) -> bool {
        self.len as usize >= LARGE_RECORD_BYTES
    }

    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.len.into())
    }

    pub(super) fn is_stored(&self) -> bool {
        self.offset != NOT_STORED
    }

    pub(super) fn refuse(&mut self) {
        self.offset = NOT_STORED;
    }
}

/// The messages of one partition within a group, in order of arrival.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) partition: Arc<PartitionLog>,
    pub(super) first: u32,
    last: u32,
    /// Its messages are answered when they are durable; decided when they are stored.
    pub(super) group_commit: bool,
    /// Why messages of it were not stored.
    pub(super) error: Option<AppendError>,
}

#[derive(Debug)]
pub(super) struct LargeBody {
    pub(super) flag: i32,
    pub(super) checksum: i32,
    pub(super) body: Bytes,
}

/// Messages that are handed over and answered together, typically what one read of a connection brought.
#[derive(Default)]
pub struct AppendGroup {
    /// Small records one after the other in order of arrival, their ids still missing.
    records: Vec<u8>,
    large: Vec<LargeBody>,
    pub(super) puts: Vec<Put>,
    pub(super) batches: Vec<Batch>,
    large_bytes: usize,
    sink: Option<Arc<dyn AppendSink>>,
    /// Whatever the owner wants to know again when the group is done.
    pub context: Option<Box<dyn Any + Send>>,
}

impl fmt::Debug for AppendGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppendGroup").field("puts", &self.puts.len()).finish_non_exhaustive()
    }
}

impl AppendGroup {
    /// An empty group that goes to `sink` when it is done; without one its results are lost.
    pub fn new(sink: Arc<dyn AppendSink>) -> Self {
        Self { sink: Some(sink), ..Self::default() }
    }

    /// The same group for another sink.
    pub fn with_sink(mut self, sink: Arc<dyn AppendSink>) -> Self {
        self.sink = Some(sink);
        self
    }

    /// Bytes of memory that its buffers hold.
    pub fn capacity(&self) -> usize {
        self.records.capacity() + self.puts.capacity() * size_of::<Put>()
    }

    /// Empties the group for its next use, perhaps with another sink; its buffers stay.
    pub fn clear(&mut self) {
        self.sink = None;
        self.context = None;
        self.records.clear();
        self.large.clear();
        self.puts.clear();
        self.batches.clear();
        self.large_bytes = 0;
    }

    /// Adds a message, copying its body. `checksum` is that of the body, verified or computed by the caller; `token` is
    /// told again with the result.
    pub fn push(&mut self, partition: &Arc<PartitionLog>, flag: i32, checksum: i32, body: &[u8], token: u32) {
        if HEADER_LEN + body.len() >= LARGE_RECORD_BYTES {
            return self.push_large(partition, flag, checksum, Bytes::copy_from_slice(body), token);
        }
        let at = self.records.len();
        // The body is smaller than a large record.
        let length = i32::try_from(body.len()).unwrap_or(i32::MAX);
        RecordHeader { length, checksum, id: MessageId::default(), flag }.encode(&mut self.records);
        self.records.extend_from_slice(body);
        self.add(partition, at, HEADER_LEN + body.len(), token);
    }

    /// Adds a message without copying a large body.
    pub fn push_bytes(&mut self, partition: &Arc<PartitionLog>, flag: i32, checksum: i32, body: Bytes, token: u32) {
        if HEADER_LEN + body.len() >= LARGE_RECORD_BYTES {
            self.push_large(partition, flag, checksum, body, token);
        } else {
            self.push(partition, flag, checksum, &body, token);
        }
    }

    fn push_large(&mut self, partition: &Arc<PartitionLog>, flag: i32, checksum: i32, body: Bytes, token: u32) {
        let at = self.large.len();
        let len = HEADER_LEN + body.len();
        self.large_bytes += body.len();
        self.large.push(LargeBody { flag, checksum, body });
        self.add(partition, at, len, token);
    }

    fn add(&mut self, partition: &Arc<PartitionLog>, at: usize, len: usize, token: u32) {
        // A body has at most 2^31-1 bytes, and a group is full long before it has so many messages.
        let number = |n: usize| u32::try_from(n).unwrap_or(NONE);
        let put = number(self.puts.len());
        let batch = self.batch_of(partition);
        match self.batches.get_mut(batch) {
            Some(batch) => {
                if let Some(last) = self.puts.get_mut(batch.last as usize) {
                    last.next = put;
                }
                batch.last = put;
            }
            None => self.batches.push(Batch {
                partition: Arc::clone(partition),
                first: put,
                last: put,
                group_commit: false,
                error: None,
            }),
        }
        self.puts.push(Put {
            token,
            batch: number(batch),
            next: NONE,
            at: number(at),
            len: number(len),
            offset: NOT_STORED,
            id: MessageId::default(),
        });
    }

    /// The number of the partition's batch, which may be the next one.
    fn batch_of(&self, partition: &Arc<PartitionLog>) -> usize {
        let is_same = |batch: &Batch| Arc::ptr_eq(&batch.partition, partition);
        if let Some(last) = self.puts.last()
            && self.batches.get(last.batch as usize).is_some_and(is_same)
        {
            return last.batch as usize;
        }
        // A further batch of the same partition does no harm: with very many, only the last ones are searched.
        let searched = self.batches.len().saturating_sub(FEW_BATCHES);
        let found = self.batches.iter().skip(searched).rposition(is_same);
        found.map_or(self.batches.len(), |i| searched + i)
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.puts.len()
    }

    /// Whether it has no messages.
    pub fn is_empty(&self) -> bool {
        self.puts.is_empty()
    }

    /// Bytes of its records.
    pub fn bytes(&self) -> usize {
        self.records.len() + self.large_bytes
    }

    /// Bytes of the bodies of its messages.
    pub fn body_bytes(&self) -> usize {
        let small = self.puts.len() - self.large.len();
        self.records.len() - small * HEADER_LEN + self.large_bytes
    }

    /// Bytes of its large bodies.
    pub(super) fn large_bytes(&self) -> usize {
        self.large_bytes
    }

    /// Whether all its messages are answered as soon as they are written, by the settings of now.
    pub fn waits_for_no_sync(&self) -> bool {
        self.large.is_empty() && self.batches.iter().all(|batch| !batch.partition.is_group_commit())
    }

    /// Where the last stored message of a batch ends.
    pub(super) fn end_of(&self, batch: &Batch) -> Option<u64> {
        let last = self.puts.get(batch.last as usize)?;
        if last.is_stored() {
            return Some(last.end());
        }
        let stored = |put: &&Put| {
            put.is_stored() && self.batches.get(put.batch as usize).is_some_and(|b| std::ptr::eq(b, batch))
        };
        self.puts.iter().rev().find(stored).map(Put::end)
    }

    /// The record of a small message.
    pub(super) fn record(&self, put: &Put) -> &[u8] {
        let at = put.at as usize;
        self.records.get(at..at + put.len as usize).unwrap_or_default()
    }

    pub(super) fn large(&self, put: &Put) -> Option<&LargeBody> {
        self.large.get(put.at as usize)
    }

    /// What became of each message, in order of arrival, with its token and its partition.
    pub fn results(&self) -> impl Iterator<Item = (u32, &PartitionLog, Result<Appended, AppendError>)> {
        self.puts.iter().filter_map(|put| {
            let batch = self.batches.get(put.batch as usize)?;
            let result = match &batch.error {
                _ if put.is_stored() => Ok(Appended {
                    id: put.id,
                    index: batch.partition.index(),
                    offset: Offset::new(put.offset.cast_signed()),
                }),
                Some(error) => Err(error.clone()),
                None => Err(AppendError::Closed),
            };
            Some((put.token, &*batch.partition, result))
        })
    }

    /// Refuses the message `first` of a batch and all of the same batch behind it.
    pub(super) fn refuse_from(&mut self, first: u32, error: AppendError) {
        let mut next = first;
        let mut batch = None;
        while let Some(put) = self.puts.get_mut(next as usize) {
            put.refuse();
            batch = Some(put.batch);
            next = put.next;
        }
        if let Some(batch) = batch.and_then(|batch| self.batches.get_mut(batch as usize)) {
            batch.error = Some(error);
        }
    }

    /// Refuses everything.
    pub(super) fn refuse_all(&mut self, error: &AppendError) {
        self.puts.iter_mut().for_each(Put::refuse);
        self.batches.iter_mut().for_each(|batch| batch.error = Some(error.clone()));
    }

    pub(super) fn sink(&self) -> Option<&Arc<dyn AppendSink>> {
        self.sink.as_ref()
    }
}
