//! A group at work on a topic under a steady load while a test does something to it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use metaq::rebalance::LoadBalanceStrategy;

use super::{
    COMMIT_PERIOD, Duplicate, Excuse, GROUP_DEADLINE, Load, Members, Observer, Outcome, Ownership, Sent, Subject, check,
};

/// Messages that show that a group is at work.
const BURST: usize = 90;

/// How much more than a commit period may lie between two commits on a busy machine.
const COMMIT_SLACK: Duration = Duration::from_secs(3);

pub struct Run {
    pub members: Members,
    pub load: Load,
    pub observer: Observer,
    subject: Subject,
    strategy: Box<dyn LoadBalanceStrategy>,
    /// Members of the reference's client: they may be late without having been frozen or killed.
    java: BTreeSet<String>,
    excuses: Vec<Excuse>,
    began: Instant,
    sent: Option<Vec<Sent>>,
}

impl Run {
    /// Starts the load; nobody is there yet. `options` are further arguments of each member.
    pub fn new(subject: Subject, strategy: Box<dyn LoadBalanceStrategy>, options: &[&str]) -> Self {
        Self {
            observer: Observer::new(&subject),
            load: Load::start(&subject, "m-"),
            members: Members::new(subject.clone(), options),
            subject,
            strategy,
            java: BTreeSet::new(),
            excuses: Vec::new(),
            began: Instant::now(),
            sent: None,
        }
    }

    /// Names a member that is of the reference's client.
    pub fn is_java(&mut self, name: &str) {
        self.java.insert(name.to_owned());
    }

    /// Waits until the members that are present own the topic's partitions, of which there must be so many, as the
    /// strategy says; and shows that what is sent from then on goes to the owners only, from every broker.
    #[track_caller]
    pub fn settle(&self, partitions: usize) -> Ownership {
        let ownership = self.observer.await_ownership(&*self.strategy, partitions, self.members.consumer_ids());
        let brokers: BTreeSet<i64> = ownership.owners.keys().map(|partition| partition.broker.get().into()).collect();
        // What is under way may still go to somebody else, and the producer takes a moment to find its brokers.
        let started = Instant::now();
        loop {
            let used = self.flow();
            if used == brokers {
                break;
            }
            assert!(started.elapsed() < GROUP_DEADLINE, "the producer uses brokers {used:?}, not {brokers:?}");
        }
        let at_rest = Instant::now();
        self.flow();
        for log in self.members.logs() {
            let own = self.own(&ownership, &log.member);
            let mut since = log.deliveries.iter().filter(|one| one.at > at_rest);
            let stray = since.find(|one| !own.contains(&one.place.partition()));
            assert!(stray.is_none(), "{} was handed {stray:?}, but owns {own:?}", log.member);
        }
        ownership
    }

    /// Waits until the others own what a frozen member had.
    #[track_caller]
    pub fn settle_without(&self, frozen: &str, partitions: usize) {
        let frozen = self.subject.consumer_id(frozen);
        let others = self.members.consumer_ids().into_iter().filter(|id| *id != frozen);
        self.observer.await_ownership(&*self.strategy, partitions, others);
        self.flow();
    }

    /// Waits until messages that are acknowledged from now on have arrived; tells from which brokers.
    #[track_caller]
    pub fn flow(&self) -> BTreeSet<i64> {
        let sent = self.load.await_further(BURST);
        self.members.await_delivery(&sent);
        sent.into_iter().map(|one| one.place.broker).collect()
    }

    /// Ends a member by force. What it had handed out since its last commit may come again.
    pub fn kill(&mut self, name: &str) {
        self.ends(name, |members| members.kill(name));
    }

    /// Stops a member in its tracks; the same holds.
    pub fn freeze(&mut self, name: &str) {
        self.ends(name, |members| {
            members.freeze(name);
            Instant::now()
        });
    }

    /// A member is ended by force, or stopped in its tracks, by what is given, which tells when.
    pub fn ends(&mut self, name: &str, end: impl FnOnce(&mut Members) -> Instant) {
        let ownership = self.observer.ownership().unwrap();
        let at = end(&mut self.members);
        // Nobody else owns its partitions before its session is over, so nobody commits there.
        let offsets = self.observer.offsets().unwrap();
        let own = self.own(&ownership, name).into_iter();
        let committed = own.map(|partition| (partition, offsets.get(&partition).copied().unwrap_or(0))).collect();
        self.excuses.push(Excuse { member: name.to_owned(), committed, at, thawed: None });
    }

    /// Lets a frozen member go on.
    pub fn thaw(&mut self, name: &str) {
        let at = self.members.thaw(name);
        self.thawed(name, at);
    }

    /// A frozen member goes on since then.
    pub fn thawed(&mut self, name: &str, at: Instant) {
        for excuse in self.excuses.iter_mut().filter(|excuse| excuse.member == name) {
            excuse.thawed = Some(at);
        }
    }

    /// Stops the load and lets everything arrive.
    #[track_caller]
    pub fn drain(&mut self) {
        let sent = self.load.stop();
        self.members.await_delivery(&sent);
        self.sent = Some(sent);
    }

    /// Lets everybody leave and checks all that was promised. Members that are not ours must have left, after
    /// [`drain`](Self::drain).
    #[track_caller]
    pub fn end(mut self) {
        let name = self.subject.group.clone();
        if self.sent.is_none() {
            self.drain();
        }
        let sent = self.sent.take().unwrap();
        if !self.java.is_empty() {
            self.make_up_for_java(&sent);
        }
        self.members.leave_all();
        let outcome = check(&sent, &self.members.logs()).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
        self.report(&outcome);
        self.check_duplicates(&outcome);
        // Everybody has left: the group stands at the end of all that it was handed, and nobody is there any more.
        let offsets = self.observer.offsets().unwrap();
        assert_eq!(offsets, outcome.ends, "{name}: offsets of the group and ends of the partitions");
        assert_eq!(self.observer.ownership().unwrap(), Ownership::default(), "{name}: nodes left behind");
    }

    /// A Java member that leaves during a rebalance commits nothing: what it was handed last comes again to those that are
    /// left, which takes as long as it takes.
    #[track_caller]
    fn make_up_for_java(&self, sent: &[Sent]) {
        let partitions = self.observer.partitions().len();
        self.observer.await_ownership(&*self.strategy, partitions, self.members.consumer_ids());
        let started = Instant::now();
        loop {
            let ends = check(sent, &self.members.logs()).map(|outcome| outcome.ends);
            let offsets = self.observer.offsets().unwrap();
            if ends.as_ref() == Ok(&offsets) {
                return;
            }
            assert!(started.elapsed() < GROUP_DEADLINE, "the group stands at {offsets:?}, not at {ends:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn report(&self, outcome: &Outcome) {
        let twice = &outcome.duplicates;
        let uncommitted = twice.iter().filter(|one| self.excuses.iter().any(|excuse| excuse.is_uncommitted(one)));
        let late = twice.iter().filter(|one| self.excuses.iter().any(|excuse| excuse.is_late(one)));
        let java = twice.iter().filter(|one| self.is_java_in(one));
        let oldest = self.excuses.iter().filter_map(|excuse| excuse.oldest(twice)).max().unwrap_or_default();
        eprintln!(
            "{}: {} acknowledged, {} failed, {} delivered, {} twice: {} of what a member that died had not committed \
             (the oldest {oldest:.1?} before its end), {} late by one that was frozen, {} by or after Java; {} steps back; longest leave {:.1?}; {:.1?}",
            self.subject.group,
            outcome.acknowledged,
            self.load.failures(),
            outcome.delivered,
            twice.len(),
            uncommitted.count(),
            late.count(),
            java.count(),
            outcome.steps_back,
            self.members.longest_leave,
            self.began.elapsed(),
        );
    }

    fn check_duplicates(&self, outcome: &Outcome) {
        let name = &self.subject.group;
        for one in &outcome.duplicates {
            let excused = self.excuses.iter().any(|excuse| excuse.is_uncommitted(one) || excuse.is_late(one));
            assert!(excused || self.is_java_in(one), "{name}: not to come twice: {one:?}");
        }
        // Each time that one goes back, it is to what a member that is gone had not committed.
        if self.excuses.is_empty() && self.java.is_empty() {
            assert_eq!(outcome.steps_back, 0, "{name}: steps back");
        }
        for excuse in self.excuses.iter().filter(|excuse| !self.java.contains(&excuse.member)) {
            if let Some(age) = excuse.oldest(&outcome.duplicates) {
                assert!(age <= COMMIT_PERIOD + COMMIT_SLACK, "{} had not committed for {age:.1?}", excuse.member);
            }
            // What its listener had begun when it was frozen, and nothing more.
            let mut late = BTreeMap::<_, usize>::new();
            for one in outcome.duplicates.iter().filter(|one| excuse.is_late(one)) {
                *late.entry(one.place.partition()).or_default() += 1;
            }
            assert!(late.values().all(|&count| count <= 1), "{} delivered late: {late:?}", excuse.member);
        }
    }

    /// Whether one of both members is Java's.
    fn is_java_in(&self, one: &Duplicate) -> bool {
        [&one.first.0, &one.again.0].into_iter().any(|member| self.java.contains(member))
    }

    fn own(&self, ownership: &Ownership, member: &str) -> BTreeSet<(i64, i64)> {
        ownership.partitions_of(&self.subject.consumer_id(member)).into_iter().collect()
    }
}
