//! Giving partitions up: in good order, at once, and all of them (design of hand-overs: stop, drain, commit, forget).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::{error, warn};

use crate::common::panics::caught;
use crate::fetch::request::FetchRequest;
use crate::fetch::state::Released;
use crate::id::TopicPartition;

use super::commits::Then;
use super::scheduler::Scheduler;
use super::slot::{Key, Slot};

/// How long a cancelled listener may take to end: one that waits for something ends at once, another one is left behind.
const CANCEL_GRACE: Duration = Duration::from_millis(500);

/// Partitions on their way out.
#[derive(Debug)]
pub(super) struct Release {
    number: u64,
    of: Vec<Key>,
    /// When the present phase is over.
    pub(super) deadline: Instant,
    phase: Phase,
    report: Released,
    reply: Option<oneshot::Sender<Released>>,
    /// Everything ends with it.
    ends: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waiting for listeners.
    Draining,
    /// Waiting for cancelled listeners.
    Cancelled,
    /// Waiting for the commit, which does not begin while fenced.
    Committing,
    Over,
}

impl Scheduler {
    /// Begins to release partitions; those that are not here are left out.
    pub(super) fn release(&mut self, of: &[TopicPartition], reply: oneshot::Sender<Released>, ends: bool) {
        let mut keys = Vec::new();
        for of in of {
            let Some(key) = self.slots.get_key_value(of).map(|(key, _)| Arc::clone(key)) else { continue };
            self.rest(&key);
            if let Some(slot) = self.slots.get_mut(&*key) {
                slot.leaving = true;
                slot.stop_delivery();
                slot.again = None;
            }
            keys.push(key);
        }
        self.incarnations += 1;
        self.releases.push(Release {
            number: self.incarnations,
            of: keys,
            deadline: Instant::now() + self.options.drain_timeout,
            phase: Phase::Draining,
            report: Released::default(),
            reply: Some(reply),
            ends,
        });
    }

    /// Takes every release as far as it can go now.
    pub(super) fn proceed_with_releases(&mut self, now: Instant) {
        let mut releases = std::mem::take(&mut self.releases);
        for release in &mut releases {
            self.proceed_with(release, now);
        }
        for release in releases {
            if release.phase == Phase::Over { self.end_release(release) } else { self.releases.push(release) }
        }
    }

    fn proceed_with(&mut self, release: &mut Release, now: Instant) {
        if matches!(release.phase, Phase::Draining | Phase::Cancelled) {
            let running: Vec<_> = release.of.iter().filter(|of| self.is_delivering(of)).cloned().collect();
            if release.phase == Phase::Draining && !running.is_empty() && now >= release.deadline {
                for of in &running {
                    self.cancel_delivery(of);
                    warn!(
                        group = %self.group, partition = %of,
                        "the listener did not end in time and was cancelled; what it did not acknowledge is delivered again"
                    );
                }
                release.report.cancelled.clone_from(&running);
                release.phase = Phase::Cancelled;
                release.deadline = now + CANCEL_GRACE;
            }
            if !running.is_empty() && now < release.deadline {
                return;
            }
            if release.of.iter().all(|of| self.is_saved(of)) {
                // Also while fenced: there is nothing to wait for.
                release.phase = Phase::Over;
                return;
            }
            release.phase = Phase::Committing;
            self.commits.want(Some(release.of.clone()), Then::Release(release.number));
        }
        let in_vain = release.phase == Phase::Committing && self.is_fenced() && now >= release.deadline;
        if in_vain && self.commits.withdraw(release.number) {
            for of in &release.of {
                if !self.is_saved(of) {
                    release.report.not_committed.push(Arc::clone(of));
                }
            }
            release.phase = Phase::Over;
        }
        if release.phase == Phase::Committing && now >= release.deadline {
            // Nothing is due before the commit's end, or the end of the fence.
            release.deadline = now + self.options.drain_timeout.max(CANCEL_GRACE);
        }
    }

    /// Whether everything that was handled of a partition is stored, and nothing is on its way there.
    fn is_saved(&mut self, of: &Key) -> bool {
        self.apply_progress(of);
        let request = self.slots.get(&**of).and_then(|slot| slot.request.as_ref());
        !request.is_some_and(FetchRequest::is_unsaved) && !self.commits.concerns(of)
    }

    fn is_delivering(&self, of: &Key) -> bool {
        self.slots.get(&**of).is_some_and(Slot::is_delivering)
    }

    /// The commit of a release has ended, for these partitions in vain.
    pub(super) fn release_committed(&mut self, number: u64, failed: Vec<Key>) {
        if let Some(place) = self.releases.iter().position(|release| release.number == number) {
            let mut release = self.releases.swap_remove(place);
            release.report.not_committed = failed;
            self.end_release(release);
        }
    }

    fn end_release(&mut self, mut release: Release) {
        let now = Instant::now();
        for of in &release.of {
            // Another release of the same partition may have ended before, and the partition may be back since.
            let Some(slot) = self.slots.get_mut(&**of).filter(|slot| slot.leaving) else { continue };
            let again = slot.again.take();
            self.forget(of, false);
            if let Some((size, term)) = again {
                self.add(of, size, term, now);
            }
        }
        if let Some(reply) = release.reply.take() {
            let _caller_gone = reply.send(release.report);
        }
        self.ended |= release.ends;
    }

    /// Takes a partition out as it stands.
    pub(super) fn forget(&mut self, of: &Key, cancel: bool) {
        if cancel {
            self.cancel_delivery(of);
        }
        self.rest(of);
        if self.slots.remove(&**of).is_some() && !self.commits.concerns(of) {
            self.storage_forgets(of);
        }
    }

    /// Tells the storage that a partition is given up.
    pub(super) fn storage_forgets(&self, of: &Key) {
        if let Err(panic) = caught(|| self.storage.released(&self.group, of)) {
            error!(group = %self.group, partition = %of, panic, "the offset storage panicked; reading goes on");
        }
    }

    /// Gives partitions up that belong to somebody else already.
    pub(super) fn lose(&mut self, of: &[TopicPartition]) {
        for of in of {
            if let Some(key) = self.slots.get_key_value(of).map(|(key, _)| Arc::clone(key)) {
                self.forget(&key, true);
            }
        }
    }
}
