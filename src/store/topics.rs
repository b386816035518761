//! The open partitions, by topic and number.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, RwLock};

use super::partition::PartitionLog;
use crate::common::guard::{read, write};
use crate::id::{PartitionIndex, TopicName};

type Partitions = BTreeMap<PartitionIndex, Arc<PartitionLog>>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Topics(RwLock<HashMap<TopicName, Partitions>>);

impl Topics {
    pub(super) fn get(&self, topic: &str, index: PartitionIndex) -> Option<Arc<PartitionLog>> {
        read(&self.0).get(topic)?.get(&index).cloned()
    }

    /// Adds a partition unless it is there, and returns the one that is.
    pub(super) fn get_or_insert(&self, partition: PartitionLog) -> Arc<PartitionLog> {
        let mut topics = write(&self.0);
        let partitions = topics.entry(partition.topic().clone()).or_default();
        let entry = partitions.entry(partition.index());
        Arc::clone(entry.or_insert_with(|| Arc::new(partition)))
    }

    /// Takes a partition out.
    pub(super) fn remove(&self, topic: &TopicName, index: PartitionIndex) {
        let mut topics = write(&self.0);
        if let Some(partitions) = topics.get_mut(topic) {
            partitions.remove(&index);
            if partitions.is_empty() {
                topics.remove(topic);
            }
        }
    }

    /// All partitions in no particular order of topics, each topic's in ascending order.
    pub(super) fn all(&self) -> Vec<Arc<PartitionLog>> {
        read(&self.0).values().flat_map(BTreeMap::values).cloned().collect()
    }
}
