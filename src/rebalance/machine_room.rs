//! Partitions read in the room that they lie in.

use std::collections::BTreeMap;

use super::range::RangeStrategy;
use super::strategy::{Group, LoadBalanceStrategy};
use crate::id::{BrokerId, Partition};

/// Within each machine room, members and partitions are balanced as [`RangeStrategy`] does it. Partitions of rooms
/// without members, or of brokers that no room is known of, are balanced over all. Never in a group with Java members,
/// and the same table for all members.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineRoomStrategy {
    brokers: BTreeMap<BrokerId, String>,
    consumers: BTreeMap<String, String>,
}

impl MachineRoomStrategy {
    /// With no room known, which balances all partitions over all members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells the room of a broker.
    #[must_use]
    pub fn broker(mut self, broker: BrokerId, room: impl Into<String>) -> Self {
        self.brokers.insert(broker, room.into());
        self
    }

    /// Tells the room of a member.
    #[must_use]
    pub fn consumer(mut self, consumer: impl Into<String>, room: impl Into<String>) -> Self {
        self.consumers.insert(consumer.into(), room.into());
        self
    }

    /// The room in which a partition is read, if that is one with members.
    fn room(&self, partition: &Partition, group: Group<'_>) -> Option<&String> {
        let room = self.brokers.get(&partition.broker)?;
        group.consumers.iter().any(|consumer| self.consumers.get(consumer) == Some(room)).then_some(room)
    }
}

impl LoadBalanceStrategy for MachineRoomStrategy {
    fn partitions_of(&self, me: &str, group: Group<'_>) -> Vec<Partition> {
        let share = |room: Option<&String>, consumers: &[String]| {
            let in_room = group.partitions.iter().filter(|partition| self.room(partition, group) == room);
            let partitions: Vec<_> = in_room.copied().collect();
            RangeStrategy.partitions_of(me, Group { consumers, partitions: &partitions })
        };
        let mut mine = share(None, group.consumers);
        if let Some(room) = self.consumers.get(me) {
            let neighbours = group.consumers.iter().filter(|consumer| self.consumers.get(*consumer) == Some(room));
            mine.extend(share(Some(room), &neighbours.cloned().collect::<Vec<_>>()));
        }
        group.partitions.iter().filter(|partition| mine.contains(partition)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebalance::testing::{assigned, expect};

    #[test]
    fn partitions_stay_in_their_room_while_it_has_members() {
        let broker = |id| BrokerId::new(id).unwrap();
        let strategy = MachineRoomStrategy::new()
            .broker(broker(0), "east")
            .broker(broker(1), "west")
            .consumer("g_a", "east")
            .consumer("g_b", "west")
            .consumer("g_c", "west");
        assert_eq!(assigned(&strategy, "0-m:2, 1-m:2", "g_a g_b g_c"), expect("g_a: 0-0 0-1; g_b: 1-0; g_c: 1-1"));
        // Nobody is left in the west; broker 2 is in no room.
        assert_eq!(assigned(&strategy, "0-m:2, 1-m:2, 2-m:1", "g_a g_x"), expect("g_a: 0-0 0-1 1-0 1-1; g_x: 2-0"));
    }
}
