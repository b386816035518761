//! Who of a factory reads what: a group and topic have one consumer at most (05 §2).

use std::collections::HashMap;
use std::sync::Mutex;

use crate::common::guard::lock;
use crate::id::{GroupName, TopicName};

/// The subscriptions of all consumers of a factory.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions(Mutex<HashMap<(GroupName, TopicName), String>>);

impl Subscriptions {
    /// Whether nobody else had it.
    pub(super) fn claim(&self, group: &GroupName, topic: &TopicName, consumer: &str) -> bool {
        let mut all = lock(&self.0);
        let owner = all.entry((group.clone(), topic.clone())).or_insert_with(|| consumer.to_owned());
        owner == consumer
    }

    /// The consumer has ended.
    pub(super) fn give_up(&self, consumer: &str) {
        lock(&self.0).retain(|_, owner| owner != consumer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_and_topic_belong_to_one_consumer_until_it_ends() {
        let subscriptions = Subscriptions::default();
        let (g, h) = (GroupName::new("g").unwrap(), GroupName::new("h").unwrap());
        let topic = TopicName::new("t").unwrap();
        assert!(subscriptions.claim(&g, &topic, "g_1"));
        assert!(!subscriptions.claim(&g, &topic, "g_2"));
        assert!(subscriptions.claim(&h, &topic, "h_1"));
        subscriptions.give_up("g_1");
        assert!(subscriptions.claim(&g, &topic, "g_2"));
    }
}
