//! The ensemble and the brokers, which all runs use one after the other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::common::group::{Site, Topics};

/// A topic for each run, so that none sees another's messages.
const TOPICS: [&str; 8] =
    ["joins", "leaves", "killed", "frozen", "broker-killed", "broker-frozen", ADDED_TOPIC, "leader-killed"];

/// The topic that the broker that is added has, too.
const ADDED_TOPIC: &str = "broker-added";

/// Of each topic on each broker.
pub(crate) const PARTITIONS: usize = 3;

/// Brokers that are always there; one more can be added.
pub(crate) const BROKERS: usize = 3;

/// Ends with the last run that uses it, so that no process outlives the tests.
static SHARED: Mutex<Weak<Mutex<Site>>> = Mutex::new(Weak::new());

/// `None`, and a line that says so, where ZooKeeper is not installed.
pub(crate) fn shared() -> Option<Arc<Mutex<Site>>> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(site) = shared.upgrade() {
        return Some(site);
    }
    let topics = |names: &[&str]| -> Topics {
        names.iter().map(|&name| (name.to_owned(), format!("numPartitions={PARTITIONS}"))).collect()
    };
    let mut brokers = vec![topics(&TOPICS); BROKERS];
    brokers.push(topics(&[ADDED_TOPIC]));
    let site = Arc::new(Mutex::new(Site::start(&brokers, BROKERS)?));
    *shared = Arc::downgrade(&site);
    Some(site)
}

/// Has the site for one run; what an earlier one left behind when it failed is put right.
pub(crate) fn lock(site: &Mutex<Site>) -> MutexGuard<'_, Site> {
    let mut site = site.lock().unwrap_or_else(PoisonError::into_inner);
    site.restore();
    site
}
