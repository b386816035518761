//! From a group as it is now and what a member owns to what the member must do: a pure function.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::strategy::{Group, LoadBalanceStrategy};
use crate::id::{Partition, TopicName, TopicPartition};

/// Partitions that a text names one by one; of more it tells the number only.
const NAMED: usize = 8;

/// Who subscribes to a topic, and what there is to read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicGroup {
    /// All members that subscribe to it, [sorted](super::sorted_consumers).
    pub consumers: Vec<String>,
    /// All its partitions, [sorted](super::sorted_partitions).
    pub partitions: Vec<Partition>,
}

impl TopicGroup {
    /// What a strategy gives a member, without anything that the topic does not have.
    pub fn share(&self, topic: &TopicName, me: &str, strategy: &dyn LoadBalanceStrategy) -> BTreeSet<TopicPartition> {
        let group = Group { consumers: &self.consumers, partitions: &self.partitions };
        let known: BTreeSet<_> = self.partitions.iter().collect();
        let mine = strategy.partitions_of(me, group).into_iter().filter(|partition| known.contains(partition));
        mine.map(|partition| TopicPartition { topic: topic.clone(), partition }).collect()
    }
}

/// What a member must do, over all its topics, to own what the strategy gives it.
///
/// Its text is one line of bounded length: `keep 3, release 1 [orders 0-1], claim 2 [orders 0-2, orders 0-3]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Owned and wanted: goes on untouched.
    pub keep: BTreeSet<TopicPartition>,
    /// Owned and not wanted any more: given up first.
    pub release: BTreeSet<TopicPartition>,
    /// Wanted and not owned: claimed when everything to be released is.
    pub claim: BTreeSet<TopicPartition>,
}

impl Plan {
    /// Asks the strategy for each topic. What is owned of a topic that is not named here is released.
    pub fn new(
        me: &str,
        topics: &BTreeMap<TopicName, TopicGroup>,
        strategy: &dyn LoadBalanceStrategy,
        owned: &BTreeSet<TopicPartition>,
    ) -> Self {
        let wanted: BTreeSet<_> = topics.iter().flat_map(|(topic, group)| group.share(topic, me, strategy)).collect();
        Self::between(owned, &wanted)
    }

    /// From what is owned to what is wanted.
    pub fn between(owned: &BTreeSet<TopicPartition>, wanted: &BTreeSet<TopicPartition>) -> Self {
        Self {
            keep: owned.intersection(wanted).cloned().collect(),
            release: owned.difference(wanted).cloned().collect(),
            claim: wanted.difference(owned).cloned().collect(),
        }
    }

    /// What the member owns when the plan is carried out.
    pub fn wanted(&self) -> BTreeSet<TopicPartition> {
        self.keep.union(&self.claim).cloned().collect()
    }

    /// Whether there is nothing to do.
    pub fn is_reached(&self) -> bool {
        self.release.is_empty() && self.claim.is_empty()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "keep {}, release {}, claim {}", self.keep.len(), Named(&self.release), Named(&self.claim))
    }
}

/// A number of partitions and the names of the first ones.
struct Named<'a>(&'a BTreeSet<TopicPartition>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        write!(f, "{count}")?;
        for (number, partition) in self.0.iter().take(NAMED).enumerate() {
            write!(f, "{}{partition}", if number == 0 { " [" } else { ", " })?;
        }
        match count {
            0 => Ok(()),
            _ if count > NAMED => write!(f, ", and {} more]", count - NAMED),
            _ => f.write_str("]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebalance::testing::partition;
    use crate::rebalance::{RangeStrategy, sorted_partitions};

    fn topic(name: &str) -> TopicName {
        TopicName::new(name.to_owned()).unwrap()
    }

    fn of(name: &str, partitions: &str) -> BTreeSet<TopicPartition> {
        let each = partitions.split_whitespace().map(partition);
        each.map(|partition| TopicPartition { topic: topic(name), partition }).collect()
    }

    fn group(consumers: &str, partitions: &str) -> TopicGroup {
        TopicGroup {
            consumers: consumers.split_whitespace().map(str::to_owned).collect(),
            partitions: sorted_partitions(partitions.split_whitespace().map(partition)),
        }
    }

    #[test]
    fn what_stays_is_kept_what_goes_is_released_what_comes_is_claimed() {
        let topics = BTreeMap::from([
            (topic("orders"), group("g_a g_b", "0-0 0-1 0-2 0-3")),
            (topic("other"), group("g_a", "1-0")),
        ]);
        let mut owned = of("orders", "0-0 0-3 0-2");
        owned.extend(of("gone", "0-0"));
        let plan = Plan::new("g_a", &topics, &RangeStrategy, &owned);
        assert_eq!(plan.keep, of("orders", "0-0"));
        assert_eq!(plan.release, of("orders", "0-2 0-3").into_iter().chain(of("gone", "0-0")).collect());
        assert_eq!(plan.claim, of("orders", "0-1").into_iter().chain(of("other", "1-0")).collect());
        assert_eq!(plan.wanted(), of("orders", "0-0 0-1").into_iter().chain(of("other", "1-0")).collect());
        assert_eq!(
            plan.to_string(),
            "keep 1, release 3 [gone 0-0, orders 0-2, orders 0-3], claim 2 [orders 0-1, other 1-0]"
        );
        let reached = Plan::new("g_a", &topics, &RangeStrategy, &plan.wanted());
        assert!(reached.is_reached() && !plan.is_reached());
    }

    #[test]
    fn the_line_for_the_log_is_bounded() {
        let all = of("orders", &(0..1000).map(|n| format!("0-{n} ")).collect::<String>());
        let text = Plan::between(&all, &BTreeSet::new()).to_string();
        assert!(text.ends_with("orders 0-7, and 992 more], claim 0"), "{text}");
        assert!(text.len() < 200, "{text}");
    }

    #[test]
    fn a_strategy_cannot_give_what_is_not_there() {
        #[derive(Debug)]
        struct Wild;
        impl LoadBalanceStrategy for Wild {
            fn partitions_of(&self, _: &str, _: Group<'_>) -> Vec<Partition> {
                ["0-0", "0-0", "7-7"].map(partition).to_vec()
            }
        }
        assert_eq!(group("g_a", "0-0 0-1").share(&topic("orders"), "g_a", &Wild), of("orders", "0-0"));
    }
}
