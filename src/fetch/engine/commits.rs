//! Offsets to the storage, one commit after the other (05 §11).

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::JoinError;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::fetch::event::FetchEvent;
use crate::fetch::{CommitError, FetchError, OffsetCommit};
use crate::id::TopicPartition;
use crate::zk::format::StoredOffset;

use super::scheduler::{Done, Scheduler, Work};
use super::slot::{Key, Slot, Stage};

/// Commits that wait, and the one under way.
#[derive(Debug)]
pub(super) struct Commits {
    waiting: VecDeque<Job>,
    under_way: Option<UnderWay>,
    next_tick: Instant,
    /// The last commit failed, which was told.
    failing: bool,
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
}

#[derive(Debug)]
struct Entry {
    of: Key,
    incarnation: u64,
    offset: StoredOffset,
}

impl Commits {
    pub(super) fn new(next_tick: Instant) -> Self {
        Self { waiting: VecDeque::new(), under_way: None, next_tick, failing: false }
    }

    pub(super) fn next_tick(&self) -> Instant {
        self.next_tick
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

    pub(super) fn start_commits(&mut self) {
        if self.is_fenced() {
            self.commits.refuse_callers();
        }
        while self.commits.under_way.is_none() && !self.is_fenced() {
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
            self.commits.under_way = Some(UnderWay { entries, then: job.then });
            self.spawn(Work::Commit, async move {
                // The process may have stood still since the task was started.
                if lease.is_some_and(|lease| !lease.holds()) {
                    return Done::Committed(commits.iter().map(|_| Err(unconfirmed())).collect());
                }
                Done::Committed(storage.commit(&group, &commits).await)
            });
        }
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
        let Some(UnderWay { entries, then }) = self.commits.under_way.take() else { return };
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
