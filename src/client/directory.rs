//! Which address serves which broker.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::ClientError;
use super::config::AddressMapping;
use crate::common::guard::lock;
use crate::id::{BrokerId, BrokerUrl};
use crate::zk::{BrokerAddresses, Cluster, ClusterError};

/// Shortest time between two reads of one broker's nodes.
const REREAD_PAUSE: Duration = Duration::from_millis(500);

/// Addresses of brokers, read from ZooKeeper when they are first needed and again when they are in doubt.
#[derive(Debug)]
pub(super) struct Directory {
    cluster: Cluster,
    mapping: Mapping,
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
    /// What is known has to be read again.
    in_doubt: AtomicBool,
    known: Mutex<Option<Arc<Addresses>>>,
    /// When the nodes were last read; held by the one who reads them.
    read_at: tokio::sync::Mutex<Option<Instant>>,
}

impl Directory {
    pub(super) fn new(cluster: Cluster, mapping: Mapping) -> Self {
        Self { cluster, mapping, brokers: Mutex::default() }
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
        let too_early = read_at.is_some_and(|at| at.elapsed() < REREAD_PAUSE);
        if let (true, Some(known)) = (too_early, &known) {
            return Ok(Arc::clone(known));
        }
        // Before the read: what happens during it puts the result in doubt again.
        entry.in_doubt.store(false, Ordering::Release);
        let read = self.cluster.broker(broker).await;
        *read_at = Some(Instant::now());
        match read {
            Ok(read) => {
                let addresses = Arc::new(self.mapping.apply(&read));
                if addresses.master.is_none() {
                    entry.doubt();
                }
                *lock(&entry.known) = Some(Arc::clone(&addresses));
                Ok(addresses)
            }
            Err(error) => {
                entry.doubt();
                known.ok_or(ClientError::Cluster(error))
            }
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

    /// The same for every broker.
    pub(super) fn doubt_all(&self) {
        lock(&self.brokers).values().for_each(|entry| entry.doubt());
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
    fn known(&self) -> Option<Arc<Addresses>> {
        lock(&self.known).clone()
    }

    fn undoubted(&self) -> Option<Arc<Addresses>> {
        if self.in_doubt.load(Ordering::Acquire) { None } else { self.known() }
    }

    fn doubt(&self) {
        self.in_doubt.store(true, Ordering::Release);
    }
}

impl Mapping {
    fn apply(&self, published: &BrokerAddresses) -> Addresses {
        let map = |url: &BrokerUrl| self.0.as_ref().map_or_else(|| url.authority(), |map| map(url).authority());
        Addresses { master: published.master.as_ref().map(map), slaves: published.slaves.values().map(map).collect() }
    }
}

impl std::fmt::Debug for Mapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Mapping(by the application)" } else { "Mapping(none)" })
    }
}
