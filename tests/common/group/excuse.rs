//! Why messages may come twice.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Duplicate;

/// A member died or was frozen.
#[derive(Debug)]
pub struct Excuse {
    /// Who.
    pub member: String,
    /// What it had, and where the group stood there afterwards.
    pub committed: BTreeMap<(i64, i64), i64>,
    /// When.
    pub at: Instant,
    /// Since when one that was frozen went on.
    pub thawed: Option<Instant>,
}

impl Excuse {
    /// The member had been handed it and had not committed it when it was ended.
    pub fn is_uncommitted(&self, one: &Duplicate) -> bool {
        let committed = self.committed.get(&one.place.partition());
        one.first.0 == self.member && committed.is_some_and(|&offset| one.place.offset >= offset)
    }

    /// A frozen member went on with the message that it had begun, though others had taken over.
    pub fn is_late(&self, one: &Duplicate) -> bool {
        let had = self.committed.contains_key(&one.place.partition());
        had && one.again.0 == self.member && self.thawed.is_some_and(|thawed| one.again.1 >= thawed)
    }

    /// How long before its end the member was handed the earliest message that came again.
    pub fn oldest(&self, duplicates: &[Duplicate]) -> Option<Duration> {
        let ages = duplicates.iter().filter(|one| self.is_uncommitted(one));
        ages.map(|one| self.at.saturating_duration_since(one.first.1)).max()
    }
}
