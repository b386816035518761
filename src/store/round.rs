//! One round of the committer: order by partition, write, make durable, answer.

use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::error;

use super::append::{Append, AppendGroup, Appended, Done};
use super::durability::Durability;
use super::error::AppendError;
use super::flush::Flusher;
use super::gather::{Gather, Outgoing};
use super::ids::IdGenerator;
use super::partition::PartitionLog;
use crate::id::{MessageId, Offset};
use crate::message::HEADER_LEN;

/// The committer's tools and its buffers, which are reused.
pub(super) struct Round {
    ids: Arc<IdGenerator>,
    flusher: Arc<Flusher>,
    durability: Box<dyn Durability>,
    gather: Gather,
    puts: Vec<Append>,
    /// For each put the number of its batch.
    batch_of: Vec<usize>,
    /// Batches by the address of their partition.
    known: HashMap<usize, usize>,
    drawn: Vec<MessageId>,
    results: Vec<Result<Appended, AppendError>>,
}

impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Round").finish_non_exhaustive()
    }
}

/// The puts of one partition within a round.
struct Batch {
    partition: Arc<PartitionLog>,
    puts: Vec<usize>,
    group_commit: bool,
}

/// A group whose puts are in the round.
struct Pending {
    count: usize,
    done: Done,
}

impl Round {
    pub(super) fn new(ids: Arc<IdGenerator>, flusher: Arc<Flusher>, durability: Box<dyn Durability>) -> Self {
        Self {
            ids,
            flusher,
            durability,
            gather: Gather::default(),
            puts: Vec::new(),
            batch_of: Vec::new(),
            known: HashMap::new(),
            drawn: Vec::new(),
            results: Vec::new(),
        }
    }

    /// Stores and answers all groups.
    ///
    /// Those at the front that need no sync are answered before the syncs; behind one that needs it they wait, so that
    /// answers keep the order of arrival.
    pub(super) fn run(&mut self, groups: &mut Vec<AppendGroup>) {
        let mut pending: Vec<Pending> = Vec::with_capacity(groups.len());
        for AppendGroup { puts, done } in groups.drain(..) {
            pending.push(Pending { count: puts.len(), done });
            self.puts.extend(puts);
        }
        let batches = self.sort_into_batches();
        self.ids.draw(self.puts.len(), &mut self.drawn);
        // What no write answers is refused.
        self.results.resize_with(self.puts.len(), || Err(AppendError::Closed));
        for batch in &batches {
            self.write(batch);
        }

        let mut pending = pending.into_iter().peekable();
        let mut answered = 0;
        while let Some(Pending { count, done }) =
            pending.next_if(|next| !self.needs_sync(&batches, answered, next.count))
        {
            self.answer(answered, count, done);
            answered += count;
        }
        self.sync(&batches);
        for Pending { count, done } in pending {
            self.answer(answered, count, done);
            answered += count;
        }

        for batch in batches.iter().filter(|batch| batch.partition.is_flush_awaited()) {
            self.flusher.flush_soon(&batch.partition);
        }
        let unknown_to_flusher = batches.iter().filter(|batch| batch.partition.needs_scheduling()).count();
        if unknown_to_flusher > 0 {
            self.flusher.wake();
        }
        self.puts.clear();
        self.batch_of.clear();
        self.drawn.clear();
        self.results.clear();
    }

    /// Groups the puts by partition, keeping their order.
    fn sort_into_batches(&mut self) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        self.known.clear();
        for (i, put) in self.puts.iter().enumerate() {
            if let Some(&batch) = self.batch_of.last()
                && Arc::ptr_eq(&batches[batch].partition, &put.partition)
            {
                batches[batch].puts.push(i);
                self.batch_of.push(batch);
                continue;
            }
            let batch = *self.known.entry(Arc::as_ptr(&put.partition).addr()).or_insert_with(|| {
                let partition = Arc::clone(&put.partition);
                let group_commit = partition.is_group_commit();
                batches.push(Batch { partition, puts: Vec::new(), group_commit });
                batches.len() - 1
            });
            batches[batch].puts.push(i);
            self.batch_of.push(batch);
        }
        batches
    }

    fn write(&mut self, batch: &Batch) {
        let Self { puts, drawn, results, gather, .. } = self;
        let mut records = Vec::with_capacity(batch.puts.len());
        let mut numbers = Vec::with_capacity(batch.puts.len());
        for &i in &batch.puts {
            let Append { flag, checksum, body, .. } = &puts[i];
            match i32::try_from(body.len()) {
                Ok(length) => {
                    records.push(Outgoing { id: drawn[i], flag: *flag, checksum: *checksum, length, body });
                    numbers.push(i);
                }
                Err(_) => results[i] = Err(AppendError::BodyTooLong(body.len())),
            }
        }
        let index = batch.partition.index();
        batch.partition.append(&records, gather, &mut |record, offset| {
            let i = numbers[record];
            results[i] = offset.map(|offset| Appended { id: drawn[i], index, offset });
        });
    }

    fn needs_sync(&self, batches: &[Batch], first: usize, count: usize) -> bool {
        self.batch_of.iter().skip(first).take(count).any(|&batch| batches[batch].group_commit)
    }

    /// Syncs what must be, and turns messages that did not become durable into errors.
    fn sync(&mut self, batches: &[Batch]) {
        let now = Instant::now();
        let due = |batch: &&Batch| {
            let partition = &batch.partition;
            partition.is_dirty() && (batch.group_commit || partition.flush_due_in(now) == Duration::ZERO)
        };
        let touched: Vec<&PartitionLog> = batches.iter().filter(due).map(|batch| &*batch.partition).collect();
        if !touched.is_empty() {
            self.durability.make_durable(&touched);
        }
        for batch in batches.iter().filter(|batch| batch.group_commit) {
            let visible = batch.partition.max_offset();
            for &i in &batch.puts {
                let end = |offset: Offset| offset.checked_add((HEADER_LEN + self.puts[i].body.len()) as u64);
                if let Ok(Appended { offset, .. }) = self.results[i]
                    && end(offset).is_none_or(|end| end > visible)
                {
                    self.results[i] = Err(batch.partition.poison_error());
                }
            }
        }
    }

    fn answer(&mut self, first: usize, count: usize, done: Done) {
        let results = self.results.iter_mut().skip(first).take(count);
        let results = results.map(|result| mem::replace(result, Err(AppendError::Closed))).collect();
        // The store outlives a fault in what it calls.
        if catch_unwind(AssertUnwindSafe(|| done(results))).is_err() {
            error!("the receiver of an append's result panicked");
        }
    }
}
