//! The reference's consistent hashing (05 §6, `ConsisHashStrategy` with `KETAMA_HASH`).

use std::collections::BTreeMap;

use md5::{Digest as _, Md5};

use super::strategy::{Group, LoadBalanceStrategy};
use crate::id::Partition;

/// Digests of each member on the ring.
const DIGESTS: u32 = 40;

/// A member takes the partitions before its points on a ring of hashes: when one joins or leaves, only its own
/// partitions move. A member may get none, and all topics map alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConsistentHashStrategy;

impl LoadBalanceStrategy for ConsistentHashStrategy {
    fn partitions_of(&self, me: &str, group: Group<'_>) -> Vec<Partition> {
        let Some(me) = group.position(me) else { return Vec::new() };
        let ring = ring(group.consumers);
        let owner = |partition: &Partition| {
            let [key, ..] = points(&partition.to_string());
            let next = ring.range(key..).next().or_else(|| ring.first_key_value());
            next.map(|(_, &owner)| owner)
        };
        group.partitions.iter().filter(|partition| owner(partition) == Some(me)).copied().collect()
    }
}

/// Four points of each digest, and whose they are; an equal point of a later member replaces an earlier one.
fn ring(consumers: &[String]) -> BTreeMap<u32, usize> {
    let mut ring = BTreeMap::new();
    for (owner, consumer) in consumers.iter().enumerate() {
        for number in 0..DIGESTS {
            ring.extend(points(&format!("{consumer}-{number}")).map(|point| (point, owner)));
        }
    }
    ring
}

/// The digest of a text as four numbers.
fn points(text: &str) -> [u32; 4] {
    let digest = u128::from_le_bytes(Md5::digest(text).into());
    // Little-endian, so the lowest bits come first.
    [0, 32, 64, 96].map(|shift| u32::try_from(digest >> shift & u128::from(u32::MAX)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebalance::testing::{assigned, expect};

    #[test]
    fn points_are_those_of_the_reference() {
        assert_eq!(points("g_a-0"), [1_133_256_531, 2_671_217_503, 146_174_926, 2_037_582_457]);
        assert_eq!(points("g_b-0"), [3_539_738_732, 707_048_519, 3_970_980_641, 299_419_850]);
        assert_eq!(points("c1-0"), [199_993_319, 408_931_573, 795_243_969, 1_587_949_613]);
        for (key, value) in [
            ("0-0", 53_638_855),
            ("0-1", 556_329_922),
            ("0-2", 2_969_223_135),
            ("0-10", 1_798_013_186),
            ("0-117", 4_292_850_440),
            ("1-3", 2_061_684_243),
        ] {
            assert_eq!(points(key)[0], value, "{key}");
        }
    }

    #[test]
    fn the_ring_is_that_of_the_reference() {
        let ring = ring(&["g_a", "g_b", "g_c"].map(str::to_owned));
        assert_eq!(ring.len(), 480);
        assert_eq!(ring.first_key_value(), Some((&1_762_035, &0)));
        assert_eq!(ring.last_key_value(), Some((&4_281_654_098, &2)));
    }

    #[test]
    fn owners_are_those_of_the_reference() {
        let assign = |nodes, consumers| assigned(&ConsistentHashStrategy, nodes, consumers);
        let (a, b) = (
            "meta-example_192.168.1.100-4321-11111111-1111-1111-1111-111111111111",
            "meta-example_192.168.1.101-5432-22222222-2222-2222-2222-222222222222",
        );
        for (nodes, consumers, expected) in [
            ("0-m:10", "g_a g_b g_c", "g_a: 0-1 0-2 0-3 0-6; g_b: 0-0 0-4 0-9; g_c: 0-5 0-7 0-8"),
            ("0-m:10", "g_a g_b", "g_a: 0-1 0-2 0-3 0-5 0-6; g_b: 0-0 0-4 0-7 0-8 0-9"),
            ("0-m:4, 1-m:4", "c1 c2 c3", "c1: 0-1 1-1 1-2; c2: 0-0 0-3 1-0; c3: 0-2 1-3"),
            ("0-m:2", "g_a g_b g_c g_d", "g_a: 0-1; g_b: 0-0; g_c: ; g_d: "),
            ("0-m:12", &format!("{a} {b}"), &format!("{a}: 0-0 0-1 0-2 0-5 0-9; {b}: 0-10 0-11 0-3 0-4 0-6 0-7 0-8")),
            ("0-m:10", "g_a", "g_a: 0-0 0-1 0-2 0-3 0-4 0-5 0-6 0-7 0-8 0-9"),
        ] {
            assert_eq!(assign(nodes, consumers), expect(expected), "{nodes} {consumers}");
        }
    }
}
