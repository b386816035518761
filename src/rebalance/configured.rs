//! Partitions given out by hand.

use std::collections::BTreeMap;

use super::strategy::{Group, LoadBalanceStrategy};
use crate::id::Partition;

/// Each partition has the members that may read it, by preference: the first one that is there does. A partition that
/// is not named, or of which no member is there, is dealt out in turn among all. Never in a group with Java members, and
/// the same table for all members.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfiguredStrategy {
    preferences: BTreeMap<Partition, Vec<String>>,
}

impl ConfiguredStrategy {
    /// With nothing named, which deals all partitions out in turn.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the members for a partition, by preference.
    #[must_use]
    pub fn prefer(mut self, partition: Partition, consumers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.preferences.insert(partition, consumers.into_iter().map(Into::into).collect());
        self
    }

    fn preferred<'a>(&'a self, partition: &Partition, group: Group<'_>) -> Option<&'a String> {
        self.preferences.get(partition)?.iter().find(|consumer| group.position(consumer).is_some())
    }
}

impl LoadBalanceStrategy for ConfiguredStrategy {
    fn partitions_of(&self, me: &str, group: Group<'_>) -> Vec<Partition> {
        let Some(position) = group.position(me) else { return Vec::new() };
        let mut dealt = 0;
        let mut is_mine = |partition: &&Partition| match self.preferred(partition, group) {
            Some(preferred) => preferred == me,
            None => {
                dealt += 1;
                (dealt - 1) % group.consumers.len() == position
            }
        };
        group.partitions.iter().filter(|partition| is_mine(partition)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebalance::testing::{assigned, expect, partition};

    #[test]
    fn the_first_preferred_member_that_is_there_gets_the_partition_and_others_go_round() {
        let strategy = ConfiguredStrategy::new()
            .prefer(partition("0-0"), ["g_c"])
            .prefer(partition("0-1"), ["g_gone", "g_b"])
            .prefer(partition("0-2"), ["g_gone"]);
        assert_eq!(assigned(&strategy, "0-m:5", "g_a g_b g_c"), expect("g_a: 0-2; g_b: 0-1 0-3; g_c: 0-0 0-4"));
    }
}
