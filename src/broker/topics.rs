//! Which topics are served with which settings, and which of them ZooKeeper is to show.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tracing::{info, warn};

use super::identity::Identity;
use super::quiet::Quiet;
use crate::config::{Admission, ServerConfig, TopicSettings};
use crate::id::TopicName;
use crate::store::{self, Store};
use crate::zk::{DesiredState, TopicRegistration};

/// Shortest time between two log lines about topics that cannot be born.
const REFUSAL_LOG_PERIOD: Duration = Duration::from_secs(10);

/// The topics of a broker: those of its configuration, those found on disk, and those born from a wildcard pattern.
#[derive(Debug)]
pub(super) struct Topics {
    config: Arc<ServerConfig>,
    /// Topics without a section of their own that are shown in ZooKeeper: found on disk or born since.
    born: Mutex<HashSet<TopicName>>,
    refusals: Mutex<Quiet>,
    desired: watch::Sender<Arc<DesiredState>>,
}

/// Why a topic cannot be born.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the broker serves {limit} topics of wildcard patterns already; raise maxWildcardTopics or remove topics")]
pub(super) struct TooManyTopics {
    limit: usize,
}

impl Topics {
    /// All topics that are to be served from the start (04 §5): those configured, under their literal names, and those
    /// with data, with the system's settings unless they have a section.
    pub(super) fn new(config: Arc<ServerConfig>, identity: &Identity, store: &Store) -> Self {
        let on_disk: Vec<TopicName> = store.topics().into_keys().collect();
        let configured = config.topics.iter().map(|topic| (topic.name.clone(), registration(&topic.settings)));
        let found = on_disk.iter().map(|name| (name.clone(), registration(settings_of(&config, name))));
        let desired = DesiredState {
            broker: identity.id,
            url: identity.url.clone(),
            checksum: config.checksum,
            topics: configured.chain(found).collect(),
        };
        let born = on_disk.into_iter().filter(|name| config.topics.configured(name.as_str()).is_none()).collect();
        let refusals = Mutex::new(Quiet::new(REFUSAL_LOG_PERIOD));
        Self { config, born: Mutex::new(born), refusals, desired: watch::Sender::new(Arc::new(desired)) }
    }

    fn born(&self) -> MutexGuard<'_, HashSet<TopicName>> {
        self.born.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the registration is to bring about.
    pub(super) fn desired(&self) -> watch::Receiver<Arc<DesiredState>> {
        self.desired.subscribe()
    }

    /// The settings under which puts to a topic are accepted.
    pub(super) fn admit(&self, topic: &str) -> Option<&TopicSettings> {
        self.config.topics.admission(topic).map(|admission| admission.settings())
    }

    /// Whether realtime statistics are kept of a topic, by its own section or that of the pattern that admits it
    /// (03 §12). Never of one that does not exist yet: what clients merely ask for must not take memory.
    pub(super) fn keeps_statistics(&self, topic: &str) -> bool {
        match self.config.topics.admission(topic) {
            Some(Admission::Configured(topic)) => topic.settings.stat,
            Some(Admission::Wildcard { pattern, .. }) => {
                let section = self.config.topics.configured(pattern.name().as_str());
                section.is_some_and(|section| section.settings.stat) && self.born().contains(topic)
            }
            None => false,
        }
    }

    /// The settings of a topic's section, or the system's.
    pub(super) fn settings(&self, topic: &str) -> &TopicSettings {
        settings_of(&self.config, topic)
    }

    /// The name of a topic, if it has a section of exactly this name.
    pub(super) fn configured_name(&self, topic: &str) -> Option<&TopicName> {
        self.config.topics.configured(topic).map(|topic| &topic.name)
    }

    /// The topics with a section.
    pub(super) fn configured(&self) -> impl Iterator<Item = &TopicName> {
        self.config.topics.iter().map(|topic| &topic.name)
    }

    /// Lets ZooKeeper know of a topic that gets its first partition. Only notes it: registering never delays a put.
    pub(super) fn announce(&self, topic: &TopicName) -> Result<(), TooManyTopics> {
        if self.config.topics.configured(topic.as_str()).is_some() {
            return Ok(());
        }
        let limit = self.config.metaq.max_wildcard_topics;
        let mut born = self.born();
        if born.contains(topic) {
            return Ok(());
        }
        if born.len() >= limit {
            if let Some(refused) = self.refusals.lock().unwrap_or_else(PoisonError::into_inner).count() {
                warn!(%topic, limit, refused, "refusing a topic beyond maxWildcardTopics");
            }
            return Err(TooManyTopics { limit });
        }
        info!(%topic, "new topic of a wildcard pattern");
        born.insert(topic.clone());
        drop(born);
        let registration = registration(self.settings(topic.as_str()));
        self.desired.send_modify(|desired| {
            Arc::make_mut(desired).topics.insert(topic.clone(), registration);
        });
        Ok(())
    }
}

/// The settings of a topic's section, or the system's.
pub(super) fn settings_of(config: &ServerConfig, topic: impl AsRef<str>) -> &TopicSettings {
    config.topics.configured(topic.as_ref()).map_or(config.topics.defaults(), |topic| &topic.settings)
}

fn registration(settings: &TopicSettings) -> TopicRegistration {
    TopicRegistration {
        partitions: settings.num_partitions,
        accept_publish: settings.accept_publish,
        accept_subscribe: settings.accept_subscribe,
    }
}

/// The settings of a topic as the store takes them.
pub(super) fn store_settings(settings: &TopicSettings) -> store::TopicSettings {
    store::TopicSettings {
        unflush_threshold: settings.unflush_threshold,
        unflush_interval_ms: settings.unflush_interval,
        data_path: Some(settings.data_path.clone()),
    }
}
