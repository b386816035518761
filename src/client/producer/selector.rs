//! Which partition a message goes to (07 §5).

use std::fmt;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::client::Message;
use crate::id::{Partition, TopicName};

/// Chooses the partition of each message. One selector serves all topics of a producer, called by many at a time.
pub trait PartitionSelector: fmt::Debug + Send + Sync {
    /// Chooses among the partitions of a topic, sorted by broker and number. There may be none. `None` fails the message
    /// with [`ClientError::NoPartition`](crate::client::ClientError::NoPartition). A message that is sent once more after
    /// a failure is offered the partitions that were not tried yet, if there are any.
    fn select(&self, topic: &TopicName, partitions: &[Partition], message: &Message) -> Option<Partition>;
}

/// The partitions in turn, as the reference does it: the second one comes first, and all topics share one count.
#[derive(Debug, Default)]
pub struct RoundRobinSelector(AtomicI32);

impl PartitionSelector for RoundRobinSelector {
    fn select(&self, _: &TopicName, partitions: &[Partition], _: &Message) -> Option<Partition> {
        let count = self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1) & i32::MAX;
        let index = usize::try_from(count).ok()?.checked_rem(partitions.len())?;
        partitions.get(index).copied()
    }
}

/// Any partition, each as likely as another.
#[derive(Debug, Default)]
pub struct RandomSelector;

impl PartitionSelector for RandomSelector {
    fn select(&self, _: &TopicName, partitions: &[Partition], _: &Message) -> Option<Partition> {
        fastrand::choice(partitions).copied()
    }
}

/// The same partition for the same key, as long as the partitions of the topic stay the same. A key is hashed as
/// Java's `String.hashCode`, so that Java producers can choose alike: `floorMod(hashCode(key), n)`.
pub struct HashByKeySelector<F>(F);

impl<F: Fn(&Message) -> Option<&str> + Send + Sync> HashByKeySelector<F> {
    /// `key` finds the key in a message; a message without one fails.
    pub fn new(key: F) -> Self {
        Self(key)
    }
}

impl HashByKeySelector<fn(&Message) -> Option<&str>> {
    /// The attribute is the key.
    pub fn by_attribute() -> Self {
        Self(Message::attribute)
    }
}

impl<F> fmt::Debug for HashByKeySelector<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashByKeySelector")
    }
}

impl<F: Fn(&Message) -> Option<&str> + Send + Sync> PartitionSelector for HashByKeySelector<F> {
    fn select(&self, _: &TopicName, partitions: &[Partition], message: &Message) -> Option<Partition> {
        let hash = i64::from(java_hash((self.0)(message)?));
        let index = hash.checked_rem_euclid(i64::try_from(partitions.len()).ok()?)?;
        partitions.get(usize::try_from(index).ok()?).copied()
    }
}

/// `String.hashCode` of Java: over UTF-16 code units, in 32 bits that wrap.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// One partition, whether the topic shows it or not.
#[derive(Debug, Clone, Copy)]
pub struct FixedSelector(pub Partition);

impl PartitionSelector for FixedSelector {
    fn select(&self, _: &TopicName, _: &[Partition], _: &Message) -> Option<Partition> {
        Some(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partitions(count: i32) -> Vec<Partition> {
        (0..count).map(|n| format!("0-{n}").parse().unwrap()).collect()
    }

    fn message(attribute: &str) -> Message {
        Message::new(TopicName::new("t").unwrap(), "").with_attribute(attribute.to_owned())
    }

    fn index(selector: &dyn PartitionSelector, count: i32, attribute: &str) -> Option<i32> {
        let message = message(attribute);
        selector.select(message.topic(), &partitions(count), &message).map(|partition| partition.index.get())
    }

    #[test]
    fn round_robin_begins_with_the_second_partition_as_the_reference_does() {
        let selector = RoundRobinSelector::default();
        let picks: Vec<_> = (0..4).map(|_| index(&selector, 3, "").unwrap()).collect();
        assert_eq!(picks, [1, 2, 0, 1]);
        // The count goes on over another list.
        assert_eq!(index(&selector, 2, ""), Some(1));
        assert_eq!(index(&selector, 0, ""), None);
    }

    #[test]
    fn round_robin_survives_the_wrap_of_its_count() {
        let selector = RoundRobinSelector(AtomicI32::new(i32::MAX - 1));
        // 2147483647, then -2147483648 and -2147483647 without their sign.
        let picks: Vec<_> = (0..3).map(|_| index(&selector, 10, "").unwrap()).collect();
        assert_eq!(picks, [7, 0, 1]);
    }

    #[test]
    fn keys_are_hashed_as_java_hashes_them() {
        for (text, hash) in [
            ("", 0),
            ("a", 97),
            ("hello", 99_162_322),
            ("polygenelubricants", i32::MIN),
            ("测试", 903_146),
            ("\u{1f600}", 1_772_899),
        ] {
            assert_eq!(java_hash(text), hash, "{text}");
        }
    }

    #[test]
    fn a_negative_hash_still_names_a_partition() {
        let selector = HashByKeySelector::by_attribute();
        // floorMod(-2147483648, 7) is 5 where the remainder is -2.
        assert_eq!(index(&selector, 7, "polygenelubricants"), Some(5));
        assert_eq!(index(&selector, 10, "hello"), Some(2));
        assert_eq!(index(&selector, 0, "hello"), None);
        let without = Message::new(TopicName::new("t").unwrap(), "");
        assert_eq!(selector.select(without.topic(), &partitions(3), &without), None);
    }

    #[test]
    fn random_stays_among_the_partitions_and_a_fixed_one_needs_none() {
        let seen: std::collections::BTreeSet<_> = (0..200).filter_map(|_| index(&RandomSelector, 3, "")).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(index(&RandomSelector, 0, ""), None);
        assert_eq!(index(&FixedSelector("0-9".parse().unwrap()), 0, ""), Some(9));
    }
}
