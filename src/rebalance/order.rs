//! The order of Java's strings, in which all members of a group sort (04 §11).

use std::cmp::Ordering;

use crate::id::Partition;

/// Compares texts as Java does, by UTF-16 code units: characters beyond the basic plane come before some within it.
pub fn java_order(a: &str, b: &str) -> Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

/// Consumer ids in the order in which members count themselves; each once.
pub fn sorted_consumers(ids: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut ids: Vec<_> = ids.into_iter().collect();
    ids.sort_by(|a, b| java_order(a, b));
    ids.dedup();
    ids
}

/// Partitions in the order of their texts, in which `0-10` comes before `0-2`; each once.
pub fn sorted_partitions(partitions: impl IntoIterator<Item = Partition>) -> Vec<Partition> {
    let mut partitions: Vec<_> = partitions.into_iter().collect();
    // Digits and '-' only: bytes are code units.
    partitions.sort_by_cached_key(Partition::to_string);
    partitions.dedup();
    partitions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_compared_by_their_code_units() {
        assert_eq!(sorted_consumers(["g_a", "g_B", "g_A", "g_B"].map(str::to_owned)), ["g_A", "g_B", "g_a"]);
        // U+1F600 begins with the unit D83D, which is below U+FF5E.
        assert_eq!(java_order("\u{1f600}", "\u{ff5e}"), Ordering::Less);
        assert_eq!("\u{1f600}".cmp("\u{ff5e}"), Ordering::Greater);
        assert_eq!(java_order("a", "ab"), Ordering::Less);
    }
}
