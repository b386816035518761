//! What a registration is asked for, and what it reports.

use std::collections::BTreeMap;
use std::fmt;

use crate::id::{BrokerId, BrokerUrl, TopicName};

/// The nodes a master should have. The broker and its URL do not change while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredState {
    /// The broker's id.
    pub broker: BrokerId,
    /// The address that clients connect to.
    pub url: BrokerUrl,
    /// CRC-32 of the configuration file, 0 without a file (04 §4).
    pub checksum: u32,
    /// The topics to publish.
    pub topics: BTreeMap<TopicName, TopicRegistration>,
}

/// How one topic is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicRegistration {
    /// Number of partitions on this broker.
    pub partitions: u32,
    /// Whether producers may see it.
    pub accept_publish: bool,
    /// Whether consumers may see it.
    pub accept_subscribe: bool,
}

/// Where the registration stands; its text is for an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistrationState {
    /// No session with ZooKeeper.
    Connecting,
    /// The nodes are being compared and made.
    Registering,
    /// All nodes are as they should be.
    Registered,
    /// They were, but the connection is lost; they stay until the session ends.
    Disconnected,
    /// Something is in the way, it is tried again by itself.
    Waiting {
        /// What is in the way.
        reason: String,
    },
    /// Another broker has this broker's id. It is left alone; its node is watched.
    Conflict(IdConflict),
    /// The nodes were removed at a stop.
    Unregistered,
}

impl RegistrationState {
    /// The names of all states.
    pub const NAMES: [&str; 7] =
        ["connecting", "registering", "registered", "disconnected", "waiting", "conflict", "unregistered"];

    /// The name of the state for programs, one of [`NAMES`](Self::NAMES).
    pub fn name(&self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Registering => "registering",
            Self::Registered => "registered",
            Self::Disconnected => "disconnected",
            Self::Waiting { .. } => "waiting",
            Self::Conflict(_) => "conflict",
            Self::Unregistered => "unregistered",
        }
    }
}

impl fmt::Display for RegistrationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting => f.write_str("not registered: no connection to ZooKeeper, trying for ever"),
            Self::Registering => f.write_str("registering in ZooKeeper"),
            Self::Registered => f.write_str("registered in ZooKeeper"),
            Self::Disconnected => f.write_str(
                "registered, but the connection to ZooKeeper is lost; clients see this broker until the session ends",
            ),
            Self::Waiting { reason } => write!(f, "not completely registered, trying again: {reason}"),
            Self::Conflict(conflict) => write!(f, "not registered: {conflict}"),
            Self::Unregistered => f.write_str("unregistered"),
        }
    }
}

/// Two brokers with one id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "broker id {broker} is taken by another broker, {owner} (ZooKeeper node {path}); \
     stop that broker or give this one another brokerId"
)]
pub struct IdConflict {
    /// The id.
    pub broker: BrokerId,
    /// The other broker's address as it stands in the node.
    pub owner: String,
    /// The node.
    pub path: String,
}

/// What became of the nodes at a stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unregistered {
    /// All removed, or there were none.
    Complete,
    /// Some may remain until ZooKeeper ends the session.
    Incomplete {
        /// Why.
        reason: String,
    },
}
