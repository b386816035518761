//! Who this broker is to its peers.

use crate::id::{BrokerId, BrokerUrl};

/// The broker's number and published address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    /// Number in the cluster.
    pub(super) id: BrokerId,
    /// Address that is published in ZooKeeper and quoted in texts.
    pub(super) url: BrokerUrl,
}

/// The version of the reference that this broker stands in for, then our own, then what it can do beyond the protocol:
/// `wait` stands for gets that wait. Java clients use the text as a heartbeat only.
pub(super) const VERSION: &str = concat!("1.4.6.2 metaq/", env!("CARGO_PKG_VERSION"), " wait");
