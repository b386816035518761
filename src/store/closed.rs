//! Partitions that the operator closed for put and get (02 §14). In memory only: a restart opens all.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use arc_swap::ArcSwap;

use super::error::InvalidPartitionRange;
use crate::id::{PartitionIndex, TopicName};

/// See the module. Ranges are kept as given, so a wide one costs nothing; checking takes no lock.
#[derive(Debug, Default)]
pub struct ClosedPartitions(ArcSwap<HashMap<TopicName, Vec<RangeInclusive<i32>>>>);

impl ClosedPartitions {
    /// Closes partitions `start` to `end` of a topic, both included, whether they exist or not.
    ///
    /// # Errors
    /// When `start` is negative or beyond `end`.
    pub(super) fn close(&self, topic: &TopicName, start: i32, end: i32) -> Result<(), InvalidPartitionRange> {
        if start < 0 || start > end {
            return Err(InvalidPartitionRange { start, end });
        }
        self.0.rcu(|closed| {
            let mut closed = HashMap::clone(closed);
            let ranges = closed.entry(topic.clone()).or_default();
            if !ranges.contains(&(start..=end)) {
                ranges.push(start..=end);
            }
            closed
        });
        Ok(())
    }

    /// Opens all partitions of a topic; whether any was closed.
    pub(super) fn open(&self, topic: &str) -> bool {
        let before = self.0.rcu(|closed| {
            let mut closed = HashMap::clone(closed);
            closed.remove(topic);
            closed
        });
        before.contains_key(topic)
    }

    /// Whether a partition is closed. [`PartitionIndex::RANDOM`] never is.
    pub fn is_closed(&self, topic: &str, index: PartitionIndex) -> bool {
        let closed = self.0.load();
        !closed.is_empty() && closed.get(topic).is_some_and(|ranges| ranges.iter().any(|r| r.contains(&index.get())))
    }

    /// The closed ranges of each topic.
    pub fn list(&self) -> Vec<(TopicName, Vec<RangeInclusive<i32>>)> {
        self.0.load().iter().map(|(topic, ranges)| (topic.clone(), ranges.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_range_includes_its_end_and_opening_removes_all_ranges_of_the_topic() {
        let (a, b) = (TopicName::new("a").unwrap(), TopicName::new("b").unwrap());
        let closed = ClosedPartitions::default();
        closed.close(&a, 1, 3).unwrap();
        closed.close(&a, 7, i32::MAX).unwrap();
        closed.close(&b, 0, 0).unwrap();
        let is_closed = |topic: &str, index| closed.is_closed(topic, PartitionIndex::new(index));
        assert_eq!(
            [-1, 0, 1, 3, 4, 7, i32::MAX].map(|i| is_closed("a", i)),
            [false, false, true, true, false, true, true]
        );
        assert!(closed.open("a") && !closed.open("a"));
        assert!(!is_closed("a", 1) && is_closed("b", 0) && !is_closed("c", 0));
    }

    #[test]
    fn a_range_that_is_negative_or_backwards_is_refused() {
        let (topic, closed) = (TopicName::new("a").unwrap(), ClosedPartitions::default());
        assert!(closed.close(&topic, -1, 3).is_err() && closed.close(&topic, 2, 1).is_err());
        assert!(closed.list().is_empty());
    }
}
