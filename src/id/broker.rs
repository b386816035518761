//! Brokers and their partitions as ZooKeeper and the wire name them (04 §3, §11).

use std::fmt;
use std::str::FromStr;

use super::{PartitionIndex, TopicName};

/// Number of a broker, unique in a cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BrokerId(u16);

impl BrokerId {
    /// The largest id: message ids have ten bits for it (02 §15).
    pub const MAX: Self = Self(1023);

    /// Takes 0 to 1023.
    pub fn new(value: i64) -> Option<Self> {
        u16::try_from(value).ok().filter(|&value| value <= Self::MAX.0).map(Self)
    }

    /// The bare number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for BrokerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One partition of a topic in the cluster; `0-3` is partition 3 of broker 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Partition {
    /// The broker that serves it.
    pub broker: BrokerId,
    /// Its number within the broker.
    pub index: PartitionIndex,
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.broker, self.index)
    }
}

/// A text that is not `BROKER-NUMBER`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a partition of the form BROKER-NUMBER, for example 0-3")]
pub struct InvalidPartition(String);

impl FromStr for Partition {
    type Err = InvalidPartition;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (broker, index) = text.split_once('-')?;
            let index = index.parse().ok().filter(|index: &PartitionIndex| index.get() >= 0)?;
            Some(Self { broker: BrokerId::new(broker.parse().ok()?)?, index })
        };
        parse().ok_or_else(|| InvalidPartition(text.to_owned()))
    }
}

/// One partition of one topic in the cluster; `orders 0-3` is partition 3 of topic `orders` on broker 0.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TopicPartition {
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: Partition,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.topic, self.partition)
    }
}

/// Address of a broker as published in ZooKeeper: `meta://host:port`.
///
/// The host is kept as it is written there; an IPv6 address has its brackets.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BrokerUrl {
    host: String,
    port: u16,
}

/// A text that is not `meta://host:port`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a broker address of the form meta://host:port")]
pub struct InvalidBrokerUrl(String);

impl BrokerUrl {
    /// Makes an address; a bare IPv6 host gets brackets (04 §3).
    pub fn new(host: &str, port: u16) -> Self {
        let bare_ipv6 = host.contains(':') && !host.starts_with('[');
        Self { host: if bare_ipv6 { format!("[{host}]") } else { host.to_owned() }, port }
    }

    /// The host, an IPv6 address with brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `host:port`, as name resolution takes it.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "meta://{}:{}", self.host, self.port)
    }
}

impl FromStr for BrokerUrl {
    type Err = InvalidBrokerUrl;

    /// Reads what any version of the reference publishes; path and query are ignored as its readers do.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidBrokerUrl(text.to_owned());
        let rest = text.trim().strip_prefix("meta://").ok_or_else(invalid)?;
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let (host, port) = authority.rsplit_once(':').ok_or_else(invalid)?;
        let bracketed = host.starts_with('[') && host.ends_with(']');
        if host.is_empty() || (host.contains(':') && !bracketed) {
            return Err(invalid());
        }
        Ok(Self { host: host.to_owned(), port: port.parse().map_err(|_| invalid())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broker_ids_have_ten_bits() {
        assert_eq!(BrokerId::new(0).map(BrokerId::get), Some(0));
        assert_eq!(BrokerId::new(1023), Some(BrokerId::MAX));
        assert_eq!(BrokerId::new(1024), None);
        assert_eq!(BrokerId::new(-1), None);
    }

    #[test]
    fn partitions_are_read_as_they_are_printed() {
        let partition: Partition = "10-3".parse().unwrap();
        assert_eq!((partition.broker.get(), partition.index.get()), (10, 3));
        assert_eq!(partition.to_string(), "10-3");
        for text in ["", "3", "-1-2", "1--2", "1-", "a-1", "1-2-3", "5000-1"] {
            assert!(text.parse::<Partition>().is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_are_read_as_the_reference_reads_them() {
        for (text, host, port) in [
            ("meta://10.0.0.1:8123", "10.0.0.1", 8123),
            ("meta://10.0.0.1:8123?slaveId=2&x=y", "10.0.0.1", 8123),
            ("meta://[0:0:0:0:0:0:0:1]:8123", "[0:0:0:0:0:0:0:1]", 8123),
            ("meta://my-host.example.com:8123/x?slaveId=1", "my-host.example.com", 8123),
            ("meta://host_name:8123", "host_name", 8123),
        ] {
            let url: BrokerUrl = text.parse().unwrap();
            assert_eq!((url.host(), url.port()), (host, port), "{text}");
        }
        for text in ["meta://h", "10.0.0.1:8123", "meta://:8123", "meta://h:x", "meta://::1:8123", ""] {
            assert!(text.parse::<BrokerUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_bare_ipv6_host_is_published_in_brackets() {
        assert_eq!(BrokerUrl::new("::1", 8123).to_string(), "meta://[::1]:8123");
        assert_eq!(BrokerUrl::new("[::1]", 8123).to_string(), "meta://[::1]:8123");
        assert_eq!(BrokerUrl::new("h", 1).to_string(), "meta://h:1");
    }
}
