//! Topics: their sections, their effective values, and who else is admitted (03 §4).

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;
use std::path::PathBuf;

use super::cron::CronExpression;
use super::error::Problems;
use super::ini::{IniFile, Section};
use super::keys::{FILTER_PREFIX, TOPIC_IGNORED, TOPIC_KEYS};
use super::pattern::TopicPattern;
use super::policy::DeletePolicy;
use super::reader::{INT, Reader};
use super::system::{MAX_PARTITIONS, SystemConfig};
use super::value::Value;
use crate::id::TopicName;

/// What the name of a topic's section begins with.
pub(super) const TOPIC_PREFIX: &str = "topic=";

/// The values in force for a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSettings {
    /// Partitions are 0 to this number less 1; at least 1.
    pub num_partitions: u32,
    /// Zero or less: group commit. Above: a flush at the next append once more than this many are unflushed.
    pub unflush_threshold: i32,
    /// Milliseconds until unflushed messages are flushed; zero or less: at every append (02 §6, §9).
    pub unflush_interval: i32,
    /// Directory that holds the partition directories.
    pub data_path: PathBuf,
    /// What happens to expired segments.
    pub delete_policy: DeletePolicy,
    /// When expired segments are looked for, in local time.
    pub delete_when: CronExpression,
    /// Whether producers find the topic in ZooKeeper (03 §5).
    pub accept_publish: bool,
    /// Whether consumers find the topic in ZooKeeper (03 §5).
    pub accept_subscribe: bool,
    /// Whether statistics are kept for it.
    pub stat: bool,
}

/// One section `[topic=…]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicConfig {
    /// The name; one with `*` is a topic of that very name, too, and admits others.
    pub name: TopicName,
    /// The values in force, those of `[system]` where the section has none.
    pub settings: TopicSettings,
    /// Filter of each consumer group that has one, from `group.<group>`.
    pub filters: BTreeMap<String, String>,
    /// The keys of [`TOPIC_KEYS`] that the section itself sets, in the order of the list.
    pub explicit: Vec<&'static str>,
}

/// Why a topic is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission<'a> {
    /// It has a section of its own.
    Configured(&'a TopicConfig),
    /// A pattern admits it. The values are those of `[system]`, not those of the pattern's section (03 §4).
    Wildcard {
        /// The pattern.
        pattern: &'a TopicPattern,
        /// The values in force.
        settings: &'a TopicSettings,
    },
}

impl<'a> Admission<'a> {
    /// The values in force.
    pub fn settings(&self) -> &'a TopicSettings {
        match self {
            Self::Configured(topic) => &topic.settings,
            Self::Wildcard { settings, .. } => settings,
        }
    }
}

/// All topic sections in the order of the file; a slice of [`TopicConfig`] that can also be asked for a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topics {
    list: Vec<TopicConfig>,
    by_name: HashMap<TopicName, usize>,
    patterns: Vec<TopicPattern>,
    defaults: TopicSettings,
}

impl Topics {
    /// Whether and why a topic is served; `None` is for a put "The server do not accept topic".
    ///
    /// Allocates nothing. A name that no topic can have is not served, whatever a pattern says.
    pub fn admission(&self, name: &str) -> Option<Admission<'_>> {
        if let Some(topic) = self.configured(name) {
            return Some(Admission::Configured(topic));
        }
        let pattern = self.patterns.iter().find(|pattern| pattern.matches(name))?;
        TopicName::check(name).ok()?;
        Some(Admission::Wildcard { pattern, settings: &self.defaults })
    }

    /// The topic with a section of exactly this name.
    pub fn configured(&self, name: &str) -> Option<&TopicConfig> {
        self.by_name.get(name).and_then(|&i| self.list.get(i))
    }

    /// The values of `[system]`, which hold for every topic without a section.
    pub fn defaults(&self) -> &TopicSettings {
        &self.defaults
    }

    /// The names with `*`, in the order of the file.
    pub fn patterns(&self) -> &[TopicPattern] {
        &self.patterns
    }

    fn empty(defaults: TopicSettings) -> Self {
        Self { list: Vec::new(), by_name: HashMap::new(), patterns: Vec::new(), defaults }
    }

    fn push(&mut self, topic: TopicConfig) {
        self.patterns.extend(TopicPattern::new(&topic.name));
        self.by_name.insert(topic.name.clone(), self.list.len());
        self.list.push(topic);
    }

    /// The same sections, with other values where they have none of their own.
    pub(super) fn with_defaults(&self, defaults: &TopicSettings) -> Self {
        let mut topics = Self::empty(defaults.clone());
        self.list.iter().for_each(|topic| topics.push(topic.with_defaults(defaults)));
        topics
    }

    pub(super) fn read(file: &IniFile, system: &SystemConfig, problems: &mut Problems) -> Self {
        let mut topics = Self::empty(TopicSettings::of_system(system));
        for section in file.sections() {
            if let Some(name) = section.name().strip_prefix(TOPIC_PREFIX)
                && let Some(topic) = TopicConfig::read(name, section, &topics.defaults, problems)
            {
                topics.push(topic);
            }
        }
        if !file.sections().iter().any(|section| section.name().starts_with(TOPIC_PREFIX)) {
            problems.missing(None, None, "Empty topics list");
        }
        topics
    }
}

impl Deref for Topics {
    type Target = [TopicConfig];

    fn deref(&self) -> &[TopicConfig] {
        &self.list
    }
}

impl TopicSettings {
    fn of_system(system: &SystemConfig) -> Self {
        Self {
            num_partitions: system.num_partitions,
            unflush_threshold: system.unflush_threshold,
            unflush_interval: system.unflush_interval,
            data_path: system.data_path.clone(),
            delete_policy: system.delete_policy,
            delete_when: system.delete_when.clone(),
            accept_publish: system.accept_publish,
            accept_subscribe: system.accept_subscribe,
            stat: system.stat,
        }
    }
}

impl TopicConfig {
    /// `None` if no topic can have the name; what else is wrong in the section is told all the same.
    fn read(name: &str, section: &Section, defaults: &TopicSettings, problems: &mut Problems) -> Option<Self> {
        let checked = TopicName::new(name);
        if let Err(error) = &checked {
            problems.error(section.line(), Some(section.name()), error.to_string());
        } else if name.contains(char::is_whitespace) {
            let message = format!("no command can name the topic '{name}', because it contains a blank");
            problems.warn(section.line(), section.name(), message);
        }
        let mut reader = Reader::new(section, problems);
        reader.check_keys(TOPIC_KEYS, TOPIC_IGNORED, |key| key.starts_with(FILTER_PREFIX));
        let mut settings = defaults.clone();
        let set = &mut settings;
        replace(&mut set.num_partitions, reader.int("numPartitions", 1..=MAX_PARTITIONS));
        replace(&mut set.unflush_threshold, reader.int("unflushThreshold", INT));
        replace(&mut set.unflush_interval, reader.int("unflushInterval", INT));
        replace(&mut set.data_path, reader.path("dataPath"));
        replace(&mut set.delete_policy, reader.quoted("deletePolicy"));
        replace(&mut set.delete_when, reader.quoted("deleteWhen"));
        replace(&mut set.accept_publish, reader.bool("acceptPublish"));
        replace(&mut set.accept_subscribe, reader.bool("acceptSubscribe"));
        replace(&mut set.stat, stat(&mut reader));
        let explicit = TOPIC_KEYS.iter().copied().filter(|key| reader.option(key).is_some()).collect();
        let mut filters = BTreeMap::new();
        for option in section.options() {
            let Some(group) = option.key.strip_prefix(FILTER_PREFIX) else {
                continue;
            };
            if group.is_empty() {
                reader.error(option, format!("{FILTER_PREFIX} names no consumer group, write {FILTER_PREFIX}<group>"));
            } else if !option.value.trim().is_empty() {
                filters.insert(group.to_owned(), option.value.clone());
            }
        }
        if !filters.is_empty() {
            let message = "message filters (group.*) are not available in this release: consumers get every message";
            problems.warn(section.line(), section.name(), message.to_owned());
        }
        Some(Self { name: checked.ok()?, settings, filters, explicit })
    }

    /// The same section, with other values where it has none of its own.
    fn with_defaults(&self, defaults: &TopicSettings) -> Self {
        let (own, mut settings) = (&self.settings, defaults.clone());
        for key in &self.explicit {
            match *key {
                "numPartitions" => settings.num_partitions = own.num_partitions,
                "stat" => settings.stat = own.stat,
                "deletePolicy" => settings.delete_policy = own.delete_policy,
                "deleteWhen" => settings.delete_when.clone_from(&own.delete_when),
                "dataPath" => settings.data_path.clone_from(&own.data_path),
                "unflushInterval" => settings.unflush_interval = own.unflush_interval,
                "unflushThreshold" => settings.unflush_threshold = own.unflush_threshold,
                "acceptPublish" => settings.accept_publish = own.accept_publish,
                "acceptSubscribe" => settings.accept_subscribe = own.accept_subscribe,
                _ => debug_assert!(false, "{key} is no key of a topic"),
            }
        }
        Self { settings, ..self.clone() }
    }

    /// All keys and filters with the values in force.
    pub(super) fn entries(&self) -> Vec<(String, Value)> {
        let TopicSettings {
            num_partitions,
            unflush_threshold,
            unflush_interval,
            data_path,
            delete_policy,
            delete_when,
            accept_publish,
            accept_subscribe,
            stat,
        } = &self.settings;
        let keys = [
            ("numPartitions", Value::from(*num_partitions)),
            ("stat", Value::from(*stat)),
            ("deletePolicy", Value::from(delete_policy.to_string())),
            ("deleteWhen", Value::from(delete_when.as_str())),
            ("dataPath", Value::from(data_path)),
            ("unflushInterval", Value::from(*unflush_interval)),
            ("unflushThreshold", Value::from(*unflush_threshold)),
            ("acceptPublish", Value::from(*accept_publish)),
            ("acceptSubscribe", Value::from(*accept_subscribe)),
        ];
        let filters = self.filters.iter().map(|(group, filter)| {
            (format!("{FILTER_PREFIX}{group}"), Value::from(filter.as_str())) //
        });
        keys.map(|(key, value)| (key.to_owned(), value)).into_iter().chain(filters).collect()
    }
}

fn replace<T>(slot: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *slot = value;
    }
}

/// Unlike every other boolean: whatever is not `true` in some case is false (03 §1).
fn stat(reader: &mut Reader<'_>) -> Option<bool> {
    let option = reader.option("stat")?;
    let value = option.value.eq_ignore_ascii_case("true");
    if !value && !option.value.eq_ignore_ascii_case("false") {
        let message = format!("stat={} counts as false; write true or false", super::reader::shortened(&option.value));
        reader.warn(option, message);
    }
    Some(value)
}

#[cfg(test)]
mod tests;
