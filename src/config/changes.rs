//! What a changed configuration file means for a running broker (03 §7).

use std::fmt;

use serde::Serialize;

use super::server::ServerConfig;
use super::topics::Topics;
use super::value::Value;
use crate::id::TopicName;

/// What a reload changes, and what it cannot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Changes {
    /// Topics with a new section.
    pub added: Vec<AddedTopic>,
    /// Topics whose section says something else than before.
    pub changed: Vec<ChangedTopic>,
    /// Topics whose section is gone.
    pub removed: Vec<TopicName>,
    /// Keys outside of topic sections whose value in the file is not the one in force: a restart takes them over.
    pub after_restart: Vec<ChangedKey>,
}

/// A topic with a new section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AddedTopic {
    /// Its name.
    pub topic: TopicName,
    /// Its partitions are 0 to this number less 1.
    pub num_partitions: u32,
}

/// A topic whose section changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedTopic {
    /// Its name.
    pub topic: TopicName,
    /// What is different.
    pub keys: Vec<ChangedKey>,
}

/// A key with another value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChangedKey {
    /// The section without brackets; `None` in the list of a topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<&'static str>,
    /// The key.
    pub key: String,
    /// The value in force before.
    pub old: Value,
    /// The value in the file.
    pub new: Value,
}

impl ServerConfig {
    /// The configuration that is in force once a running broker has taken over the file: the topics are the file's, with
    /// the running values of `[system]` where a section has none, everything else stays as it is.
    pub fn reloaded(&self, file: &Self) -> Self {
        Self {
            path: self.path.clone(),
            checksum: file.checksum,
            system: self.system.clone(),
            zookeeper: self.zookeeper.clone(),
            metaq: self.metaq.clone(),
            topics: file.topics.with_defaults(self.topics.defaults()),
            warnings: file.warnings.clone(),
        }
    }
}

impl Changes {
    /// What taking over `file` changes for a broker that runs with `running`.
    pub fn between(running: &ServerConfig, file: &ServerConfig) -> Self {
        let topics = file.topics.with_defaults(running.topics.defaults());
        let mut changes = Self { after_restart: after_restart(running, file), ..Self::default() };
        for new in topics.iter() {
            match running.topics.configured(new.name.as_str()) {
                None => changes
                    .added
                    .push(AddedTopic { topic: new.name.clone(), num_partitions: new.settings.num_partitions }),
                Some(old) => {
                    let keys = changed_keys(None, old.entries(), new.entries());
                    if !keys.is_empty() {
                        changes.changed.push(ChangedTopic { topic: new.name.clone(), keys });
                    }
                }
            }
        }
        changes.removed = removed(&running.topics, &topics).cloned().collect();
        changes
    }

    /// Whether the file says what is in force.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn removed<'a>(before: &'a Topics, after: &Topics) -> impl Iterator<Item = &'a TopicName> {
    before.iter().map(|topic| &topic.name).filter(|name| after.configured(name.as_str()).is_none())
}

fn after_restart(running: &ServerConfig, file: &ServerConfig) -> Vec<ChangedKey> {
    let named = |entries: Vec<(&'static str, Value)>| entries.into_iter().map(|(key, value)| (key.to_owned(), value));
    let sections = running.sections().into_iter().zip(file.sections());
    sections
        .flat_map(|((section, old), (_, new))| {
            changed_keys(Some(section), named(old).collect(), named(new).collect()) //
        })
        .collect()
}

/// Keys with another value; one that is in one list only (a filter of a group) has no value in the other.
fn changed_keys(
    section: Option<&'static str>,
    old: Vec<(String, Value)>,
    new: Vec<(String, Value)>,
) -> Vec<ChangedKey> {
    let find = |list: &[(String, Value)], key: &str| {
        list.iter().find(|(name, _)| name == key).map_or(Value::Unset, |(_, value)| value.clone())
    };
    let gone = old.iter().filter(|(key, _)| !new.iter().any(|(name, _)| name == key));
    let keys: Vec<String> = new.iter().chain(gone).map(|(key, _)| key.clone()).collect();
    keys.into_iter()
        .filter_map(|key| {
            let (old, new) = (find(&old, &key), find(&new, &key));
            (old != new).then_some(ChangedKey { section, key, old, new })
        })
        .collect()
}

impl fmt::Display for ChangedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Value| if *value == Value::Unset { "(not set)".to_owned() } else { value.to_string() };
        if let Some(section) = self.section {
            write!(f, "[{section}] ")?;
        }
        write!(f, "{} {} -> {}", self.key, shown(&self.old), shown(&self.new))?;
        // A partition that exists stays where it is.
        if self.section.is_none() && self.key == "dataPath" {
            f.write_str(
                " (for new partitions; before the next restart, move the directories of the topic's present ones there)",
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for AddedTopic { topic, num_partitions } in &self.added {
            writeln!(f, "topic {topic}: added, numPartitions {num_partitions}")?;
        }
        for ChangedTopic { topic, keys } in &self.changed {
            let keys: Vec<_> = keys.iter().map(ChangedKey::to_string).collect();
            writeln!(f, "topic {topic}: {}", keys.join(", "))?;
        }
        for topic in &self.removed {
            writeln!(f, "topic {topic}: removed; it takes no more messages, and what it has can still be read")?;
        }
        for key in &self.after_restart {
            writeln!(f, "after a restart: {key}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
