//! The reference's default (05 §6, `DefaultLoadBalanceStrategy`).

use super::strategy::{Group, LoadBalanceStrategy};
use crate::id::Partition;

/// Each member gets a contiguous range; the first ones get one more if it does not come out even.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RangeStrategy;

impl LoadBalanceStrategy for RangeStrategy {
    fn partitions_of(&self, me: &str, group: Group<'_>) -> Vec<Partition> {
        let Some(position) = group.position(me) else { return Vec::new() };
        let (each, more) =
            (group.partitions.len() / group.consumers.len(), group.partitions.len() % group.consumers.len());
        let start = each * position + position.min(more);
        let count = each + usize::from(position < more);
        group.partitions.iter().skip(start).take(count).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebalance::testing::{assigned, expect};

    #[test]
    fn ranges_are_those_of_the_reference() {
        let assign = |nodes, consumers| assigned(&RangeStrategy, nodes, consumers);
        for (nodes, consumers, expected) in [
            ("0-m:3", "g_a", "g_a: 0-0 0-1 0-2"),
            ("0-m:4", "g_a g_b", "g_a: 0-0 0-1; g_b: 0-2 0-3"),
            ("0-m:5", "g_a g_b", "g_a: 0-0 0-1 0-2; g_b: 0-3 0-4"),
            ("0-m:10", "g_a g_b g_c g_d", "g_a: 0-0 0-1 0-2; g_b: 0-3 0-4 0-5; g_c: 0-6 0-7; g_d: 0-8 0-9"),
            ("0-m:12", "g_a g_b g_c", "g_a: 0-0 0-1 0-10 0-11; g_b: 0-2 0-3 0-4 0-5; g_c: 0-6 0-7 0-8 0-9"),
            (
                "0-m:12",
                "g_a g_b g_c g_d g_e",
                "g_a: 0-0 0-1 0-10; g_b: 0-11 0-2 0-3; g_c: 0-4 0-5; g_d: 0-6 0-7; g_e: 0-8 0-9",
            ),
            ("0-m:2", "g_a g_b g_c g_d", "g_a: 0-0; g_b: 0-1; g_c: ; g_d: "),
            ("0-m:3, 1-m:3", "g_a g_b", "g_a: 0-0 0-1 0-2; g_b: 1-0 1-1 1-2"),
            ("0-m:2, 2-m:2, 10-m:2", "g_a g_b", "g_a: 0-0 0-1 10-0; g_b: 10-1 2-0 2-1"),
            ("0-m:3, 0-s0:3, 0-s1:2", "g_a g_b", "g_a: 0-0 0-1; g_b: 0-2"),
            ("0-m:2, 0-s0:4", "g_a g_b g_c", "g_a: 0-0 0-1; g_b: 0-2; g_c: 0-3"),
            (
                "0-m:7",
                "g_consumer1 g_consumer10 g_consumer2",
                "g_consumer1: 0-0 0-1 0-2; g_consumer10: 0-3 0-4; g_consumer2: 0-5 0-6",
            ),
            ("0-m:4", "g_A g_B g_a", "g_A: 0-0 0-1; g_B: 0-2; g_a: 0-3"),
            (
                "1-m:1, 2-m:1, 3-m:1",
                "g_192.168.1.10-4242-aaaa g_192.168.1.9-77-bbbb",
                "g_192.168.1.10-4242-aaaa: 1-0 2-0; g_192.168.1.9-77-bbbb: 3-0",
            ),
            ("0-m:1, 1-m:1", "g_a g_b g_c", "g_a: 0-0; g_b: 1-0; g_c: "),
            ("9-m:2, 10-m:2, 100-m:2, 11-m:1", "g_a g_b g_c", "g_a: 10-0 10-1 100-0; g_b: 100-1 11-0; g_c: 9-0 9-1"),
            ("0-m:12", "grp_c10 grp_c2", "grp_c10: 0-0 0-1 0-10 0-11 0-2 0-3; grp_c2: 0-4 0-5 0-6 0-7 0-8 0-9"),
            ("0-m:13", "grp_c10 grp_c2", "grp_c10: 0-0 0-1 0-10 0-11 0-12 0-2 0-3; grp_c2: 0-4 0-5 0-6 0-7 0-8 0-9"),
        ] {
            assert_eq!(assign(nodes, consumers), expect(expected), "{nodes} {consumers}");
        }
    }
}
