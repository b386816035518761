//! Assignments as tables write them.

use std::collections::BTreeMap;

use super::strategy::{Group, LoadBalanceStrategy};
use super::{sorted_consumers, sorted_partitions};
use crate::id::{BrokerId, Partition, PartitionIndex};

pub(super) type Assignment = BTreeMap<String, Vec<Partition>>;

/// `0-1`.
pub(super) fn partition(text: &str) -> Partition {
    let (broker, index) = text.split_once('-').unwrap();
    Partition {
        broker: BrokerId::new(broker.parse().unwrap()).unwrap(),
        index: PartitionIndex::new(index.parse().unwrap()),
    }
}

/// What each member gets of the partitions of nodes such as `0-m:3, 1-m:2`.
pub(super) fn assigned(strategy: &dyn LoadBalanceStrategy, nodes: &str, consumers: &str) -> Assignment {
    let all = nodes.split(", ").flat_map(|node| {
        let (name, count) = node.split_once(':').unwrap();
        let broker = name.split('-').next().unwrap().to_owned();
        (0..count.parse::<i32>().unwrap()).map(move |index| partition(&format!("{broker}-{index}")))
    });
    let partitions = sorted_partitions(all);
    let consumers = sorted_consumers(consumers.split(' ').map(str::to_owned));
    let group = Group { consumers: &consumers, partitions: &partitions };
    let assignment: Assignment = consumers.iter().map(|me| (me.clone(), strategy.partitions_of(me, group))).collect();
    assert_eq!(sorted_partitions(assignment.values().flatten().copied()), partitions, "each has an owner");
    assert_eq!(assignment.values().map(Vec::len).sum::<usize>(), partitions.len(), "no partition has two owners");
    assert_eq!(strategy.partitions_of("g_z", group), []);
    assignment
}

/// `g_a: 0-0 0-1; g_b: `.
pub(super) fn expect(text: &str) -> Assignment {
    let member = |part: &str| {
        let (consumer, partitions) = part.split_once(": ").unwrap();
        (consumer.to_owned(), partitions.split_whitespace().map(partition).collect())
    };
    text.split("; ").map(member).collect()
}
