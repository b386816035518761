//! Partitions dealt out in turn.

use super::strategy::{Group, LoadBalanceStrategy};
use crate::id::Partition;

/// Each member gets every n-th partition: the partitions of each broker spread over all members. Never in a group with
/// Java members, which know no such strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CircleStrategy;

impl LoadBalanceStrategy for CircleStrategy {
    fn partitions_of(&self, me: &str, group: Group<'_>) -> Vec<Partition> {
        let Some(position) = group.position(me) else { return Vec::new() };
        group.partitions.iter().skip(position).step_by(group.consumers.len()).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebalance::testing::{assigned, expect};

    #[test]
    fn partitions_go_round() {
        assert_eq!(assigned(&CircleStrategy, "0-m:5", "g_a g_b g_c"), expect("g_a: 0-0 0-3; g_b: 0-1 0-4; g_c: 0-2"));
        assert_eq!(assigned(&CircleStrategy, "0-m:1", "g_a g_b"), expect("g_a: 0-0; g_b: "));
    }
}
