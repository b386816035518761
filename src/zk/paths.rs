//! Node paths (04 §2), one function each.

use std::fmt;
use std::str::FromStr;

use crate::id::{BrokerId, GroupName, TopicName, TopicPartition};

/// The configured root directory (`zk.zkRoot`), normalised (04 §1): `meta` and `/meta/` are `/meta`, `/` is the top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(String);

/// A text that cannot be a root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("zk.zkRoot '{text}' is not a ZooKeeper path: {reason}; use for example /meta")]
pub struct InvalidRoot {
    text: String,
    reason: &'static str,
}

impl Default for Root {
    /// `/meta`.
    fn default() -> Self {
        Self("/meta".to_owned())
    }
}

impl FromStr for Root {
    type Err = InvalidRoot;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |reason| InvalidRoot { text: text.to_owned(), reason };
        if text.is_empty() {
            return Err(invalid("it is empty"));
        }
        let path = if text.starts_with('/') { text.to_owned() } else { format!("/{text}") };
        let path = path.strip_suffix('/').unwrap_or(&path);
        if !path.is_empty() {
            check_path(path).map_err(invalid)?;
        }
        Ok(Self(path.to_owned()))
    }
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "/" } else { &self.0 })
    }
}

/// Checks an absolute path without a slash at its end.
pub(super) fn check_path(path: &str) -> Result<(), &'static str> {
    for element in path.split('/').skip(1) {
        match element {
            "" => return Err("it has an empty element"),
            "." | ".." => return Err("'.' or '..' cannot be an element"),
            _ if element.chars().any(char::is_control) => return Err("it has a control character"),
            _ => {}
        }
    }
    Ok(())
}

/// The three directories of topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopicTree {
    /// `brokers/topics`: plain partition counts, for clients older than 1.4.3.
    All,
    /// `brokers/topics-pub`: what producers read.
    Publish,
    /// `brokers/topics-sub`: what consumers read.
    Subscribe,
}

impl TopicTree {
    /// In the order in which the reference registers and unregisters.
    pub const EACH: [Self; 3] = [Self::All, Self::Publish, Self::Subscribe];

    fn directory(self) -> &'static str {
        match self {
            Self::All => "topics",
            Self::Publish => "topics-pub",
            Self::Subscribe => "topics-sub",
        }
    }
}

impl Root {
    /// `brokers/ids`: one child for each broker that ever registered (04 §4).
    pub fn brokers(&self) -> String {
        format!("{}/brokers/ids", self.0)
    }

    /// `brokers/ids/<id>`: persistent, its data is no proof of life (04 §4).
    pub fn broker(&self, broker: BrokerId) -> String {
        format!("{}/brokers/ids/{broker}", self.0)
    }

    /// `brokers/ids/<id>/master`: ephemeral, the master's URL.
    pub fn master(&self, broker: BrokerId) -> String {
        format!("{}/master", self.broker(broker))
    }

    /// `brokers/ids/<id>/slave<N>`: ephemeral, a slave's URL.
    pub fn slave(&self, broker: BrokerId, slave: u32) -> String {
        format!("{}/slave{slave}", self.broker(broker))
    }

    /// `consumers/<group>/ids`: persistent, its children are the members of the group (04 §9).
    pub fn members(&self, group: &GroupName) -> String {
        format!("{}/consumers/{group}/ids", self.0)
    }

    /// `consumers/<group>/ids/<consumerId>`: ephemeral, the topics that the member subscribes to.
    pub fn member(&self, group: &GroupName, consumer: &str) -> String {
        format!("{}/{consumer}", self.members(group))
    }

    /// `consumers/<group>/owners/<topic>`: persistent, one child for each partition that somebody owns.
    pub fn owners(&self, group: &GroupName, topic: &TopicName) -> String {
        format!("{}/consumers/{group}/owners/{topic}", self.0)
    }

    /// `consumers/<group>/owners/<topic>/<partition>`: ephemeral, the id of the member that reads the partition.
    pub fn owner(&self, group: &GroupName, of: &TopicPartition) -> String {
        format!("{}/{}", self.owners(group, &of.topic), of.partition)
    }

    /// `consumers/<group>/offsets/<topic>/<partition>`: persistent, where the group stands (04 §8).
    pub fn offset(&self, group: &GroupName, of: &TopicPartition) -> String {
        format!("{}/consumers/{group}/offsets/{}/{}", self.0, of.topic, of.partition)
    }

    /// `brokers/ids/<id>/master_config_checksum`: ephemeral.
    pub fn master_config_checksum(&self, broker: BrokerId) -> String {
        format!("{}/master_config_checksum", self.broker(broker))
    }

    /// `brokers/topics…/<topic>`: persistent, its children are watched.
    pub fn topic(&self, tree: TopicTree, topic: &TopicName) -> String {
        format!("{}/brokers/{}/{topic}", self.0, tree.directory())
    }

    /// `brokers/topics…/<topic>/<id>-m`: ephemeral, a master's share of a topic.
    pub fn master_topic(&self, tree: TopicTree, topic: &TopicName, broker: BrokerId) -> String {
        format!("{}/{}", self.topic(tree, topic), master_child(broker))
    }
}

/// Name of a master's child below a topic: `<id>-m` (04 §5).
pub fn master_child(broker: BrokerId) -> String {
    format!("{broker}-m")
}

/// A child below a topic, read as clients read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicChild {
    /// The broker.
    pub broker: BrokerId,
    /// Whether it is the master's (`-m`) or a slave's.
    pub master: bool,
}

impl TopicChild {
    /// Takes a name of exactly two parts around `-`, of which the first is a broker id; empty parts do not count
    /// (04 §11).
    pub fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('-').filter(|part| !part.is_empty());
        let (id, replica, None) = (parts.next()?, parts.next()?, parts.next()) else { return None };
        let broker = BrokerId::new(id.parse().ok()?)?;
        Some(Self { broker, master: replica == "m" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_normalised_as_the_reference_does() {
        for (text, path) in
            [("/meta", "/meta"), ("meta", "/meta"), ("/a/b/", "/a/b"), ("/", "/"), ("a-b_c/1.2", "/a-b_c/1.2")]
        {
            assert_eq!(text.parse::<Root>().map(|root| root.to_string()), Ok(path.to_owned()), "{text}");
        }
        for text in ["", "//", "/a//b", "/a/../b", "./x", "/a\n"] {
            assert!(text.parse::<Root>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn node_paths_are_those_of_the_reference() {
        let root = Root::default();
        let broker = BrokerId::new(7).unwrap();
        let topic = TopicName::new("my-topic").unwrap();
        assert_eq!(root.broker(broker), "/meta/brokers/ids/7");
        assert_eq!(root.master(broker), "/meta/brokers/ids/7/master");
        assert_eq!(root.master_config_checksum(broker), "/meta/brokers/ids/7/master_config_checksum");
        let children = TopicTree::EACH.map(|tree| root.master_topic(tree, &topic, broker));
        assert_eq!(
            children,
            [
                "/meta/brokers/topics/my-topic/7-m",
                "/meta/brokers/topics-pub/my-topic/7-m",
                "/meta/brokers/topics-sub/my-topic/7-m"
            ]
        );
        let group = GroupName::new("g").unwrap();
        let of = TopicPartition { topic, partition: "7-3".parse().unwrap() };
        assert_eq!(root.member(&group, "g_a"), "/meta/consumers/g/ids/g_a");
        assert_eq!(root.owner(&group, &of), "/meta/consumers/g/owners/my-topic/7-3");
        assert_eq!(root.offset(&group, &of), "/meta/consumers/g/offsets/my-topic/7-3");
        let top: Root = "/".parse().unwrap();
        assert_eq!(top.master(broker), "/brokers/ids/7/master");
    }

    #[test]
    fn children_of_a_topic_are_read_as_clients_read_them() {
        let child = |id, master| Some(TopicChild { broker: BrokerId::new(id).unwrap(), master });
        for (name, expected) in [
            ("0-m", child(0, true)),
            ("10-s0", child(10, false)),
            ("0--m", child(0, true)),
            ("-1-m", child(1, true)),
            ("0", None),
            ("0-m-x", None),
            ("a-m", None),
            ("5000-m", None),
            ("", None),
        ] {
            assert_eq!(TopicChild::parse(name), expected, "{name}");
        }
    }
}
