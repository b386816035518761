//! When which partition is due: requests in the order of their time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::time::Instant;

use crate::id::TopicPartition;

/// One entry a partition, ordered by due time; entries of equal time keep the order in which they were put in (05 §10).
#[derive(Debug, Default)]
pub(super) struct FetchRequestQueue {
    order: BTreeMap<(Instant, u64), Arc<TopicPartition>>,
    places: HashMap<Arc<TopicPartition>, (Instant, u64)>,
    inserted: u64,
}

impl FetchRequestQueue {
    /// Puts a partition in; one that is in already gets the new time and goes behind others of the same time.
    pub(super) fn put(&mut self, of: Arc<TopicPartition>, due: Instant) {
        self.remove(&of);
        let place = (due, self.inserted);
        self.inserted += 1;
        self.order.insert(place, Arc::clone(&of));
        self.places.insert(of, place);
    }

    /// Takes the first partition whose time has come.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Arc<TopicPartition>> {
        let first = self.order.first_entry().filter(|first| first.key().0 <= now)?;
        let of = first.remove();
        self.places.remove(&of);
        Some(of)
    }

    /// When the first partition is due, `None` if there is none.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.order.first_key_value().map(|((due, _), _)| *due)
    }

    /// Takes a partition out; tells whether it was in.
    pub(super) fn remove(&mut self, of: &TopicPartition) -> bool {
        self.places.remove(of).is_some_and(|place| self.order.remove(&place).is_some())
    }

    /// Makes a partition due now if it is in and its time is later.
    pub(super) fn make_due(&mut self, of: &TopicPartition, now: Instant) {
        let later = self.places.get_key_value(of).filter(|(_, (due, _))| *due > now).map(|(of, _)| Arc::clone(of));
        if let Some(of) = later {
            self.put(of, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fetch::testing::partition;

    fn take_all(queue: &mut FetchRequestQueue, now: Instant) -> Vec<i32> {
        std::iter::from_fn(|| queue.take_due(now)).map(|of| of.partition.index.get()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn partitions_come_in_the_order_of_their_time_and_equal_times_in_the_order_of_insertion() {
        let now = Instant::now();
        let mut queue = FetchRequestQueue::default();
        for (index, ms) in [(0, 20), (1, 10), (2, 20), (3, 10), (4, 30)] {
            queue.put(partition(index), now + Duration::from_millis(ms));
        }
        assert_eq!(queue.next_due(), Some(now + Duration::from_millis(10)));
        assert_eq!(take_all(&mut queue, now), [0; 0]);
        assert_eq!(take_all(&mut queue, now + Duration::from_millis(20)), [1, 3, 0, 2]);
        assert_eq!(take_all(&mut queue, now + Duration::from_secs(1)), [4]);
        assert_eq!(queue.next_due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_partition_is_in_the_queue_once() {
        let now = Instant::now();
        let mut queue = FetchRequestQueue::default();
        queue.put(partition(0), now);
        queue.put(partition(1), now);
        queue.put(partition(0), now);
        assert_eq!(take_all(&mut queue, now), [1, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_removed_partition_does_not_come_and_one_made_due_comes_at_once() {
        let now = Instant::now();
        let later = now + Duration::from_secs(5);
        let mut queue = FetchRequestQueue::default();
        for index in 0..3 {
            queue.put(partition(index), later);
        }
        assert!(queue.remove(&partition(0)));
        assert!(!queue.remove(&partition(0)));
        queue.make_due(&partition(0), now);
        queue.make_due(&partition(2), now);
        assert_eq!(take_all(&mut queue, now), [2]);
        assert_eq!(take_all(&mut queue, later), [1]);
    }
}
