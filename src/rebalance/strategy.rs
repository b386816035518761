//! The seam.

use std::fmt;

use crate::id::Partition;

/// A group as one of its members sees it, for one topic.
#[derive(Debug, Clone, Copy)]
pub struct Group<'a> {
    /// All members that subscribe to the topic, [sorted](super::sorted_consumers).
    pub consumers: &'a [String],
    /// All partitions of the topic, [sorted](super::sorted_partitions).
    pub partitions: &'a [Partition],
}

/// Decides which partitions of a topic a member of a group reads.
///
/// Every member asks for itself and nobody checks the others: the answers must depend on nothing but the arguments, and
/// those to all members must be disjoint. All members of a group must use the same strategy.
pub trait LoadBalanceStrategy: fmt::Debug + Send + Sync {
    /// The partitions of `me`, in the order of the group's; none if it is no member.
    fn partitions_of(&self, me: &str, group: Group<'_>) -> Vec<Partition>;
}

impl Group<'_> {
    /// Where a member stands.
    pub(super) fn position(&self, me: &str) -> Option<usize> {
        self.consumers.iter().position(|consumer| consumer == me)
    }
}
