//! One run: a group at work on a topic of its own while something happens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use metaq::rebalance::RangeStrategy;

use crate::common::group::{COMMIT_PERIOD, Duplicate, Load, Members, Observer, Outcome, Ownership, Subject, check};
use crate::site::{self, BROKERS, PARTITIONS, Site, ZK_ROOT};

/// Messages that show that a group is at work.
const BURST: usize = 90;

/// How much more than a commit period may lie between two commits on a busy machine.
const COMMIT_SLACK: Duration = Duration::from_secs(3);

pub(crate) struct Run<'a> {
    pub(crate) site: MutexGuard<'a, Site>,
    pub(crate) members: Members,
    pub(crate) load: Load,
    observer: Observer,
    topic: &'static str,
    excuses: Vec<Excuse>,
    began: Instant,
}

/// Why messages may come twice.
pub(crate) struct Excuse {
    /// Who died, or was frozen.
    member: String,
    /// What it had, and where the group stood there afterwards.
    committed: BTreeMap<(i64, i64), i64>,
    /// When.
    at: Instant,
    /// Since when one that was frozen went on.
    thawed: Option<Instant>,
}

impl<'a> Run<'a> {
    /// Has the group at work, of which each member owns what it should.
    pub(crate) fn begin(site: &'a Mutex<Site>, topic: &'static str, members: &[&str]) -> Self {
        let site = site::lock(site);
        let subject = Subject {
            zk_connect: site.ensemble.connect_string(),
            zk_root: ZK_ROOT.to_owned(),
            topic: topic.to_owned(),
            group: format!("group-{topic}"),
        };
        let observer = Observer::new(&subject);
        let load = Load::start(&subject, "m-");
        let mut all = Members::new(subject, &[]);
        all.join_all(members.iter().copied());
        let began = Instant::now();
        let mut run = Self { site, members: all, load, observer, topic, excuses: Vec::new(), began };
        run.settle(BROKERS);
        run
    }

    /// Waits until the members that are present own the partitions of so many brokers as the strategy says, and shows
    /// that what is sent from then on goes to the owners, once.
    #[track_caller]
    pub(crate) fn settle(&mut self, brokers: usize) -> Ownership {
        let ids = self.members.consumer_ids();
        let ownership = self.observer.await_ownership(&RangeStrategy, brokers * PARTITIONS, ids);
        // What is under way may still go to somebody else.
        self.flow();
        let sent = self.flow();
        let places: BTreeSet<_> = sent.iter().copied().collect();
        for log in self.members.logs() {
            let own: BTreeSet<_> = self.own(&ownership, &log.member);
            let stray =
                log.deliveries.iter().find(|one| places.contains(&one.place) && !own.contains(&one.place.partition()));
            assert!(stray.is_none(), "{} was handed {stray:?}, but owns {own:?}", log.member);
        }
        let brokers_used: BTreeSet<_> = places.iter().map(|place| place.broker).collect();
        assert_eq!(brokers_used.len(), brokers, "brokers that the producer uses: {brokers_used:?}");
        ownership
    }

    /// Waits until messages that are sent now have arrived; tells where they are.
    #[track_caller]
    pub(crate) fn flow(&self) -> Vec<crate::common::group::Place> {
        let sent = self.load.await_further(BURST);
        self.members.await_delivery(&sent);
        sent.into_iter().map(|one| one.place).collect()
    }

    /// Ends a member by force. What it had handed out since its last commit may come again.
    pub(crate) fn kill(&mut self, name: &str) {
        let ownership = self.observer.ownership().unwrap();
        let at = self.members.kill(name);
        self.excuse(name, &ownership, at);
    }

    /// Stops a member in its tracks; the same holds.
    pub(crate) fn freeze(&mut self, name: &str) {
        let ownership = self.observer.ownership().unwrap();
        self.members.freeze(name);
        self.excuse(name, &ownership, Instant::now());
    }

    /// Nobody else owns the partitions before the session is over, so nobody commits.
    fn excuse(&mut self, name: &str, ownership: &Ownership, at: Instant) {
        let offsets = self.observer.offsets().unwrap();
        let own = self.own(ownership, name).into_iter();
        let committed = own.map(|partition| (partition, offsets.get(&partition).copied().unwrap_or(0))).collect();
        self.excuses.push(Excuse { member: name.to_owned(), committed, at, thawed: None });
    }

    /// Waits until the others own what a frozen member had.
    #[track_caller]
    pub(crate) fn settle_without(&mut self, frozen: &str, brokers: usize) {
        let others = self.members.names().into_iter().filter(|name| name != frozen);
        let ids: Vec<_> = others.map(|name| format!("group-{}_{name}", self.topic)).collect();
        self.observer.await_ownership(&RangeStrategy, brokers * PARTITIONS, ids);
        self.flow();
    }

    /// Lets a frozen member go on.
    pub(crate) fn thaw(&mut self, name: &str) {
        let at = self.members.thaw(name);
        for excuse in self.excuses.iter_mut().filter(|excuse| excuse.member == name) {
            excuse.thawed = Some(at);
        }
    }

    /// The sessions of the members.
    pub(crate) fn ownership(&self) -> Ownership {
        self.observer.ownership().unwrap()
    }

    fn own(&self, ownership: &Ownership, member: &str) -> BTreeSet<(i64, i64)> {
        ownership.partitions_of(&format!("group-{}_{member}", self.topic)).into_iter().collect()
    }

    /// Stops the load, lets everything arrive, lets everybody leave, and checks all that was promised.
    #[track_caller]
    pub(crate) fn end(mut self) {
        let failures = self.load.failures();
        let sent = self.load.stop();
        self.members.await_delivery(&sent);
        self.members.leave_all();
        let outcome = check(&sent, &self.members.logs()).unwrap_or_else(|wrong| panic!("{}: {wrong}", self.topic));
        let late = outcome.duplicates.iter().filter(|one| self.excuses.iter().any(|excuse| excuse.is_late(one)));
        let oldest = self.excuses.iter().filter_map(|excuse| excuse.oldest(&outcome.duplicates)).max();
        eprintln!(
            "{}: {} acknowledged, {failures} failed, {} delivered, {} twice (oldest {:.1?} before the end of its member, \
             {} late by a thawed member), {} steps back, {:.1?}",
            self.topic,
            outcome.acknowledged,
            outcome.delivered,
            outcome.duplicates.len(),
            oldest.unwrap_or_default(),
            late.count(),
            outcome.steps_back,
            self.began.elapsed(),
        );
        self.check_duplicates(&outcome);
        // Everybody has left: the group stands at the end of all that it was handed, and nobody is there any more.
        let offsets = self.observer.offsets().unwrap();
        assert_eq!(offsets, outcome.ends, "{}: offsets of the group and ends of the partitions", self.topic);
        assert_eq!(self.observer.ownership().unwrap(), Ownership::default(), "{}: nodes left behind", self.topic);
    }

    fn check_duplicates(&self, outcome: &Outcome) {
        for one in &outcome.duplicates {
            let excused = self.excuses.iter().any(|excuse| excuse.is_uncommitted(one) || excuse.is_late(one));
            assert!(excused, "{}: not to come twice: {one:?}", self.topic);
        }
        // Each time that one goes back, it is to what a member that is gone had not committed.
        if self.excuses.is_empty() {
            assert_eq!(outcome.steps_back, 0, "{}: steps back", self.topic);
        }
        for excuse in &self.excuses {
            if let Some(age) = excuse.oldest(&outcome.duplicates) {
                assert!(age <= COMMIT_PERIOD + COMMIT_SLACK, "{} had not committed for {age:.1?}", excuse.member);
            }
        }
    }
}

impl Excuse {
    /// The member had been handed it and had not committed it when it was ended.
    fn is_uncommitted(&self, one: &Duplicate) -> bool {
        let committed = self.committed.get(&one.place.partition());
        one.first.0 == self.member && committed.is_some_and(|&offset| one.place.offset >= offset)
    }

    /// A frozen member went on with what it had begun, though others had taken over.
    fn is_late(&self, one: &Duplicate) -> bool {
        let had = self.committed.contains_key(&one.place.partition());
        had && one.again.0 == self.member && self.thawed.is_some_and(|thawed| one.again.1 >= thawed)
    }

    /// How long before its end the member was handed the earliest message that came again.
    fn oldest(&self, duplicates: &[Duplicate]) -> Option<Duration> {
        let ages = duplicates.iter().filter(|one| self.is_uncommitted(one));
        ages.map(|one| self.at.saturating_duration_since(one.first.1)).max()
    }
}
