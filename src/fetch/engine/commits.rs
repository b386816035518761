//! Offsets to the storage, one commit after the other (05 §11).

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::{AbortHandle, Id, JoinError};
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

use crate::fetch::event::FetchEvent;
use crate::fetch::request::FetchRequest;
use crate::fetch::{CommitError, FetchError, OffsetCommit};
use crate::id::TopicPartition;
use crate::zk::format::StoredOffset;

use super::hanging::name_of;
use super::scheduler::{Done, Scheduler, Work, as_text};
use super::slot::{Key, Slot, Stage};

/// Commits that wait, and the one under way.
#[derive(Debug)]
pub(super) struct Commits {
    waiting: VecDeque<Job>,
    under_way: Option<UnderWay>,
    next_tick: Instant,
    /// The last commit failed, which was told.
    failing: bool,
    /// A commit had no answer in time, which was told.
    hanging: bool,
    /// The commit that was broken off, until its task has ended.
    abandoned: Option<Abandoned>,
}

/// A commit that nobody waits for any more. Its task ends at once if it waits for something; if it blocks its thread, no
/// other commit begins before it has ended, so that it cannot write over one.
#[derive(Debug)]
struct Abandoned {
    task: Id,
    /// When what waits for its end is given up as well.
    deadline: Instant,
}

#[derive(Debug)]
struct Job {
    /// These partitions, or all.
    of: Option<Vec<Key>>,
    then: Then,
}

/// Who waits for the end of a commit.
#[derive(Debug)]
pub(super) enum Then {
    Nobody,
    Caller(oneshot::Sender<Result<(), FetchError>>),
    /// The release of this number.
    Release(u64),
}

#[derive(Debug)]
struct UnderWay {
    entries: Vec<Entry>,
    then: Then,
    task: AbortHandle,
    deadline: Instant,
}

#[derive(Debug)]
struct Entry {
    of: Key,
    incarnation: u64,
    offset: StoredOffset,
}

impl Commits {
    pub(super) fn new(next_tick: Instant) -> Self {
        Self { waiting: VecDeque::new(), under_way: None, next_tick, failing: false, hanging: false, abandoned: None }
    }

    pub(super) fn next_tick(&self) -> Instant {
        self.next_tick
    }

    /// When a commit counts as failed because it has no answer.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let waited_for = self.abandoned.as_ref().filter(|_| !self.waiting.is_empty());
        self.under_way.as_ref().map(|commit| commit.deadline).or(waited_for.map(|abandoned| abandoned.deadline))
    }

    /// Whether the task that has ended is that of a commit that was broken off.
    pub(super) fn was_abandoned(&mut self, task: Id) -> bool {
        self.abandoned.take_if(|abandoned| abandoned.task == task).is_some()
    }

    /// Whether an offset of this partition is being stored.
    pub(super) fn concerns(&self, of: &TopicPartition) -> bool {
        self.under_way.as_ref().is_some_and(|commit| commit.entries.iter().any(|entry| *entry.of == *of))
    }

    pub(super) fn want(&mut self, of: Option<Vec<Key>>, then: Then) {
        self.waiting.push_back(Job { of, then });
    }

    /// Nobody is to wait for the end of a fence that may not come.
    fn refuse_callers(&mut self) {
        for job in std::mem::take(&mut self.waiting) {
            match job.then {
                Then::Caller(reply) => {
                    let _caller_gone = reply.send(Err(FetchError::Fenced));
                }
                then => self.waiting.push_back(Job { of: job.of, then }),
            }
        }
    }

    /// Takes back what a release wanted to commit, unless that is under way.
    pub(super) fn withdraw(&mut self, release: u64) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|job| !matches!(job.then, Then::Release(number) if number == release));
        self.waiting.len() < before
    }
}

fn unconfirmed() -> CommitError {
    CommitError::Failed(FetchError::Fenced.into())
}

impl Scheduler {
    /// The periodic commit, at a fixed rate; a period that was missed is left out.
    pub(super) fn tick(&mut self, now: Instant) {
        if now < self.commits.next_tick {
            return;
        }
        let period = self.options.period();
        self.commits.next_tick += period;
        if self.commits.next_tick <= now {
            self.commits.next_tick = now + period;
        }
        if self.commits.under_way.is_none() && self.commits.waiting.is_empty() && !self.is_fenced() {
            self.commits.want(None, Then::Nobody);
        }
    }

    pub(super) fn start_commits(&mut self, now: Instant) {
        if self.is_fenced() {
            self.commits.refuse_callers();
        }
        while self.commits.under_way.is_none() && self.commits.abandoned.is_none() && !self.is_fenced() {
            let Some(job) = self.commits.waiting.pop_front() else { return };
            let of = job.of.unwrap_or_else(|| self.slots.keys().cloned().collect());
            let entries: Vec<_> = of.into_iter().filter_map(|of| self.unsaved(of)).collect();
            if entries.is_empty() {
                self.end_commit(job.then, Vec::new());
                continue;
            }
            let commits: Vec<_> = entries
                .iter()
                .map(|entry| OffsetCommit { of: TopicPartition::clone(&entry.of), offset: entry.offset })
                .collect();
            let (storage, group, lease) = (Arc::clone(&self.storage), self.group.clone(), self.options.lease.clone());
            let task = self.spawn(Work::Commit, async move {
                // The process may have stood still since the task was started.
                if lease.is_some_and(|lease| !lease.holds()) {
                    return Done::Committed(commits.iter().map(|_| Err(unconfirmed())).collect());
                }
                let results = storage.commit(&group, &commits).await;
                let told = |error| match error {
                    CommitError::Failed(error) => CommitError::Failed(as_text(error)),
                    CommitError::NotOwner => CommitError::NotOwner,
                };
                Done::Committed(results.into_iter().map(|result| result.map_err(told)).collect())
            });
            let deadline = now + self.options.storage_timeout;
            self.commits.under_way = Some(UnderWay { entries, then: job.then, task, deadline });
        }
    }

    /// Breaks a commit off that has no answer in time; so are those that wait because it does not end even then.
    pub(super) fn abandon_commit(&mut self, now: Instant) {
        let deadline = now + self.options.storage_timeout;
        if let Some(UnderWay { entries, task, .. }) = self.commits.under_way.as_ref().filter(|it| now >= it.deadline) {
            task.abort();
            let count = entries.len();
            self.commits.abandoned = Some(Abandoned { task: task.id(), deadline });
            if !std::mem::replace(&mut self.commits.hanging, true) {
                self.commits.failing = true;
                error!(
                    group = %self.group, storage = name_of(&*self.storage), storage_timeout = ?self.options.storage_timeout,
                    offsets = count,
                    "the offset storage did not answer a commit in time, which counts as failed; see why it hangs, or raise \
                     storage_timeout"
                );
            }
            let error = self.storage_timed_out();
            self.committed((0..count).map(|_| Err(CommitError::Failed(error.clone().into()))).collect(), now);
        }
        if let Some(abandoned) = self.commits.abandoned.as_mut().filter(|abandoned| now >= abandoned.deadline) {
            abandoned.deadline = deadline;
            for job in std::mem::take(&mut self.commits.waiting) {
                self.refuse(job);
            }
        }
    }

    /// What waited is not committed.
    fn refuse(&mut self, job: Job) {
        let error = self.storage_timed_out();
        let mut failures = Vec::new();
        for of in job.of.unwrap_or_else(|| self.slots.keys().cloned().collect()) {
            self.apply_progress(&of);
            let request = self.slots.get(&*of).and_then(|slot| slot.request.as_ref());
            if request.is_some_and(FetchRequest::is_unsaved) {
                self.tell(&FetchEvent::CommitFailed { of: Arc::clone(&of), error: error.clone() });
                failures.push((of, CommitError::Failed(error.clone().into())));
            }
        }
        self.end_commit(job.then, failures);
    }

    /// The text of an error.
    pub(super) fn storage_timed_out(&self) -> String {
        let (name, after) = (name_of(&*self.storage), self.options.storage_timeout);
        format!("the offset storage {name} did not answer within {after:?}: see why it hangs, or raise storage_timeout")
    }

    fn unsaved(&mut self, of: Key) -> Option<Entry> {
        self.apply_progress(&of);
        let slot = self.slots.get_mut(&*of)?;
        let offset = slot.request.as_mut()?.take_unsaved()?;
        Some(Entry { of, incarnation: slot.incarnation, offset })
    }

    pub(super) fn commit_broke(&mut self, error: &JoinError, now: Instant) {
        let count = self.commits.under_way.as_ref().map_or(0, |commit| commit.entries.len());
        let broken = || Err(CommitError::Failed(format!("the offset storage panicked: {error}").into()));
        self.committed((0..count).map(|_| broken()).collect(), now);
    }

    pub(super) fn committed(&mut self, results: Vec<Result<(), CommitError>>, now: Instant) {
        let Some(UnderWay { entries, then, .. }) = self.commits.under_way.take() else { return };
        let mut results = results.into_iter();
        let mut failures = Vec::new();
        let mut stored = 0;
        for Entry { of, incarnation, offset } in entries {
            let missing = || Err(CommitError::Failed("the offset storage gave no result for it".into()));
            let result = results.next().unwrap_or_else(missing);
            let present = self.slots.get_mut(&*of).filter(|slot| slot.incarnation == incarnation);
            let is_present = present.is_some();
            match (result, present) {
                (Ok(()), Some(slot)) => {
                    slot.committed = Some(offset);
                    stored += 1;
                    self.tell(&FetchEvent::Committed { of: Arc::clone(&of), offset: offset.offset });
                }
                (Ok(()), None) => {}
                (Err(CommitError::NotOwner), _) => {
                    if is_present {
                        self.not_owner(&of);
                    }
                    failures.push((of.clone(), CommitError::NotOwner));
                }
                (Err(error), slot) => {
                    if let Some(request) = slot.and_then(|slot| slot.request.as_mut()) {
                        request.not_saved(offset);
                    }
                    self.tell(&FetchEvent::CommitFailed { of: Arc::clone(&of), error: error.to_string() });
                    failures.push((of.clone(), error));
                }
            }
            if !is_present {
                // It was given up meanwhile, and the storage may have remembered it again.
                self.storage_forgets(&of);
                self.go_on_loading(&of, now);
            }
        }
        self.told_commit(stored, &failures);
        self.end_commit(then, failures);
    }

    /// An earlier stay of the partition has committed: its present one can read what is stored.
    fn go_on_loading(&mut self, of: &Key, now: Instant) {
        if let Some(Slot { request: None, stage: Stage::Idle, .. }) = self.slots.get(&**of) {
            self.schedule(of, now);
        }
    }

    fn told_commit(&mut self, stored: usize, failures: &[(Key, CommitError)]) {
        let failed = failures.iter().find(|(_, error)| !matches!(error, CommitError::NotOwner));
        self.commits.hanging &= stored == 0;
        match failed {
            Some((of, error)) if !self.commits.failing => {
                self.commits.failing = true;
                warn!(
                    group = %self.group, partition = %of, %error, failed = failures.len(), stored,
                    "offsets were not stored, trying again with the next commit"
                );
            }
            Some((of, error)) => debug!(group = %self.group, partition = %of, %error, "offsets were not stored again"),
            None if self.commits.failing && stored > 0 => {
                self.commits.failing = false;
                info!(group = %self.group, stored, "offsets are stored again");
            }
            None => {}
        }
    }

    fn not_owner(&mut self, of: &Key) {
        warn!(
            group = %self.group, partition = %of,
            "another member owns the partition, giving it up; some of its messages are delivered twice"
        );
        self.forget(of, true);
        self.tell(&FetchEvent::NotOwner { of: Arc::clone(of) });
    }

    fn end_commit(&mut self, then: Then, failures: Vec<(Key, CommitError)>) {
        match then {
            Then::Nobody => {}
            Then::Caller(reply) => {
                let result = match failures.first() {
                    None => Ok(()),
                    Some((of, first)) => {
                        Err(FetchError::NotCommitted { failed: failures.len(), first: format!("{of}: {first}") })
                    }
                };
                let _caller_gone = reply.send(result);
            }
            Then::Release(number) => self.release_committed(number, failures.into_iter().map(|(of, _)| of).collect()),
        }
    }
}
