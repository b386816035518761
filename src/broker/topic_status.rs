//! The state of topics and partitions as plain values, for programs too.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::topics::{Topics, settings_of};
use crate::config::TopicSettings;
use crate::id::TopicName;
use crate::store::{PartitionLog, Store};

/// A topic.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TopicStatus {
    /// Its name.
    pub topic: String,
    /// Whether it has a section of its own.
    pub configured: bool,
    /// The settings in force.
    pub settings: SettingsStatus,
    /// Bytes of all partitions.
    pub bytes: u64,
    /// Messages of all partitions, as far as they are counted (02 §20).
    pub messages: u64,
    /// Those that have data, by number.
    pub partitions: Vec<PartitionStatus>,
}

/// Settings of a topic under the names of the configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the fields are those of TopicSettings")]
pub struct SettingsStatus {
    pub num_partitions: u32,
    pub unflush_threshold: i32,
    pub unflush_interval: i32,
    pub data_path: String,
    pub delete_policy: String,
    pub delete_when: String,
    pub accept_publish: bool,
    pub accept_subscribe: bool,
    pub stat: bool,
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartitionStatus {
    /// Its number.
    pub partition: i32,
    /// Offset of the oldest byte.
    pub min_offset: i64,
    /// End of what consumers see.
    pub max_offset: i64,
    /// End of what was written, durable or not.
    pub written_offset: i64,
    /// Bytes of all segments.
    pub bytes: u64,
    /// How many those are.
    pub segments: usize,
    /// Messages, as far as they are counted (02 §20).
    pub messages: u64,
    /// Whether the operator closed it.
    pub closed: bool,
    /// Why it takes no more messages until a restart.
    pub poisoned: Option<String>,
    /// Whether its last put found the disk full.
    pub full: bool,
}

impl TopicStatus {
    /// All topics that are configured or have data, by name.
    pub(super) fn all(topics: &Topics, store: &Store) -> Vec<Self> {
        let mut logs: BTreeMap<TopicName, Vec<Arc<PartitionLog>>> = BTreeMap::new();
        for topic in topics.config().topics.iter() {
            logs.entry(topic.name.clone()).or_default();
        }
        for log in store.partitions() {
            logs.entry(log.topic().clone()).or_default().push(log);
        }
        logs.iter().map(|(topic, logs)| Self::from_logs(topics, store, topic.as_str(), logs)).collect()
    }

    /// One of them.
    pub(super) fn of(topics: &Topics, store: &Store, topic: &str) -> Option<Self> {
        let mut logs = store.partitions();
        logs.retain(|log| log.topic().as_str() == topic);
        let is_known = !logs.is_empty() || topics.config().topics.configured(topic).is_some();
        is_known.then(|| Self::from_logs(topics, store, topic, &logs))
    }

    fn from_logs(topics: &Topics, store: &Store, topic: &str, logs: &[Arc<PartitionLog>]) -> Self {
        let partitions: Vec<_> = logs.iter().map(|log| PartitionStatus::of(log, store)).collect();
        let config = topics.config();
        Self {
            topic: topic.to_owned(),
            configured: config.topics.configured(topic).is_some(),
            settings: SettingsStatus::of(settings_of(&config, topic)),
            bytes: partitions.iter().map(|partition| partition.bytes).sum(),
            messages: partitions.iter().map(|partition| partition.messages).sum(),
            partitions,
        }
    }
}

impl SettingsStatus {
    fn of(settings: &TopicSettings) -> Self {
        Self {
            num_partitions: settings.num_partitions,
            unflush_threshold: settings.unflush_threshold,
            unflush_interval: settings.unflush_interval,
            data_path: settings.data_path.display().to_string(),
            delete_policy: settings.delete_policy.to_string(),
            delete_when: settings.delete_when.to_string(),
            accept_publish: settings.accept_publish,
            accept_subscribe: settings.accept_subscribe,
            stat: settings.stat,
        }
    }
}

impl PartitionStatus {
    fn of(log: &PartitionLog, store: &Store) -> Self {
        Self {
            partition: log.index().get(),
            min_offset: log.min_offset().get(),
            max_offset: log.max_offset().get(),
            written_offset: log.written_offset().get(),
            bytes: log.size_bytes(),
            segments: log.segment_count(),
            messages: log.message_count(),
            closed: store.closed_partitions().is_closed(log.topic().as_str(), log.index()),
            poisoned: log.poison().map(|reason| reason.to_string()),
            full: log.is_full(),
        }
    }
}
