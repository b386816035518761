//! One run: a group on a topic of its own, and the site for as long as it takes.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};

use metaq::rebalance::RangeStrategy;

use crate::common::group::{Ownership, Run, Site};
use crate::site::{self, BROKERS, PARTITIONS};

/// The group goes before the site.
pub(crate) struct FaultRun<'a> {
    run: Run,
    pub(crate) site: MutexGuard<'a, Site>,
}

impl<'a> FaultRun<'a> {
    /// Has the group at work, of which each member owns what it should.
    pub(crate) fn begin(site: &'a Mutex<Site>, topic: &'static str, members: &[&str]) -> Self {
        let site = site::lock(site);
        let subject = site.subject(topic, &format!("group-{topic}"));
        let mut run = Run::new(subject, Box::new(RangeStrategy), &[]);
        run.members.join_all(members.iter().copied());
        let run = Self { run, site };
        run.settle(BROKERS);
        run
    }

    /// Waits until the group is at rest with the partitions of so many brokers.
    #[track_caller]
    pub(crate) fn settle(&self, brokers: usize) -> Ownership {
        self.run.settle(brokers * PARTITIONS)
    }

    #[track_caller]
    pub(crate) fn settle_without(&self, frozen: &str) {
        self.run.settle_without(frozen, BROKERS * PARTITIONS);
    }

    #[track_caller]
    pub(crate) fn end(self) {
        self.run.end();
    }
}

impl Deref for FaultRun<'_> {
    type Target = Run;

    fn deref(&self) -> &Run {
        &self.run
    }
}

impl DerefMut for FaultRun<'_> {
    fn deref_mut(&mut self) -> &mut Run {
        &mut self.run
    }
}
