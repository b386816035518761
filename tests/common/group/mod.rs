//! Consumer groups of real processes: members and what they were handed, a steady load and what of it was acknowledged,
//! who owns which partition, and what all of that must add up to.
// Each test file uses its part; the figures are for who watches.
#![allow(unused_imports, clippy::print_stderr)]

mod check;
mod delivery;
mod excuse;
mod load;
mod members;
mod observer;
mod run;
mod site;

pub use check::{Duplicate, Log, Outcome, check, undelivered};
pub use delivery::{Delivery, Inbox, Place};
pub use excuse::Excuse;
pub use load::{Load, Sent};
pub use members::{COMMIT_PERIOD, Members};
pub use observer::{Observer, Ownership};
pub use run::Run;
pub use site::{Site, Topics};

use std::time::Duration;

/// Longest wait for a group to come to rest: a session has to expire, the next plan has to be carried out, a Java member
/// may have to be woken (after 60 s), and the machine may be busy.
pub const GROUP_DEADLINE: Duration = Duration::from_secs(100);

/// Time-out of the ZooKeeper sessions of members. The ensemble's tick allows 1 to 10 s.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(6);

/// What a group is about: a topic, and where its nodes are.
#[derive(Debug, Clone)]
pub struct Subject {
    /// How ZooKeeper is reached.
    pub zk_connect: String,
    /// Directory of the cluster's nodes.
    pub zk_root: String,
    /// What is consumed.
    pub topic: String,
    /// Who consumes it.
    pub group: String,
}

impl Subject {
    /// Arguments for our command line that say where the cluster is and which topic it is about.
    fn arguments(&self) -> Vec<String> {
        ["--zk", &self.zk_connect, "--zk-root", &self.zk_root, "--topic", &self.topic].map(str::to_owned).to_vec()
    }

    /// The consumer id that a member shows in ZooKeeper (04 §9).
    pub fn consumer_id(&self, member: &str) -> String {
        format!("{}_{member}", self.group)
    }
}
