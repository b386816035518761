//! The application's memory of handled messages, asked and told on behalf of one group (05 §12).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::error;

use crate::common::guard::lock;
use crate::common::panics::caught;
use crate::common::quiet::Quiet;
use crate::fetch::{MessageIdCache, ReceivedMessage};
use crate::id::GroupName;

/// Between two lines about panics.
const PERIOD: Duration = Duration::from_secs(30);

/// A cache, if there is one. If it panics, a message counts as new: it is delivered rather than lost, and what was handled
/// stays handled.
pub(super) struct SeenMessages {
    group: GroupName,
    cache: Option<Arc<dyn MessageIdCache>>,
    panics: Mutex<Quiet>,
}

impl SeenMessages {
    pub(super) fn new(group: GroupName, cache: Option<Arc<dyn MessageIdCache>>) -> Self {
        Self { group, cache, panics: Mutex::new(Quiet::new(PERIOD)) }
    }

    /// Whether the group has handled a message.
    pub(super) fn contains(&self, message: &ReceivedMessage) -> bool {
        self.call(message, |cache| cache.contains(&self.group, message.id)).unwrap_or(false)
    }

    /// The group has handled a message.
    pub(super) fn insert(&self, message: &ReceivedMessage) {
        self.call(message, |cache| cache.insert(&self.group, message.id));
    }

    fn call<T>(&self, message: &ReceivedMessage, call: impl FnOnce(&dyn MessageIdCache) -> T) -> Option<T> {
        let cache = self.cache.as_ref()?;
        caught(|| call(&**cache)).map_err(|panic| self.told_panic(message, &panic)).ok()
    }

    fn told_panic(&self, message: &ReceivedMessage, panic: &str) {
        if let Some(calls) = lock(&self.panics).count() {
            error!(
                group = %self.group, partition = %message.from, offset = %message.offset, calls, panic,
                "the cache of handled messages panicked: messages that come again are delivered again"
            );
        }
    }
}
