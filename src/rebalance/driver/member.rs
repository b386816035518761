//! Where the member stands with its group: its id node, and when the group has to be read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::view::{List, View};
use super::watches::{Armed, Fired};
use crate::id::TopicPartition;
use crate::zk::SessionId;

/// Where the id node stands. Operations on it and readings of the group never overlap.
#[derive(Debug, Default)]
pub(super) enum Standing {
    /// To be made.
    #[default]
    Absent,
    /// Somebody else's node is there; looked at again when the watch fires, or then.
    Foreign { watch: Armed, again: Instant },
    /// Ours.
    Registered,
}

/// The member in its group, as far as the present session goes.
#[derive(Debug, Default)]
pub(super) struct Member {
    pub(super) standing: Standing,
    /// An operation on the id node, or a reading, is under way.
    pub(super) busy: bool,
    /// The session in which this driver has made an id node, or may have.
    pub(super) made_in: Option<SessionId>,
    /// Whether the member has a plan of this session.
    pub(super) has_plan: bool,
    /// When the group has to be read.
    pub(super) read_at: Option<Instant>,
    /// When another member was first seen in our place.
    pub(super) foreign_since: Option<Instant>,
    armed: BTreeMap<List, Armed>,
    unclaimed: Unclaimed,
}

/// Partitions of other members that nobody owns, since when.
#[derive(Debug, Default)]
struct Unclaimed {
    since: BTreeMap<TopicPartition, Instant>,
    /// When something was so for long the last time.
    last: Option<Instant>,
}

impl Member {
    /// Nothing of the last session counts any more.
    pub(super) fn session_over(&mut self) {
        let foreign_since = self.foreign_since;
        let unclaimed = Unclaimed { since: BTreeMap::new(), last: self.unclaimed.last };
        *self = Self { foreign_since, unclaimed, ..Self::default() };
    }

    /// The group has to be read at that time, if not earlier.
    pub(super) fn read_by(&mut self, at: Instant) {
        self.read_at = Some(self.read_at.map_or(at, |present| present.min(at)));
    }

    pub(super) fn armed(&self) -> BTreeSet<List> {
        self.armed.keys().cloned().collect()
    }

    pub(super) fn arm(&mut self, list: List, armed: Armed) {
        self.armed.insert(list, armed);
    }

    /// A watch on a list has fired; whether it is the present one.
    pub(super) fn list_fired(&mut self, list: &List, fired: &Fired) -> bool {
        let present = self.armed.get(list).is_some_and(|armed| armed.is(fired));
        if present {
            self.armed.remove(list);
        }
        present
    }

    /// Notes after a reading what others are to own and nobody does. Returns what has been so for long; the next time is
    /// as long after that at the earliest.
    pub(super) fn note_unclaimed(
        &mut self,
        view: &View,
        wanted: &BTreeSet<TopicPartition>,
        after: Duration,
    ) -> Vec<TopicPartition> {
        let now = Instant::now();
        let Unclaimed { since, last } = &mut self.unclaimed;
        let others = view.topics.iter().filter(|(_, group)| group.consumers.len() > 1);
        let unowned = others.flat_map(|(topic, group)| {
            let partitions = group.partitions.iter();
            let of = partitions.map(|&partition| TopicPartition { topic: topic.clone(), partition });
            of.filter(|of| !wanted.contains(of) && !view.has_owner(of))
        });
        let before = std::mem::take(since);
        *since = unowned.map(|of| before.get_key_value(&of).map_or((of, now), |(of, &at)| (of.clone(), at))).collect();
        if last.is_some_and(|last| now < last + after) {
            return Vec::new();
        }
        let long: Vec<_> = since.iter().filter(|&(_, &at)| now >= at + after).map(|(of, _)| of.clone()).collect();
        if !long.is_empty() {
            *last = Some(now);
        }
        long
    }

    /// When a reading may find something that nobody has owned for long.
    pub(super) fn unclaimed_due(&self, after: Duration) -> Option<Instant> {
        let first = *self.unclaimed.since.values().min()?;
        Some(self.unclaimed.last.map_or(first, |last| last.max(first)) + after)
    }
}

impl View {
    pub(super) fn has_owner(&self, of: &TopicPartition) -> bool {
        self.owned.get(&of.topic).is_some_and(|owned| owned.contains(&of.partition))
    }
}
