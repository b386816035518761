//! Reading stored offsets, gets, offset queries, and what follows from their answers (05 §8, §10).

use std::sync::Arc;
use std::time::Duration;

use tokio::task::Id;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::fetch::event::FetchEvent;
use crate::fetch::request::{FetchRequest, Invalid, SENT_ON};
use crate::fetch::{Batch, Get, SourceError, StorageError};
use crate::id::{BrokerId, Offset};
use crate::zk::format::StoredOffset;

use super::answer::{Answer, Messages, parse};
use super::scheduler::{Done, Scheduler, Work, as_text};
use super::slot::{Fetched, Key, Slot, Stage};

/// The reference's text, and what to do.
pub(super) fn timed_out(after: Duration) -> SourceError {
    format!(
        "Send message timeout in {} mills; look at the broker and the network, or raise the fetch time-out",
        after.as_millis()
    )
    .into()
}

impl Scheduler {
    /// The time of a partition has come: of its next get, or of a time-out.
    pub(super) fn due(&mut self, of: &Key, now: Instant) {
        let Some(slot) = self.slots.get_mut(&**of) else { return };
        match &slot.stage {
            Stage::Getting { task, .. } | Stage::Querying(task) => {
                task.abort();
                self.get_failed(of, &timed_out(self.options.fetch_timeout), now);
            }
            Stage::Loading(task) => {
                task.abort();
                let error = self.storage_timed_out().into();
                self.load_failed(of, &error, now);
            }
            Stage::Queued if slot.request.is_none() => self.load(of, now),
            Stage::Queued => self.want_room(of, now),
            _ => {}
        }
    }

    fn load(&mut self, of: &Key, now: Instant) {
        if self.commits.concerns(of) {
            // What an earlier stay of the partition commits must be there before it is read; the commit's end goes on here.
            self.set_stage(of, Stage::Idle);
            return;
        }
        let (storage, group, name) = (Arc::clone(&self.storage), self.group.clone(), Arc::clone(of));
        let task = self.spawn(Work::Load(Arc::clone(of)), async move {
            Done::Loaded(storage.load(&group, &name).await.map_err(as_text))
        });
        self.set_stage(of, Stage::Loading(task));
        self.queue.put(Arc::clone(of), now + self.options.storage_timeout);
    }

    pub(super) fn loaded(
        &mut self,
        of: &Key,
        id: Id,
        result: Result<Option<StoredOffset>, StorageError>,
        now: Instant,
    ) {
        let limits = self.limits;
        let Some(slot) = self.slots.get_mut(&**of).filter(|slot| slot.runs(id)) else { return };
        self.queue.remove(of);
        match result {
            Ok(stored) => {
                let start = match slot.seek {
                    _ if self.options.always_from_max && slot.seek.is_none() => Offset::LATEST,
                    Some(to) => to.offset(),
                    None => stored.map_or(self.options.start.offset(), |stored| stored.offset),
                };
                let unknown = StoredOffset { offset: start, message_id: None };
                let position = stored.filter(|stored| stored.offset == start).unwrap_or(unknown);
                let mut request = FetchRequest::new(position, slot.size, limits);
                let sought = slot.seek.take();
                if let Some(to) = sought {
                    request.seek(to.offset());
                }
                slot.committed = stored;
                slot.request = Some(request);
                if sought.is_some() {
                    let from = stored.map_or(Offset::ZERO, |stored| stored.offset);
                    self.tell(&FetchEvent::Sought { of: Arc::clone(of), from });
                }
                debug!(group = %self.group, partition = %of, offset = %start, "begins to read");
                self.works_again(of, now);
                self.schedule(of, now);
            }
            Err(error) => self.load_failed(of, &error, now),
        }
    }

    fn load_failed(&mut self, of: &Key, error: &StorageError, now: Instant) {
        let Some(slot) = self.slots.get_mut(&**of) else { return };
        slot.load_delay = self.limits.grow(slot.load_delay);
        let due = now + slot.load_delay;
        slot.failing = true;
        // Each gets its line in the end: that one node is damaged tells nothing of another one.
        if !slot.load_told && self.outages.load().is_some() {
            slot.load_told = true;
            let partitions = self.slots.values().filter(|slot| slot.request.is_none() && slot.failing).count();
            warn!(
                group = %self.group, partition = %of, %error, partitions,
                "cannot read the stored offset, trying again for ever; nothing is read until then"
            );
        }
        self.tell(&FetchEvent::LoadFailed { of: Arc::clone(of), error: error.to_string() });
        self.schedule(of, due);
    }

    /// Begins a get at once if no room must be reserved, else when there is some.
    fn want_room(&mut self, of: &Key, now: Instant) {
        let request = self.slots.get(&**of).and_then(|slot| slot.request.as_ref());
        if request.is_some_and(|request| !request.expects_data()) {
            self.get(of, 0, now);
        } else {
            self.set_stage(of, Stage::Waiting);
            self.waiting.push_back(Arc::clone(of));
        }
    }

    /// Gives the budget's room to those who wait for it, in their order.
    pub(super) fn give_room(&mut self, now: Instant) {
        while let Some(of) = self.waiting.front().cloned() {
            let request = self.slots.get(&*of).and_then(|slot| slot.request.as_ref());
            let bytes = request.map_or(0, |request| usize::try_from(request.ask()).unwrap_or(0));
            if !self.budget.reserve(bytes) {
                return;
            }
            self.waiting.pop_front();
            self.get(&of, bytes, now);
        }
    }

    fn get(&mut self, of: &Key, reserved: usize, now: Instant) {
        let Some(request) = self.slots.get(&**of).and_then(|slot| slot.request.as_ref()) else {
            self.budget.release(reserved);
            return;
        };
        let (offset, asked, wait) = (request.position().offset, request.ask(), self.options.held());
        let (source, name) = (Arc::clone(&self.source), Arc::clone(of));
        let body_limit = self.options.max_read_buffer_size;
        let task = self.spawn(Work::Get { of: Arc::clone(of), reserved }, async move {
            let answer = source.get(Get { from: &name, offset, max_size: asked, wait }).await;
            Done::Got(answer.map(|fetched| parse(&name, offset, fetched, body_limit)).map_err(as_text))
        });
        self.set_stage(of, Stage::Getting { task, asked, since: now });
        self.queue.put(Arc::clone(of), now + self.options.fetch_timeout);
    }

    pub(super) fn got(&mut self, of: &Key, id: Id, reserved: usize, result: Result<Answer, SourceError>, now: Instant) {
        self.budget.release(reserved);
        let Some(slot) = self.slots.get_mut(&**of).filter(|slot| slot.runs(id)) else { return };
        let (Stage::Getting { asked, since, .. }, Some(request)) = (&slot.stage, &mut slot.request) else { return };
        let (asked, took) = (*asked, now.saturating_duration_since(*since));
        self.queue.remove(of);
        let from = request.position();
        match result {
            Err(error) => return self.get_failed(of, &error, now),
            Ok(Answer::Messages(messages)) => {
                request.answered(asked, messages.length);
                self.works_again(of, now);
                return self.fetched(of, messages);
            }
            Ok(Answer::Invalid(reason)) => {
                self.works_again(of, now);
                return self.met_invalid(of, &reason, now);
            }
            Ok(Answer::Nothing { waited }) => {
                // An answer that came at once was not held, whatever the broker can do: no busy loop comes of it.
                let held = self.options.held().min(self.limits.step());
                request.nothing(waited && !held.is_zero() && took >= held);
            }
            Ok(Answer::Moved { to, holds_gets }) => {
                let times = request.moved(to, holds_gets);
                if from.offset == Offset::LATEST {
                    debug!(group = %self.group, partition = %of, offset = %to, "begins at the end");
                } else if times > SENT_ON {
                    debug!(group = %self.group, partition = %of, from = %from.offset, %to, times, "moved once more");
                } else {
                    if times == SENT_ON {
                        warn!(
                            group = %self.group, partition = %of, times,
                            "the broker moves the offset again and again without a message, trying on; repair the \
                             partition or seek past it"
                        );
                    }
                    info!(group = %self.group, partition = %of, from = %from.offset, %to, "the broker moved the offset");
                }
                self.tell(&FetchEvent::Moved { of: Arc::clone(of), from: from.offset, to });
            }
            Ok(Answer::Short { length, needed }) => {
                if request.short_answer(asked, length, needed) {
                    self.told_stuck(of);
                }
            }
        }
        self.works_again(of, now);
        self.schedule_delayed(of, now);
    }

    pub(super) fn schedule_delayed(&mut self, of: &Key, now: Instant) {
        let request = self.slots.get(&**of).and_then(|slot| slot.request.as_ref());
        let delay = request.map_or(Duration::ZERO, FetchRequest::delay);
        self.schedule(of, now + delay);
    }

    fn get_failed(&mut self, of: &Key, error: &SourceError, now: Instant) {
        let Some(slot) = self.slots.get_mut(&**of) else { return };
        if let Some(request) = &mut slot.request {
            request.failed();
        }
        let is_new = !std::mem::replace(&mut slot.failing, true);
        let told = is_new.then(|| self.outages.failure(of.partition.broker)).flatten();
        match told {
            Some(count) => warn!(
                group = %self.group, partition = %of, %error, partitions = count,
                "a get failed, trying again for ever"
            ),
            None => debug!(group = %self.group, partition = %of, %error, "a get failed"),
        }
        self.tell(&FetchEvent::GetFailed { of: Arc::clone(of), error: error.to_string(), is_new });
        self.schedule_delayed(of, now);
    }

    fn works_again(&mut self, of: &Key, now: Instant) {
        let Some(slot) = self.slots.get_mut(&**of) else { return };
        slot.load_delay = Duration::ZERO;
        if !std::mem::take(&mut slot.failing) {
            return;
        }
        if let Some(count) = self.outages.recovery(of.partition.broker) {
            info!(group = %self.group, partition = %of, partitions = count, "the partition is read again");
        }
        self.tell(&FetchEvent::Recovered { of: Arc::clone(of) });
        self.hurry(of.partition.broker, now);
    }

    /// The broker answers again: its other partitions that failed are asked now instead of after their pause.
    fn hurry(&mut self, broker: BrokerId, now: Instant) {
        let waits = |slot: &Slot| slot.failing && matches!(slot.stage, Stage::Queued);
        for (of, _) in self.slots.iter().filter(|(of, slot)| of.partition.broker == broker && waits(slot)) {
            self.queue.make_due(of, now);
        }
    }

    fn fetched(&mut self, of: &Key, answer: Messages) {
        let Some(slot) = self.slots.get_mut(&**of) else { return };
        let Messages { mut messages, length, undeliverable } = answer;
        if let (Some(first), Some(request)) = (messages.first_mut(), &slot.request) {
            first.redeliveries = request.redeliveries(first.offset);
        }
        self.budget.add(length);
        let count = messages.len();
        let batch = Arc::new(Batch::new(messages, slot.term.clone()));
        slot.stage = Stage::Ready(Fetched { batch, bytes: length, undeliverable });
        self.ready.push_back(Arc::clone(of));
        self.tell(&FetchEvent::Received { of: Arc::clone(of), messages: count, bytes: length });
    }

    fn met_invalid(&mut self, of: &Key, reason: &str, now: Instant) {
        let Some(request) = self.slots.get_mut(&**of).and_then(|slot| slot.request.as_mut()) else { return };
        let offset = request.position().offset;
        match request.invalid(reason) {
            (Invalid::Ask, is_new) => {
                let (source, name) = (Arc::clone(&self.source), Arc::clone(of));
                let task = self.spawn(Work::Nearest(Arc::clone(of)), async move {
                    Done::Nearest(source.nearest_offset(&name, offset).await.map_err(as_text))
                });
                if is_new {
                    warn!(
                        group = %self.group, partition = %of, %offset, reason,
                        "no message at the offset, asking the broker for the nearest one"
                    );
                }
                self.set_stage(of, Stage::Querying(task));
                self.queue.put(Arc::clone(of), now + self.options.fetch_timeout);
            }
            (Invalid::Stuck, is_new) => {
                if is_new {
                    self.told_stuck(of);
                }
                self.schedule_delayed(of, now);
            }
        }
    }

    fn told_stuck(&self, of: &Key) {
        let Some(request) = self.slots.get(&**of).and_then(|slot| slot.request.as_ref()) else { return };
        let (offset, reason) = (request.position().offset, request.stuck().unwrap_or_default());
        warn!(
            group = %self.group, partition = %of, %offset, reason,
            "the partition cannot be read on from here, trying again with the longest pause; repair it or seek past it"
        );
        self.tell(&FetchEvent::Stuck { of: Arc::clone(of), offset, reason: reason.to_owned() });
    }

    pub(super) fn told_nearest(&mut self, of: &Key, id: Id, result: Result<Offset, SourceError>, now: Instant) {
        let Some(slot) = self.slots.get_mut(&**of).filter(|slot| slot.runs(id)) else { return };
        let Some(request) = &mut slot.request else { return };
        self.queue.remove(of);
        match result {
            Err(error) => self.get_failed(of, &error, now),
            Ok(to) => {
                let from = request.position().offset;
                request.realigned(to);
                info!(group = %self.group, partition = %of, %from, %to, "goes on at the nearest offset");
                self.tell(&FetchEvent::Realigned { of: Arc::clone(of), from, to });
                self.schedule_delayed(of, now);
            }
        }
    }

    pub(super) fn set_stage(&mut self, of: &Key, stage: Stage) {
        if let Some(slot) = self.slots.get_mut(&**of) {
            slot.stage = stage;
        }
    }
}
