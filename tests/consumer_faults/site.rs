//! The ensemble and the brokers, which all runs use one after the other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::common::broker::{BrokerHome, MetaqBroker};
use crate::common::zookeeper::Ensemble;

/// A topic for each run, so that none sees another's messages.
const TOPICS: [&str; 8] =
    ["joins", "leaves", "killed", "frozen", "broker-killed", "broker-frozen", "broker-added", "leader-killed"];

/// Of each topic on each broker.
pub(crate) const PARTITIONS: usize = 3;

/// Brokers that are always there.
pub(crate) const BROKERS: usize = 3;

/// The topic of the broker that is added.
pub(crate) const ADDED_TOPIC: &str = "broker-added";

pub(crate) const ZK_ROOT: &str = "/meta";

/// Three servers of ZooKeeper and three brokers, and a fourth that is not there at first.
pub(crate) struct Site {
    pub(crate) ensemble: Ensemble,
    homes: Vec<BrokerHome>,
    brokers: Vec<Option<MetaqBroker>>,
}

/// Ends with the last run that uses it, so that no process outlives the tests.
static SHARED: Mutex<Weak<Mutex<Site>>> = Mutex::new(Weak::new());

/// `None`, and a line that says so, where ZooKeeper is not installed.
pub(crate) fn shared() -> Option<Arc<Mutex<Site>>> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(site) = shared.upgrade() {
        return Some(site);
    }
    let site = Arc::new(Mutex::new(Site::start()?));
    *shared = Arc::downgrade(&site);
    Some(site)
}

/// Has the site for one run; what an earlier one left behind when it failed is put right.
pub(crate) fn lock(site: &Mutex<Site>) -> MutexGuard<'_, Site> {
    let mut site = site.lock().unwrap_or_else(PoisonError::into_inner);
    site.restore();
    site
}

impl Site {
    fn start() -> Option<Self> {
        let ensemble = Ensemble::of_three()?;
        let zk = ensemble.connect_string();
        let lines = format!("numPartitions={PARTITIONS}");
        let topics: Vec<_> = TOPICS.iter().map(|&name| (name, &*lines)).collect();
        let added = [(ADDED_TOPIC, &*lines)];
        let home = |(id, topics): (u32, &[(&str, &str)])| BrokerHome::new(id, &zk, ZK_ROOT, "", topics);
        let homes = [(0, &topics[..]), (1, &topics), (2, &topics), (3, &added)].map(home).into();
        let mut site = Self { ensemble, homes, brokers: (0..=BROKERS).map(|_| None).collect() };
        site.restore();
        Some(site)
    }

    fn restore(&mut self) {
        self.ensemble.start_all();
        self.brokers.drain(BROKERS..).flatten().for_each(MetaqBroker::stop);
        self.brokers.push(None);
        for broker in self.brokers.iter().flatten() {
            broker.thaw();
        }
        for number in 0..BROKERS {
            if self.brokers[number].is_none() {
                self.start_broker(number);
            }
        }
    }

    /// Starts a broker that is not there.
    pub(crate) fn start_broker(&mut self, number: usize) {
        let broker = MetaqBroker::start(&self.homes[number]);
        assert!(self.brokers[number].replace(broker).is_none(), "broker {number} was there already");
    }

    /// A broker that is there.
    pub(crate) fn broker(&self, number: usize) -> &MetaqBroker {
        self.brokers[number].as_ref().unwrap()
    }

    /// Ends a broker in the middle of whatever it does.
    pub(crate) fn kill_broker(&mut self, number: usize) {
        self.brokers[number].take().unwrap().kill();
    }

    /// Stops a broker as an operator does.
    pub(crate) fn stop_broker(&mut self, number: usize) {
        self.brokers[number].take().unwrap().stop();
    }
}
