//! The members of a group that are processes of ours.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{GROUP_DEADLINE, Inbox, Log, SESSION_TIMEOUT, Sent, Subject, undelivered};
use crate::common::process::Process;

/// Of every member.
pub const COMMIT_PERIOD: Duration = Duration::from_secs(1);

/// The members of one group, those that are gone too.
pub struct Members {
    subject: Subject,
    options: Vec<String>,
    present: BTreeMap<String, Process>,
    /// Present members that are not ours.
    adopted: BTreeSet<String>,
    inboxes: Vec<(String, Arc<Inbox>)>,
    /// From TERM to the end of the process.
    pub longest_leave: Duration,
}

impl Members {
    /// None yet; `options` are further arguments for each.
    pub fn new(subject: Subject, options: &[&str]) -> Self {
        let options = options.iter().map(|&option| option.to_owned()).collect();
        Self {
            subject,
            options,
            present: BTreeMap::new(),
            adopted: BTreeSet::new(),
            inboxes: Vec::new(),
            longest_leave: Duration::ZERO,
        }
    }

    /// Starts a member and waits until it has subscribed. Its name is its consumer id without the group, and must not
    /// have been used before.
    pub fn join(&mut self, name: &str) {
        self.start(name, true);
        self.inbox(name).await_ready(name);
    }

    /// The same for a member that makes its consumer id itself; only tests know it by the name.
    pub fn join_without_id(&mut self, name: &str) {
        self.start(name, false);
        self.inbox(name).await_ready(name);
    }

    /// Starts members and waits until all have subscribed.
    pub fn join_all<'a>(&mut self, names: impl IntoIterator<Item = &'a str> + Clone) {
        for name in names.clone() {
            self.start(name, true);
        }
        for name in names {
            self.inbox(name).await_ready(name);
        }
    }

    fn start(&mut self, name: &str, with_id: bool) {
        assert!(self.inboxes.iter().all(|(known, _)| known != name), "{name} was there before");
        let inbox = Arc::<Inbox>::default();
        let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
        command.arg("consume").args(self.subject.arguments());
        command.args(["--group", &self.subject.group, "--payload", "base64"]);
        if with_id {
            command.args(["--consumer-id", name]);
        }
        command.args(["--commit-ms", &COMMIT_PERIOD.as_millis().to_string(), "--max-delay-ms", "500"]);
        command.args(["--zk-session-ms", &SESSION_TIMEOUT.as_millis().to_string()]).args(&self.options);
        command.args(["--output", "json"]).env("RUST_LOG", "info");
        let process = Process::start(&format!("member {name}"), &mut command, Some(inbox.feeder()));
        self.present.insert(name.to_owned(), process);
        self.inboxes.push((name.to_owned(), inbox));
    }

    /// Counts a member that is not ours among those present, and what it is handed among the group's deliveries.
    pub fn adopt(&mut self, name: &str, inbox: Arc<Inbox>) {
        self.adopted.insert(name.to_owned());
        self.inboxes.push((name.to_owned(), inbox));
    }

    /// An adopted member is present no more.
    pub fn dismiss(&mut self, name: &str) {
        assert!(self.adopted.remove(name), "no adopted member {name}");
    }

    /// A member leaves as an operator ends it, by TERM; returns the last line that it printed.
    pub fn leave(&mut self, name: &str) -> Value {
        let mut process = self.take(name);
        let asked = Instant::now();
        let status = process.terminate();
        self.longest_leave = self.longest_leave.max(asked.elapsed());
        let inbox = self.inbox(name);
        inbox.await_end(name);
        let last = inbox.last();
        assert!(status.success(), "{name} ended with {status}: {last:?}");
        let last = last.filter(|line| line["summary"] == true);
        last.unwrap_or_else(|| panic!("{name} left without a summary"))
    }

    /// All leave, one after the other.
    pub fn leave_all(&mut self) {
        for name in self.names() {
            self.leave(&name);
        }
    }

    /// Ends a member in the middle of whatever it does, and tells when.
    pub fn kill(&mut self, name: &str) -> Instant {
        let mut process = self.take(name);
        process.kill();
        let at = Instant::now();
        self.inbox(name).await_end(name);
        at
    }

    /// Stops a member in its tracks; its connections stay open.
    pub fn freeze(&self, name: &str) {
        self.process(name).signal("STOP");
    }

    /// Lets a frozen member go on, and tells since when.
    pub fn thaw(&self, name: &str) -> Instant {
        let at = Instant::now();
        self.process(name).signal("CONT");
        at
    }

    /// The names of ours that are present.
    pub fn names(&self) -> Vec<String> {
        self.present.keys().cloned().collect()
    }

    /// The consumer ids of all that are present, the adopted ones too.
    pub fn consumer_ids(&self) -> Vec<String> {
        self.present.keys().chain(&self.adopted).map(|name| self.subject.consumer_id(name)).collect()
    }

    /// The process of a member that is present.
    pub fn process(&self, name: &str) -> &Process {
        self.present.get(name).unwrap_or_else(|| panic!("no member {name}"))
    }

    /// What a member, present or gone, was handed.
    pub fn inbox(&self, name: &str) -> &Arc<Inbox> {
        &self.inboxes.iter().find(|(known, _)| known == name).unwrap().1
    }

    /// What all were handed until now.
    pub fn logs(&self) -> Vec<Log> {
        let log = |(name, inbox): &(String, Arc<Inbox>)| Log { member: name.clone(), deliveries: inbox.deliveries() };
        self.inboxes.iter().map(log).collect()
    }

    /// Waits until each of the messages was delivered to somebody.
    #[track_caller]
    pub fn await_delivery(&self, sent: &[Sent]) {
        let started = Instant::now();
        loop {
            let missing = undelivered(sent, &self.logs());
            if missing.is_empty() {
                return;
            }
            let (count, first) = (missing.len(), &missing[0]);
            assert!(started.elapsed() < GROUP_DEADLINE, "{count} of {} not delivered, first {first:?}", sent.len());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn take(&mut self, name: &str) -> Process {
        self.present.remove(name).unwrap_or_else(|| panic!("no member {name}"))
    }
}
