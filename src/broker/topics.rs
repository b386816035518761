//! Which topics are served with which settings, and which of them ZooKeeper is to show.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::watch;
use tracing::{info, warn};

use super::identity::Identity;
use crate::common::guard::lock;
use crate::common::quiet::Quiet;
use crate::config::{Admission, ServerConfig, TopicSettings};
use crate::id::TopicName;
use crate::store::{self, PartitionLog, Store};
use crate::zk::{DesiredState, TopicRegistration};

/// Shortest time between two log lines about topics that cannot be born.
const REFUSAL_LOG_PERIOD: Duration = Duration::from_secs(10);

/// The topics of a broker: those of its configuration, those found on disk, and those born from a wildcard pattern.
#[derive(Debug)]
pub(super) struct Topics {
    /// Replaced with `born` held, and by a reload alone.
    config: ArcSwap<ServerConfig>,
    /// Topics without a section of their own that are shown in ZooKeeper: found on disk or born since.
    born: Mutex<HashSet<TopicName>>,
    refusals: Mutex<Quiet>,
    desired: watch::Sender<Arc<DesiredState>>,
}

/// Why a topic cannot be born.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unborn {
    /// There are too many.
    #[error("the broker serves {limit} topics of wildcard patterns already; raise maxWildcardTopics or remove topics")]
    TooMany {
        /// `maxWildcardTopics`.
        limit: usize,
    },
    /// The configuration has just changed.
    #[error("the configuration does not admit the topic any more")]
    NotAdmitted,
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
        let desired = watch::Sender::new(Arc::new(desired));
        Self { config: ArcSwap::new(config), born: Mutex::new(born), refusals, desired }
    }

    fn born(&self) -> MutexGuard<'_, HashSet<TopicName>> {
        lock(&self.born)
    }

    /// The configuration in force.
    pub(super) fn config(&self) -> Guard<Arc<ServerConfig>> {
        self.config.load()
    }

    /// Serves the topics of another configuration from now on. One that had a section or a pattern and has neither any
    /// more disappears from ZooKeeper; one that was only found on disk stays.
    pub(super) fn reload(&self, new: Arc<ServerConfig>, store: &Store) {
        let with_data = store.topics();
        let mut born = self.born();
        let old = self.config.swap(Arc::clone(&new));
        let was_admitted = |name: &TopicName| old.topics.admission(name.as_str()).is_some();
        let is_configured = |name: &TopicName| new.topics.configured(name.as_str()).is_some();
        let is_gone = |name: &TopicName| was_admitted(name) && new.topics.admission(name.as_str()).is_none();
        // One that has lost its section but is admitted by a pattern lives on if it has data.
        let lives_on = old.topics.iter().map(|topic| &topic.name).filter(|&name| with_data.contains_key(name));
        born.extend(lives_on.cloned());
        born.retain(|name| !is_configured(name) && !is_gone(name));
        let configured = new.topics.iter().map(|topic| (topic.name.clone(), registration(&topic.settings)));
        let others = born.iter().map(|name| (name.clone(), registration(new.topics.defaults())));
        let topics = configured.chain(others).collect();
        self.desired.send_modify(|desired| {
            let desired = Arc::make_mut(desired);
            desired.checksum = new.checksum;
            desired.topics = topics;
        });
    }

    /// Gives a partition that was just made the settings in force: a reload that came in between has not seen it.
    pub(super) fn apply_settings(&self, log: &PartitionLog) {
        // A reload that comes now waits, so its settings are not overwritten by older ones.
        let _held = self.born();
        log.set_settings(&store_settings(settings_of(&self.config(), log.topic())));
    }

    /// What the registration is to bring about.
    pub(super) fn desired(&self) -> watch::Receiver<Arc<DesiredState>> {
        self.desired.subscribe()
    }

    /// Whether realtime statistics are kept of a topic, by its own section or that of the pattern that admits it
    /// (03 §12). Never of one that does not exist yet: what clients merely ask for must not take memory.
    pub(super) fn keeps_statistics(&self, topic: &str) -> bool {
        let config = self.config();
        match config.topics.admission(topic) {
            Some(Admission::Configured(topic)) => topic.settings.stat,
            Some(Admission::Wildcard { pattern, .. }) => {
                let section = config.topics.configured(pattern.name().as_str());
                section.is_some_and(|section| section.settings.stat) && self.born().contains(topic)
            }
            None => false,
        }
    }

    /// Lets ZooKeeper know of a topic that gets its first partition. Only notes it: registering never delays a put.
    pub(super) fn announce(&self, topic: &TopicName) -> Result<(), Unborn> {
        if self.config().topics.configured(topic.as_str()).is_some() {
            return Ok(());
        }
        let mut born = self.born();
        let config = self.config();
        match config.topics.admission(topic.as_str()) {
            Some(Admission::Configured(_)) => return Ok(()),
            Some(Admission::Wildcard { .. }) if born.contains(topic) => return Ok(()),
            Some(Admission::Wildcard { .. }) => {}
            None => return Err(Unborn::NotAdmitted),
        }
        let limit = config.metaq.max_wildcard_topics;
        if born.len() >= limit {
            drop(born);
            if let Some(refused) = lock(&self.refusals).count() {
                warn!(%topic, limit, refused, "refusing a topic beyond maxWildcardTopics");
            }
            return Err(Unborn::TooMany { limit });
        }
        info!(%topic, "new topic of a wildcard pattern");
        born.insert(topic.clone());
        let registration = registration(config.topics.defaults());
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
