//! Where the puts of a topic go, found once and used for many.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, RwLock};

use crate::common::guard::{read, write};
use crate::id::PartitionIndex;
use crate::store::PartitionLog;

/// A topic that accepted a put.
#[derive(Debug)]
pub(super) struct Route {
    topic: Box<str>,
    era: Era,
    /// One place for each partition that accepts puts; filled as they are used.
    partitions: Box<[OnceLock<Arc<PartitionLog>>]>,
    /// Whether realtime statistics are kept.
    pub(super) statistics: bool,
}

impl Route {
    pub(super) fn topic(&self) -> &str {
        &self.topic
    }

    /// The configuration that it was learned under.
    pub(super) fn era(&self) -> Era {
        self.era
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

/// The configuration that a route was learned under, by its place in the sequence of reloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Era(u64);

/// The routes of all topics that were put to. As many as there are topics, which have a limit of their own.
#[derive(Debug, Default)]
pub(super) struct Routes {
    map: RwLock<HashMap<Box<str>, Arc<Route>>>,
    era: AtomicU64,
}

impl Routes {
    pub(super) fn find(&self, topic: &str) -> Option<Arc<Route>> {
        read(&self.map).get(topic).cloned()
    }

    /// The present era: to be asked before the configuration is.
    pub(super) fn era(&self) -> Era {
        Era(self.era.load(Ordering::Acquire))
    }

    /// Forgets everything, also what is being learned under the configuration that was in force until now.
    pub(super) fn forget_all(&self) {
        let mut map = write(&self.map);
        self.era.fetch_add(1, Ordering::AcqRel);
        map.clear();
    }

    /// Remembers where an accepted put went, unless the era in which it was accepted is over.
    pub(super) fn learn(&self, era: Era, partition: &Arc<PartitionLog>, num_partitions: u32, statistics: bool) {
        let topic = partition.topic().as_str();
        let route = self.find(topic).filter(|route| {
            // A partition that was deleted and made anew needs a place of its own.
            route.partition(partition.index()).is_none_or(|known| Arc::ptr_eq(known, partition))
                && !route.has_stale(partition)
        });
        let route = route.unwrap_or_else(|| {
            let places = usize::try_from(num_partitions).unwrap_or(0);
            let partitions = std::iter::repeat_with(OnceLock::new).take(places).collect();
            let route = Arc::new(Route { topic: topic.into(), era, partitions, statistics });
            let mut routes = write(&self.map);
            if self.era() == era {
                routes.insert(topic.into(), Arc::clone(&route));
            }
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
