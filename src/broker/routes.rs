//! Where the puts of a topic go, found once and used for many.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::id::PartitionIndex;
use crate::store::PartitionLog;

/// A topic that accepted a put.
#[derive(Debug)]
pub(super) struct Route {
    topic: Box<str>,
    /// One place for each partition that accepts puts; filled as they are used.
    partitions: Box<[OnceLock<Arc<PartitionLog>>]>,
    /// Whether realtime statistics are kept.
    pub(super) statistics: bool,
}

impl Route {
    pub(super) fn topic(&self) -> &str {
        &self.topic
    }

    /// The partition, if it was used before and still is what it was.
    pub(super) fn partition(&self, index: PartitionIndex) -> Option<&Arc<PartitionLog>> {
        let index = usize::try_from(index.get()).ok()?;
        self.partitions.get(index)?.get().filter(|partition| !partition.is_deleted())
    }

    fn learn(&self, partition: &Arc<PartitionLog>) {
        let index = usize::try_from(partition.index().get()).ok();
        if let Some(place) = index.and_then(|index| self.partitions.get(index)) {
            // The first one stays: it is the same.
            let _ = place.set(Arc::clone(partition));
        }
    }
}

/// The routes of all topics that were put to. As many as there are topics, which have a limit of their own.
#[derive(Debug, Default)]
pub(super) struct Routes(RwLock<HashMap<Box<str>, Arc<Route>>>);

impl Routes {
    pub(super) fn find(&self, topic: &str) -> Option<Arc<Route>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(topic).cloned()
    }

    /// Remembers where an accepted put went.
    pub(super) fn learn(&self, partition: &Arc<PartitionLog>, num_partitions: u32, statistics: bool) {
        let topic = partition.topic().as_str();
        let route = self.find(topic).filter(|route| {
            // A partition that was deleted and made anew needs a place of its own.
            route.partition(partition.index()).is_none_or(|known| Arc::ptr_eq(known, partition))
                && !route.has_stale(partition)
        });
        let route = route.unwrap_or_else(|| {
            let places = usize::try_from(num_partitions).unwrap_or(0);
            let partitions = std::iter::repeat_with(OnceLock::new).take(places).collect();
            let route = Arc::new(Route { topic: topic.into(), partitions, statistics });
            let mut routes = self.0.write().unwrap_or_else(PoisonError::into_inner);
            routes.insert(topic.into(), Arc::clone(&route));
            route
        });
        route.learn(partition);
    }
}

impl Route {
    /// Whether the partition's place is taken by one that was deleted.
    fn has_stale(&self, partition: &Arc<PartitionLog>) -> bool {
        let index = usize::try_from(partition.index().get()).ok();
        let place = index.and_then(|index| self.partitions.get(index)).and_then(OnceLock::get);
        place.is_some_and(|known| !Arc::ptr_eq(known, partition))
    }
}
