//! Retention: expired segments are looked for when `deleteWhen` says so, by one thread for all topics (02 §13).
//!
//! Runs never overlap. Which topics a run is for, and what it does with their segments, is asked when it happens, so
//! topics that came into being and a changed configuration count at once. A time at which the broker does not run is not
//! made up for, as with the reference; one that comes while a run is under way, or while the machine sleeps, is.

mod run;
mod timetable;

use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use tracing::{debug, info, warn};

use self::timetable::Timetable;
use super::topics::{Topics, settings_of};
use crate::common::guard::lock;
use crate::config::{CronExpression, DeletePolicy, local_text, local_zone, zone_name};
use crate::id::TopicName;
use crate::store::Store;

/// Longest sleep: changes of the clock and of the time zone are noticed, and topics that are new.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// How much less than others the thread gets of the processors, in the terms of `nice`.
const NICENESS: i32 = 10;

/// When and how the segments of a topic expire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RetentionRule {
    pub(super) when: CronExpression,
    pub(super) policy: DeletePolicy,
}

/// What retention asks of the configuration in force.
pub(super) trait RetentionRules: Send + Sync + fmt::Debug {
    /// The topics with a section.
    fn configured(&self) -> Vec<TopicName>;
    /// What holds for a topic, configured or not.
    fn rule(&self, topic: &TopicName) -> RetentionRule;
}

impl RetentionRules for Topics {
    fn configured(&self) -> Vec<TopicName> {
        self.config().topics.iter().map(|topic| topic.name.clone()).collect()
    }

    fn rule(&self, topic: &TopicName) -> RetentionRule {
        let config = self.config();
        let settings = settings_of(&config, topic);
        RetentionRule { when: settings.delete_when.clone(), policy: settings.delete_policy }
    }
}

/// What retention has done since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetentionTotals {
    /// Runs that are over.
    pub runs: u64,
    /// Segments that were removed.
    pub segments_removed: u64,
    /// Segments that were archived, compressed or not.
    pub segments_archived: u64,
    /// Bytes by which the files became less.
    pub bytes_freed: u64,
    /// Times that a partition could not be dealt with, or only in part.
    pub failures: u64,
    /// A run is under way.
    pub running: bool,
    /// When the last run that is over had begun.
    pub last_run: Option<SystemTime>,
    /// How long it took.
    pub last_duration: Option<Duration>,
    /// When the next one begins; `None` if no expression has a time any more.
    pub next_run: Option<SystemTime>,
}

/// The thread that looks for expired segments. Dropping it lets the thread end soon.
#[derive(Debug)]
pub(super) struct Retention {
    worker: Arc<Worker>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Retention {
    /// Starts the thread.
    pub(super) fn start(rules: Arc<dyn RetentionRules>, store: Arc<Store>) -> io::Result<Self> {
        let worker = Arc::new(Worker {
            rules,
            store,
            signals: Mutex::default(),
            signalled: Condvar::new(),
            totals: Mutex::default(),
        });
        let timetable = worker.timetable(Timestamp::now());
        // Before anybody can ask for it.
        worker.tell_next_run(&timetable);
        let thread = {
            let worker = Arc::clone(&worker);
            thread::Builder::new().name("metaq-retention".to_owned()).spawn(move || worker.work(timetable))?
        };
        Ok(Self { worker, thread: Mutex::new(Some(thread)) })
    }

    /// What others may know of it and tell it.
    pub(super) fn handle(&self) -> RetentionHandle {
        RetentionHandle(Arc::clone(&self.worker))
    }

    /// Lets a run that is under way end at the next safe point, without waiting for it.
    pub(super) fn request_stop(&self) {
        self.worker.signal(|signals| signals.stop = true);
    }

    /// Stops, and waits until it has: at most for the removal of a segment, or for a piece of one to be compressed.
    pub(super) fn stop(&self) {
        self.request_stop();
        let thread = lock(&self.thread).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            warn!("the thread of the retention panicked");
        }
    }
}

/// What others may know of the retention and tell it; does not keep the thread from ending.
#[derive(Debug, Clone)]
pub(super) struct RetentionHandle(Arc<Worker>);

impl RetentionHandle {
    /// What was done so far.
    pub(super) fn totals(&self) -> RetentionTotals {
        self.0.totals().clone()
    }

    /// Has the next run determined anew. What a run does is asked at the time of the run in any case.
    pub(super) fn configuration_changed(&self) {
        self.0.signal(|signals| signals.changed = true);
    }
}

impl Drop for Retention {
    fn drop(&mut self) {
        self.request_stop();
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Signals {
    stop: bool,
    changed: bool,
}

/// What the thread works with.
#[derive(Debug)]
struct Worker {
    rules: Arc<dyn RetentionRules>,
    store: Arc<Store>,
    signals: Mutex<Signals>,
    signalled: Condvar,
    totals: Mutex<RetentionTotals>,
}

impl Worker {
    fn signal(&self, change: impl FnOnce(&mut Signals)) {
        change(&mut lock(&self.signals));
        self.signalled.notify_all();
    }

    fn is_stopping(&self) -> bool {
        lock(&self.signals).stop
    }

    fn totals(&self) -> MutexGuard<'_, RetentionTotals> {
        lock(&self.totals)
    }

    fn work(&self, mut timetable: Timetable) {
        // On Linux it holds for this thread alone.
        if let Err(error) = rustix::process::nice(NICENESS) {
            debug!(%error, "retention runs at the usual priority");
        }
        loop {
            let signals = self.sleep_until(timetable.next());
            if signals.stop {
                return;
            }
            let now = Timestamp::now();
            let due = timetable.due(now);
            if !due.is_empty() {
                self.run(&due);
            }
            // From the time on that was looked at: what came due meanwhile is next.
            timetable = self.timetable(now);
            if signals.changed {
                self.tell_next_run(&timetable);
            }
        }
    }

    /// Sleeps until a time, but not for long, or until something is signalled. A change is signalled once.
    fn sleep_until(&self, time: Option<Timestamp>) -> Signals {
        let until = |time: Timestamp| Duration::try_from(Timestamp::now().duration_until(time)).unwrap_or_default();
        let sleep = time.map_or(LONGEST_SLEEP, until).min(LONGEST_SLEEP);
        let signals = lock(&self.signals);
        let nothing = |signals: &mut Signals| !signals.stop && !signals.changed;
        let (mut signals, _) =
            self.signalled.wait_timeout_while(signals, sleep, nothing).unwrap_or_else(PoisonError::into_inner);
        let seen = *signals;
        signals.changed = false;
        seen
    }

    /// The times of all topics after a given one.
    fn timetable(&self, after: Timestamp) -> Timetable {
        let topics = self.store.topics().into_keys().chain(self.rules.configured());
        let timetable = Timetable::new(topics.map(|topic| self.rules.rule(&topic).when), after, &local_zone());
        self.totals().next_run = timetable.next().and_then(|next| next.try_into().ok());
        timetable
    }

    fn tell_next_run(&self, timetable: &Timetable) {
        let zone = local_zone();
        match timetable.next() {
            Some(next) => {
                info!(next_run = %local_text(next, &zone), time_zone = %zone_name(&zone), "retention scheduled");
            }
            None => warn!("retention never runs: no deleteWhen has a time in the future"),
        }
    }
}

#[cfg(test)]
mod tests;
