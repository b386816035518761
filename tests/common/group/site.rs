//! An ensemble of three and several brokers, all of them processes.

use super::Subject;
use crate::common::broker::{BrokerHome, MetaqBroker};
use crate::common::zookeeper::Ensemble;

const ZK_ROOT: &str = "/meta";

/// Sections of `server.ini` for topics: name and lines.
pub type Topics = Vec<(String, String)>;

/// Three servers of ZooKeeper and brokers with the numbers from 0. The first ones are always there between two runs, the
/// others are not.
pub struct Site {
    pub ensemble: Ensemble,
    homes: Vec<BrokerHome>,
    brokers: Vec<Option<MetaqBroker>>,
    always: usize,
}

impl Site {
    /// Starts the ensemble and the first brokers, of which there are so many; `topics` are those of each broker. `None`,
    /// and a line that says so, where ZooKeeper is not installed.
    pub fn start(topics: &[Topics], always: usize) -> Option<Self> {
        let ensemble = Ensemble::of_three()?;
        let zk = ensemble.connect_string();
        let home = |(id, topics): (u32, &Topics)| {
            let topics: Vec<_> = topics.iter().map(|(name, lines)| (&**name, &**lines)).collect();
            BrokerHome::new(id, &zk, ZK_ROOT, "", &topics)
        };
        let homes: Vec<_> = (0..).zip(topics).map(home).collect();
        let brokers = homes.iter().map(|_| None).collect();
        let mut site = Self { ensemble, homes, brokers, always };
        site.restore();
        Some(site)
    }

    /// Puts right what a run left behind when it failed.
    pub fn restore(&mut self) {
        self.ensemble.start_all();
        for broker in self.brokers.iter().flatten() {
            broker.thaw();
        }
        for number in 0..self.brokers.len() {
            match (number < self.always, self.brokers[number].is_some()) {
                (true, false) => self.start_broker(number),
                (false, true) => self.stop_broker(number),
                _ => {}
            }
        }
    }

    /// What a group of this site is about.
    pub fn subject(&self, topic: &str, group: &str) -> Subject {
        Subject {
            zk_connect: self.ensemble.connect_string(),
            zk_root: ZK_ROOT.to_owned(),
            topic: topic.to_owned(),
            group: group.to_owned(),
        }
    }

    /// Starts a broker that is not there.
    pub fn start_broker(&mut self, number: usize) {
        let broker = MetaqBroker::start(&self.homes[number]);
        assert!(self.brokers[number].replace(broker).is_none(), "broker {number} was there already");
    }

    /// A broker that is there.
    pub fn broker(&self, number: usize) -> &MetaqBroker {
        self.brokers[number].as_ref().unwrap()
    }

    /// Ends a broker in the middle of whatever it does.
    pub fn kill_broker(&mut self, number: usize) {
        self.brokers[number].take().unwrap().kill();
    }

    /// Stops a broker as an operator does.
    pub fn stop_broker(&mut self, number: usize) {
        self.brokers[number].take().unwrap().stop();
    }
}
