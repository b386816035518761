//! Which messages were delivered lately, so that they are not delivered again after a hand-over within the process (05 §12).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock, Mutex};

use crate::common::guard::lock;
use crate::id::{GroupName, MessageId};

/// Remembers messages of groups. Whoever delivers asks it before, and tells it after a message was handled.
pub trait MessageIdCache: fmt::Debug + Send + Sync {
    /// Whether the group has handled the message, as far as is known.
    fn contains(&self, group: &GroupName, id: MessageId) -> bool;

    /// The group has handled the message.
    fn insert(&self, group: &GroupName, id: MessageId);

    /// Forgets the messages of a group: it wants to read some of them again.
    fn forget(&self, group: &GroupName);
}

/// Keeps the messages asked for or told last, of all groups together.
#[derive(Debug)]
pub struct RecentMessages {
    capacity: NonZeroUsize,
    state: Mutex<State>,
}

type Key = (GroupName, MessageId);

#[derive(Debug, Default)]
struct State {
    used: u64,
    /// When each was used last.
    by_key: HashMap<Key, u64>,
    by_use: BTreeMap<u64, Key>,
}

/// What consumers share unless told otherwise.
static SHARED: LazyLock<Arc<RecentMessages>> = LazyLock::new(|| Arc::new(RecentMessages::default()));

impl RecentMessages {
    /// What the reference keeps (`metaq.consumer.message_ids.lru_cache.size`).
    pub const DEFAULT_CAPACITY: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4095);

    /// A cache of so many messages.
    pub fn new(capacity: NonZeroUsize) -> Self {
        Self { capacity, state: Mutex::default() }
    }

    /// The one that all consumers of the process share by default.
    pub fn shared() -> Arc<Self> {
        Arc::clone(&SHARED)
    }
}

impl Default for RecentMessages {
    /// With [`DEFAULT_CAPACITY`](Self::DEFAULT_CAPACITY).
    fn default() -> Self {
        Self::new(Self::DEFAULT_CAPACITY)
    }
}

impl State {
    /// Makes a message the one used last. Returns whether it was there.
    fn touch(&mut self, key: &Key) -> bool {
        let Some(used) = self.by_key.get_mut(key) else { return false };
        self.used += 1;
        if let Some(key) = self.by_use.remove(used) {
            self.by_use.insert(self.used, key);
        }
        *used = self.used;
        true
    }
}

impl MessageIdCache for RecentMessages {
    fn contains(&self, group: &GroupName, id: MessageId) -> bool {
        lock(&self.state).touch(&(group.clone(), id))
    }

    fn insert(&self, group: &GroupName, id: MessageId) {
        let key = (group.clone(), id);
        let mut state = lock(&self.state);
        if state.touch(&key) {
            return;
        }
        state.used += 1;
        let used = state.used;
        state.by_key.insert(key.clone(), used);
        state.by_use.insert(used, key);
        while state.by_key.len() > self.capacity.get()
            && let Some((_, oldest)) = state.by_use.pop_first()
        {
            state.by_key.remove(&oldest);
        }
    }

    fn forget(&self, group: &GroupName) {
        let mut state = lock(&self.state);
        state.by_key.retain(|(of, _), _| of != group);
        state.by_use.retain(|_, (of, _)| of != group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(name: &'static str) -> GroupName {
        GroupName::new(name).unwrap()
    }

    #[test]
    fn the_message_used_longest_ago_goes_first() {
        let cache = RecentMessages::new(NonZeroUsize::new(3).unwrap());
        let g = group("g");
        for id in 1..=3 {
            cache.insert(&g, MessageId::new(id));
        }
        assert!(cache.contains(&g, MessageId::new(1)));
        cache.insert(&g, MessageId::new(3));
        cache.insert(&g, MessageId::new(4));
        let kept: Vec<_> = (1..=4).filter(|&id| cache.contains(&g, MessageId::new(id))).collect();
        assert_eq!(kept, [1, 3, 4]);
    }

    #[test]
    fn groups_whose_name_ends_in_digits_do_not_hide_each_other_s_messages() {
        let cache = RecentMessages::default();
        cache.insert(&group("g1"), MessageId::new(23));
        assert!(!cache.contains(&group("g12"), MessageId::new(3)));
        assert!(cache.contains(&group("g1"), MessageId::new(23)));
    }

    #[test]
    fn a_group_that_reads_again_is_forgotten_and_others_are_not() {
        let cache = RecentMessages::new(NonZeroUsize::new(2).unwrap());
        cache.insert(&group("a"), MessageId::new(1));
        cache.insert(&group("b"), MessageId::new(1));
        cache.forget(&group("a"));
        assert!(!cache.contains(&group("a"), MessageId::new(1)));
        assert!(cache.contains(&group("b"), MessageId::new(1)));
        cache.insert(&group("b"), MessageId::new(2));
        assert!(cache.contains(&group("b"), MessageId::new(1)));
    }
}
