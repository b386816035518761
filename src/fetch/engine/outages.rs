//! Which failures are told: the first of a partition's outage, and of a broker with many partitions one line now and then.

use std::collections::HashMap;
use std::time::Duration;

use crate::common::quiet::Quiet;
use crate::id::BrokerId;

/// Between two lines about one broker, about listeners, or about stored offsets.
const PERIOD: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Outages {
    failures: HashMap<BrokerId, Quiet>,
    recoveries: HashMap<BrokerId, Quiet>,
    listeners: Quiet,
    loads: Quiet,
}

impl Outages {
    pub(super) fn new() -> Self {
        let (listeners, loads) = (Quiet::new(PERIOD), Quiet::new(PERIOD));
        Self { failures: HashMap::new(), recoveries: HashMap::new(), listeners, loads }
    }

    /// A partition of this broker begins to fail. Returns how many have done so since the last line, if there is to be one.
    pub(super) fn failure(&mut self, of: BrokerId) -> Option<u64> {
        self.failures.entry(of).or_insert_with(|| Quiet::new(PERIOD)).count()
    }

    /// As [`failure`](Self::failure), for partitions that work again.
    pub(super) fn recovery(&mut self, of: BrokerId) -> Option<u64> {
        self.recoveries.entry(of).or_insert_with(|| Quiet::new(PERIOD)).count()
    }

    /// As [`failure`](Self::failure), for stored offsets that cannot be read.
    pub(super) fn load(&mut self) -> Option<u64> {
        self.loads.count()
    }

    /// As [`failure`](Self::failure), for listeners.
    pub(super) fn listener(&mut self) -> Option<u64> {
        self.listeners.count()
    }
}
