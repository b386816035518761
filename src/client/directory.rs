//! Which address serves which broker.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tracing::error;

use super::ClientError;
use super::config::AddressMapping;
use crate::common::guard::lock;
use crate::common::panics::caught;
use crate::id::{BrokerId, BrokerUrl};
use crate::zk::{BrokerAddresses, Cluster, ClusterError, SessionState};

/// Shortest time between two reads of one broker's nodes.
const REREAD_PAUSE: Duration = Duration::from_millis(500);

/// Addresses of brokers, read from ZooKeeper when they are first needed and again when they are in doubt.
#[derive(Debug)]
pub(super) struct Directory {
    cluster: Cluster,
    mapping: Mapping,
    sessions: watch::Receiver<SessionState>,
    brokers: Mutex<HashMap<BrokerId, Arc<Entry>>>,
}

/// The application's mapping of published addresses.
pub(super) struct Mapping(pub(super) Option<AddressMapping>);

/// Where one broker can be reached, as `host:port`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) master: Option<String>,
    pub(super) slaves: Vec<String>,
}

#[derive(Debug, Default)]
struct Entry {
    /// Counts what puts the known addresses in doubt.
    doubts: AtomicU64,
    /// Counts the changes in ZooKeeper among those.
    changes: AtomicU64,
    known: Mutex<Option<Known>>,
    /// When the nodes were last read; held by the one who reads them.
    read_at: tokio::sync::Mutex<Option<Instant>>,
}

/// Addresses, and how much was counted before they were read.
#[derive(Debug, Clone)]
struct Known {
    addresses: Arc<Addresses>,
    doubts: u64,
    changes: u64,
}

impl Directory {
    pub(super) fn new(cluster: Cluster, mapping: Mapping, sessions: watch::Receiver<SessionState>) -> Self {
        Self { cluster, mapping, sessions, brokers: Mutex::default() }
    }

    /// Where a broker can be reached. While ZooKeeper does not answer, what was known last counts. Cancellation-safe.
    ///
    /// # Errors
    /// [`ClientError::Cluster`] when ZooKeeper does not answer and nothing is known.
    pub(super) async fn addresses(&self, broker: BrokerId) -> Result<Arc<Addresses>, ClientError> {
        let entry = Arc::clone(lock(&self.brokers).entry(broker).or_default());
        if let Some(known) = entry.undoubted() {
            return Ok(known);
        }
        let mut read_at = entry.read_at.lock().await;
        if let Some(known) = entry.undoubted() {
            return Ok(known);
        }
        let known = entry.known();
        // Changes in ZooKeeper bound their rate themselves, failures do not.
        let (doubts, changes) = (entry.doubts.load(Ordering::Acquire), entry.changes.load(Ordering::Acquire));
        let is_recent = read_at.is_some_and(|at| at.elapsed() < REREAD_PAUSE);
        // Nobody waits for a ZooKeeper that is away if there is a chance without it.
        let is_away = self.sessions.borrow().connected().is_none();
        if let Some(known) = known.as_ref().filter(|known| is_away || is_recent && known.changes == changes) {
            return Ok(Arc::clone(&known.addresses));
        }
        let read = self.cluster.broker(broker).await;
        *read_at = Some(Instant::now());
        match read {
            Ok(read) => {
                let addresses = Arc::new(self.mapping.apply(&read));
                *lock(&entry.known) = Some(Known { addresses: Arc::clone(&addresses), doubts, changes });
                if addresses.master.is_none() {
                    entry.doubt();
                }
                Ok(addresses)
            }
            Err(error) => known.map(|known| known.addresses).ok_or(ClientError::Cluster(error)),
        }
    }

    /// The address of a broker's master.
    ///
    /// # Errors
    /// As [`addresses`](Self::addresses), and [`ClusterError::NoMaster`].
    pub(super) async fn master(&self, broker: BrokerId) -> Result<String, ClientError> {
        let addresses = self.addresses(broker).await?;
        addresses.master.clone().ok_or_else(|| self.no_master(broker))
    }

    /// The error of a broker that nobody serves.
    pub(super) fn no_master(&self, broker: BrokerId) -> ClientError {
        ClientError::Cluster(ClusterError::NoMaster { broker, path: self.cluster.root().master(broker) })
    }

    /// What is known of a broker is read again before it is used the next time, at a bounded rate.
    pub(super) fn doubt(&self, broker: BrokerId) {
        if let Some(entry) = lock(&self.brokers).get(&broker) {
            entry.doubt();
        }
    }

    /// Brokers have changed in ZooKeeper: what is known of each is read again before it is used the next time.
    pub(super) fn changed(&self) {
        for entry in lock(&self.brokers).values() {
            entry.changes.fetch_add(1, Ordering::AcqRel);
            entry.doubt();
        }
    }

    /// Reads again what is in doubt and returns every address in use.
    ///
    /// # Errors
    /// ZooKeeper did not answer: not every address is known.
    pub(super) async fn in_use(&self) -> Result<HashSet<String>, ClientError> {
        let brokers: Vec<_> = lock(&self.brokers).keys().copied().collect();
        let mut in_use = HashSet::new();
        for broker in brokers {
            let addresses = self.addresses(broker).await?;
            in_use.extend(addresses.master.iter().chain(&addresses.slaves).cloned());
        }
        Ok(in_use)
    }
}

impl Entry {
    fn known(&self) -> Option<Known> {
        lock(&self.known).clone()
    }

    fn undoubted(&self) -> Option<Arc<Addresses>> {
        let doubts = self.doubts.load(Ordering::Acquire);
        lock(&self.known).as_ref().filter(|known| known.doubts == doubts).map(|known| Arc::clone(&known.addresses))
    }

    fn doubt(&self) {
        self.doubts.fetch_add(1, Ordering::AcqRel);
    }
}

impl Mapping {
    fn apply(&self, published: &BrokerAddresses) -> Addresses {
        let map = |url: &BrokerUrl| match &self.0 {
            None => url.authority(),
            Some(map) => caught(|| map(url)).map(|mapped| mapped.authority()).unwrap_or_else(|panic| {
                error!(broker = %url, panic, "the address mapping panicked; the published address is used");
                url.authority()
            }),
        };
        Addresses { master: published.master.as_ref().map(map), slaves: published.slaves.values().map(map).collect() }
    }
}

impl std::fmt::Debug for Mapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Mapping(by the application)" } else { "Mapping(none)" })
    }
}

#[cfg(test)]
mod tests;
