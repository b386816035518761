//! Who reads what.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::time::{Instant, sleep};

use super::client::Client;
use crate::id::TopicPartition;
use crate::rebalance::Assignee;
use crate::zk::{Lease, SessionId, Term};

/// Everybody who reads, and what was wrong with that.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    reading: BTreeMap<TopicPartition, BTreeMap<String, Reading>>,
    violations: Vec<String>,
    excused: usize,
    with_java: usize,
    robbed: usize,
}

#[derive(Debug, Clone)]
struct Reading {
    by: Arc<Who>,
    session: Option<SessionId>,
    /// `None` for a Java member, which has no lease.
    term: Option<Term>,
    releasing: bool,
}

#[derive(Debug)]
struct Who {
    name: String,
    client: Arc<Client>,
    is_java: bool,
    fenced: AtomicBool,
    lease: Option<Lease>,
    dead: AtomicBool,
    log: Mutex<Vec<(Instant, &'static str, TopicPartition)>>,
}

/// The assignee of one member. It takes a while to release.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    readers: Arc<Readers>,
    who: Arc<Who>,
    drain: Arc<dyn Drain>,
}

/// How long the next release takes.
pub(crate) trait Drain: std::fmt::Debug + Send + Sync {
    fn next(&self) -> Duration;
}

impl Drain for Duration {
    fn next(&self) -> Duration {
        *self
    }
}

/// Releases that take any time up to this, in milliseconds.
#[derive(Debug)]
pub(crate) struct UpTo(pub(crate) u64, pub(crate) Mutex<fastrand::Rng>);

impl Drain for UpTo {
    fn next(&self) -> Duration {
        Duration::from_millis(self.1.lock().unwrap().u64(0..=self.0))
    }
}

impl Reading {
    /// Whether a delivery may begin now.
    fn is_awake(&self) -> bool {
        !self.by.fenced.load(Ordering::Relaxed) && self.term.as_ref().is_none_or(Term::holds)
    }
}

impl Readers {
    /// What is wrong now, and was since the last time.
    pub(crate) fn violations(&self) -> Vec<String> {
        let mut state = self.state.lock().unwrap();
        let all: Vec<_> = state.reading.keys().cloned().collect();
        // What lasts is counted when it begins.
        all.iter().for_each(|of| state.check(of, false));
        std::mem::take(&mut state.violations)
    }

    /// How often two members read the same because the service had ended the session of one of them for no reason.
    pub(crate) fn excused(&self) -> usize {
        self.state.lock().unwrap().excused
    }

    /// How often a Java member and another one read the same.
    pub(crate) fn with_java(&self) -> usize {
        self.state.lock().unwrap().with_java
    }

    /// How often two members that are not Java read the same, since a Java member had deleted the owner node of one of
    /// them and the other one made it sooner than the first could hear of it: only ZooKeeper could prevent that (D15).
    pub(crate) fn robbed(&self) -> usize {
        self.state.lock().unwrap().robbed
    }

    /// What a member reads.
    pub(crate) fn of(&self, name: &str) -> BTreeSet<TopicPartition> {
        let state = self.state.lock().unwrap();
        let reading = state.reading.iter().filter(|(_, readers)| readers.contains_key(name));
        reading.map(|(of, _)| of.clone()).collect()
    }
}

impl State {
    fn wrong(&mut self, who: &Who, what: &str, of: &TopicPartition) {
        self.violations.push(format!("{}: {what} {of}", who.name));
    }

    fn check(&mut self, of: &TopicPartition, counts: bool) {
        let Some(readers) = self.reading.get(of) else { return };
        let awake: Vec<_> = readers.values().filter(|reading| reading.is_awake()).collect();
        if awake.len() < 2 {
            return;
        }
        let lost_unawares =
            |reading: &Reading| reading.session.is_some_and(|session| reading.by.client.lost_unawares(session));
        let robbed_unawares =
            |reading: &Reading| reading.session.is_some_and(|session| reading.by.client.robbed_unawares(session, of));
        let entitled =
            |is_excused: &dyn Fn(&Reading) -> bool| awake.iter().filter(|reading| !is_excused(reading)).count();
        if awake.iter().any(|reading| reading.by.is_java) {
            self.with_java += usize::from(counts);
        } else if entitled(&lost_unawares) <= 1 {
            self.excused += usize::from(counts);
        } else if entitled(&|reading| lost_unawares(reading) || robbed_unawares(reading)) <= 1 {
            self.robbed += usize::from(counts);
        } else {
            let names: Vec<_> = awake.iter().map(|reading| &reading.by.name).collect();
            self.violations.push(format!("{of} is read by {names:?}"));
        }
    }
}

impl Reader {
    pub(crate) fn new(
        readers: &Arc<Readers>,
        name: &str,
        client: &Arc<Client>,
        drain: Arc<dyn Drain>,
        lease: Option<Lease>,
    ) -> Self {
        let who = Who {
            name: name.to_owned(),
            client: client.clone(),
            is_java: lease.is_none(),
            lease,
            fenced: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            log: Mutex::default(),
        };
        Self { readers: readers.clone(), who: Arc::new(who), drain }
    }

    /// The process is gone.
    pub(crate) fn kill(&self) {
        self.who.dead.store(true, Ordering::Relaxed);
        for readers in self.readers.state.lock().unwrap().reading.values_mut() {
            readers.remove(&self.who.name);
        }
    }

    /// What it reads.
    pub(crate) fn reads(&self) -> BTreeSet<TopicPartition> {
        self.readers.of(&self.who.name)
    }

    pub(crate) fn is_fenced(&self) -> bool {
        self.who.fenced.load(Ordering::Relaxed)
    }

    /// Whether deliveries and commits may begin, as far as the session goes.
    pub(crate) fn may_begin(&self) -> bool {
        self.who.lease.as_ref().is_none_or(Lease::holds)
    }

    /// What happened to the partitions since the last time.
    pub(crate) fn log(&self) -> Vec<(Instant, &'static str, TopicPartition)> {
        std::mem::take(&mut self.who.log.lock().unwrap())
    }

    fn each(
        &self,
        what: &'static str,
        partitions: &[TopicPartition],
        mut change: impl FnMut(&mut State, &TopicPartition),
    ) {
        if self.who.dead.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.readers.state.lock().unwrap();
        for of in partitions {
            self.who.log.lock().unwrap().push((Instant::now(), what, of.clone()));
            change(&mut state, of);
            state.check(of, true);
        }
    }
}

impl Assignee for Reader {
    fn assigned(&self, partitions: &[TopicPartition]) {
        self.each("assigned", partitions, |state, of| {
            let reading = Reading {
                by: self.who.clone(),
                session: self.who.client.session_id(),
                term: self.who.lease.as_ref().map(Lease::term),
                releasing: false,
            };
            let readers = state.reading.entry(of.clone()).or_default();
            if readers.insert(self.who.name.clone(), reading).is_some() {
                state.wrong(&self.who, "assigned twice", of);
            }
        });
    }

    fn release<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.each("release", partitions, |state, of| {
                let reading = state.reading.get_mut(of).and_then(|readers| readers.get_mut(&self.who.name));
                match reading {
                    Some(reading) if !reading.releasing => reading.releasing = true,
                    _ => state.wrong(&self.who, "released without being assigned", of),
                }
            });
            sleep(self.drain.next()).await;
            self.who.client.thawed().await;
            self.each("released", partitions, |state, of| {
                let readers = state.reading.entry(of.clone()).or_default();
                if readers.get(&self.who.name).is_some_and(|reading| reading.releasing) {
                    readers.remove(&self.who.name);
                }
            });
        })
    }

    fn lost(&self, partitions: &[TopicPartition]) {
        self.each("lost", partitions, |state, of| {
            if state.reading.get_mut(of).and_then(|readers| readers.remove(&self.who.name)).is_none() {
                state.wrong(&self.who, "lost without being assigned", of);
            }
        });
    }

    fn fence(&self, fenced: bool) {
        let before = self.who.fenced.swap(fenced, Ordering::Relaxed);
        let mine: Vec<_> = self.readers.of(&self.who.name).into_iter().collect();
        self.each(if fenced { "fenced" } else { "unfenced" }, &mine, |_, _| {});
        if before == fenced {
            let mut state = self.readers.state.lock().unwrap();
            state.violations.push(format!("{}: fence({fenced}) twice", self.who.name));
        }
    }
}
