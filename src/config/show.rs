//! The values in force, for people and programs.

use std::fmt;

use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};

use super::error::ConfigProblem;
use super::ini::escape;
use super::server::ServerConfig;
use super::topics::{TOPIC_PREFIX, TopicConfig};
use super::value::Value;

/// The configuration with all defaults filled in, under the names of the configuration file.
///
/// Serialized: `path`, `checksum`, the maps `system`, `zookeeper` and `metaq`, the list `topics` (each with `topic`,
/// its values and `explicit`, the keys that its own section sets) and `warnings`. Displayed: a configuration file that
/// has the same effect.
#[derive(Debug, Clone, Copy)]
pub struct EffectiveConfig<'a>(&'a ServerConfig);

impl ServerConfig {
    /// The values in force, to be serialized or displayed.
    pub fn effective(&self) -> EffectiveConfig<'_> {
        EffectiveConfig(self)
    }

    pub(super) fn sections(&self) -> [(&'static str, Vec<(&'static str, Value)>); 3] {
        [("system", self.system.entries()), ("zookeeper", self.zookeeper.entries()), ("metaq", self.metaq.entries())]
    }
}

impl fmt::Display for EffectiveConfig<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, entries) in self.0.sections() {
            writeln!(f, "[{name}]")?;
            for (key, value) in entries {
                match value {
                    Value::Unset => writeln!(f, "; {key} is not set")?,
                    value => writeln!(f, "{key}={value}")?,
                }
            }
            writeln!(f)?;
        }
        for (i, topic) in self.0.topics.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            writeln!(f, "[{TOPIC_PREFIX}{}]", escape(topic.name.as_str()))?;
            for (key, value) in topic.entries() {
                writeln!(f, "{}={value}", escape_key(&key))?;
            }
        }
        Ok(())
    }
}

/// A key in which nothing is taken for the operator.
fn escape_key(key: &str) -> String {
    escape(key).replace('=', "\\=").replace(':', "\\:")
}

impl Serialize for EffectiveConfig<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let config = self.0;
        let mut whole = serializer.serialize_struct("EffectiveConfig", 7)?;
        whole.serialize_field("path", &config.path.as_ref().map(|path| path.to_string_lossy()))?;
        whole.serialize_field("checksum", &config.checksum)?;
        for (name, entries) in config.sections() {
            whole.serialize_field(name, &Entries(&entries))?;
        }
        whole.serialize_field("topics", &config.topics.iter().map(ShownTopic).collect::<Vec<_>>())?;
        whole.serialize_field("warnings", &config.warnings.iter().map(ShownProblem).collect::<Vec<_>>())?;
        whole.end()
    }
}

struct Entries<'a>(&'a [(&'static str, Value)]);

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

struct ShownTopic<'a>(&'a TopicConfig);

impl Serialize for ShownTopic<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("topic", self.0.name.as_str())?;
        for (key, value) in self.0.entries() {
            map.serialize_entry(&key, &value)?;
        }
        map.serialize_entry("explicit", &self.0.explicit)?;
        map.end()
    }
}

struct ShownProblem<'a>(&'a ConfigProblem);

impl Serialize for ShownProblem<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("line", &self.0.line)?;
        map.serialize_entry("section", &self.0.section)?;
        map.serialize_entry("message", &self.0.message)?;
        map.end()
    }
}

#[cfg(test)]
mod tests;
