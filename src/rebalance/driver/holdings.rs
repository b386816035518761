//! Where the member stands with each partition.

use std::collections::{BTreeMap, BTreeSet};

use super::watches::{Armed, Fired};
use crate::id::TopicPartition;

/// Where the member stands with one partition. Operations on its node never overlap.
#[derive(Debug)]
pub(super) enum Holding {
    /// Wanted; nothing was done yet.
    Unclaimed,
    /// The owner node may be there and ours, but nothing is read from the partition.
    Unsure,
    /// The owner node is being made.
    Claiming,
    /// Somebody else's owner node stands there.
    Contested(Armed),
    /// Ours, and the assignee knows it.
    Owned(Check),
    /// The assignee is giving it up; `lost` if the session ended meanwhile.
    Releasing { lost: bool },
    /// The owner node is being removed.
    Removing,
    /// An operation failed: `Unsure`, but not before the next attempt is due.
    Failed,
}

/// Whether the owner node of a partition of ours is known to be there.
#[derive(Debug)]
pub(super) enum Check {
    /// It was there, and nothing has happened to it.
    Watched(Armed),
    /// It has to be looked at.
    Due,
    /// It is being looked at.
    Running,
    /// Looking at it failed: `Due`, but not before the next attempt is due.
    Failed,
}

/// All partitions that the member has to do with.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    pub(super) each: BTreeMap<TopicPartition, Holding>,
    pub(super) wanted: BTreeSet<TopicPartition>,
}

/// What can be started now.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) claim: Vec<TopicPartition>,
    pub(super) remove: Vec<TopicPartition>,
    pub(super) check: Vec<TopicPartition>,
}

impl Holdings {
    /// What the assignee is reading or still giving up.
    pub(super) fn owned(&self) -> BTreeSet<TopicPartition> {
        let is_owned = |holding: &Holding| matches!(holding, Holding::Owned(_) | Holding::Releasing { lost: false });
        self.each.iter().filter(|(_, holding)| is_owned(holding)).map(|(of, _)| of.clone()).collect()
    }

    /// What counts as owned when a plan is made: what is being given up has to be claimed again.
    pub(super) fn kept(&self) -> BTreeSet<TopicPartition> {
        let owned = self.each.iter().filter(|(_, holding)| matches!(holding, Holding::Owned(_)));
        owned.map(|(of, _)| of.clone()).collect()
    }

    /// Takes over what is wanted from now on; returns what has to be released at once.
    pub(super) fn want(&mut self, wanted: BTreeSet<TopicPartition>) -> Vec<TopicPartition> {
        self.wanted = wanted;
        let wanted = &self.wanted;
        let mut release = Vec::new();
        self.each.retain(|of, holding| match holding {
            _ if wanted.contains(of) => true,
            Holding::Unclaimed | Holding::Contested(_) => false,
            Holding::Owned(_) => {
                *holding = Holding::Releasing { lost: false };
                release.push(of.clone());
                true
            }
            _ => true,
        });
        for of in &self.wanted {
            self.each.entry(of.clone()).or_insert(Holding::Unclaimed);
        }
        release
    }

    /// What can be started now, `room` operations at most; it is taken for started. Claims wait until everything that
    /// is given up is given up.
    pub(super) fn start(&mut self, room: usize) -> Work {
        let mut work = Work::default();
        let mut left = room;
        let mut busy = false;
        for (of, holding) in &mut self.each {
            busy |= matches!(holding, Holding::Releasing { lost: false } | Holding::Removing);
            match holding {
                _ if left == 0 => continue,
                Holding::Unsure if !self.wanted.contains(of) => {
                    *holding = Holding::Removing;
                    busy = true;
                    work.remove.push(of.clone());
                }
                Holding::Owned(check @ Check::Due) => {
                    *check = Check::Running;
                    work.check.push(of.clone());
                }
                _ => continue,
            }
            left -= 1;
        }
        if busy {
            return work;
        }
        let waiting = |holding: &Holding| matches!(holding, Holding::Unclaimed | Holding::Unsure);
        for (of, holding) in self.each.iter_mut().filter(|(_, holding)| waiting(holding)).take(left) {
            *holding = Holding::Claiming;
            work.claim.push(of.clone());
        }
        work
    }

    /// The session is over: nothing is ours any more. Returns what the assignee has to be told.
    pub(super) fn session_over(&mut self) -> Vec<TopicPartition> {
        let mut lost = Vec::new();
        self.wanted.clear();
        self.each.retain(|of, holding| match holding {
            Holding::Owned(_) => {
                lost.push(of.clone());
                false
            }
            Holding::Releasing { lost: told } => {
                if !std::mem::replace(told, true) {
                    lost.push(of.clone());
                }
                true
            }
            // The call may have gone to the new session already.
            Holding::Claiming => {
                *holding = Holding::Unsure;
                true
            }
            _ => false,
        });
        lost
    }

    /// The next attempt is due for everything that failed.
    pub(super) fn retry(&mut self) {
        for holding in self.each.values_mut() {
            match holding {
                Holding::Failed => *holding = Holding::Unsure,
                Holding::Owned(check @ Check::Failed) => *check = Check::Due,
                _ => {}
            }
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.each.values().any(|holding| matches!(holding, Holding::Failed | Holding::Owned(Check::Failed)))
    }

    /// A watch on an owner node has fired.
    pub(super) fn fired(&mut self, of: &TopicPartition, fired: &Fired) {
        let Some(holding) = self.each.get_mut(of) else { return };
        match &*holding {
            Holding::Contested(armed) if armed.is(fired) => *holding = Holding::Unclaimed,
            Holding::Owned(Check::Watched(armed)) if armed.is(fired) => *holding = Holding::Owned(Check::Due),
            _ => {}
        }
    }

    /// A comparison has found which owner nodes there are; what does not go with that is looked at.
    pub(super) fn compare(&mut self, has_node: impl Fn(&TopicPartition) -> bool) {
        for (of, holding) in &mut self.each {
            match holding {
                Holding::Owned(check @ Check::Watched(_)) if !has_node(of) => *check = Check::Due,
                Holding::Contested(_) if !has_node(of) => *holding = Holding::Unclaimed,
                _ => {}
            }
        }
    }
}
