//! Java clients that work while the test does something to their brokers.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::DEADLINE;
use crate::common::java::JavaCommand;
use crate::messages::{Message, Stored};

/// A Java producer at work.
pub(crate) struct Stream<'a> {
    command: JavaCommand<'a>,
    prefix: String,
    acknowledged: Vec<Stored>,
    refused: Vec<String>,
}

impl<'a> Stream<'a> {
    /// Of a command that sends messages of this prefix.
    pub(crate) fn new(command: JavaCommand<'a>, prefix: &str) -> Self {
        Self { command, prefix: prefix.to_owned(), acknowledged: Vec::new(), refused: Vec::new() }
    }

    /// Waits until so many further messages were acknowledged, and returns them. Those that are not are not sent again.
    #[track_caller]
    pub(crate) fn go_on(&mut self, count: usize) -> Vec<Stored> {
        let before = self.acknowledged.len();
        let until = before + count;
        let deadline = Instant::now() + DEADLINE;
        while self.acknowledged.len() < until {
            let Some(line) = self.command.next_before(deadline) else {
                panic!(
                    "only {} of {until} messages acknowledged; refused: {:?}",
                    self.acknowledged.len(),
                    self.refused
                );
            };
            self.take(&line.unwrap());
        }
        self.acknowledged[before..].to_vec()
    }

    /// Stops and returns all that was acknowledged.
    pub(crate) fn stop(mut self) -> Vec<Stored> {
        self.command.stop();
        while let Some(line) = self.command.next() {
            self.take(&line);
        }
        self.acknowledged
    }

    fn take(&mut self, line: &Value) {
        if line["ok"] == true {
            let message = Message::new(format!("{}{}", self.prefix, line["i"]));
            self.acknowledged.push(Stored::acknowledged(line, message));
        } else {
            self.refused.push(line["error"].to_string());
        }
    }
}

/// A Java consumer, member of a group.
pub(crate) struct Member<'a> {
    command: JavaCommand<'a>,
    delivered: Vec<Stored>,
}

impl<'a> Member<'a> {
    /// Waits until the command that consumes has subscribed.
    pub(crate) fn subscribed(mut command: JavaCommand<'a>) -> Self {
        let mut delivered = Vec::new();
        loop {
            let line = command.next().unwrap();
            if line["ready"] == true {
                return Self { command, delivered };
            }
            // The first messages may come before the call that subscribes returns.
            delivered.push(Stored::delivered(&line));
        }
    }

    pub(crate) fn delivered(&self) -> &[Stored] {
        &self.delivered
    }

    /// Waits until what has been delivered satisfies the condition.
    #[track_caller]
    pub(crate) fn receive_until(&mut self, what: &str, mut enough: impl FnMut(&[Stored]) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !enough(&self.delivered) {
            let Some(line) = self.command.next_before(deadline) else {
                panic!("not delivered: {what}; only {} messages were", self.delivered.len());
            };
            self.delivered.push(Stored::delivered(&line.unwrap()));
        }
    }

    /// Waits until each of the messages has been delivered to one of the members, or more than one.
    #[track_caller]
    pub(crate) fn receive_between_them(members: &mut [Self], messages: &[Stored]) {
        let mut missing: HashSet<_> = messages.iter().map(|one| one.place).collect();
        for member in &*members {
            member.delivered.iter().for_each(|one| _ = missing.remove(&one.place));
        }
        let deadline = Instant::now() + DEADLINE;
        while !missing.is_empty() {
            for member in &mut *members {
                let seen = member.delivered.len();
                member.receive_for(Duration::from_millis(20));
                member.delivered[seen..].iter().for_each(|one| _ = missing.remove(&one.place));
            }
            assert!(Instant::now() < deadline, "not delivered: {missing:?}");
        }
    }

    /// Takes what has been delivered meanwhile, waiting a moment at most.
    pub(crate) fn receive_for(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        while let Some(line) = self.command.next_before(deadline) {
            self.delivered.push(Stored::delivered(&line.unwrap()));
        }
    }

    /// Leaves the group, which commits, and returns all that was delivered.
    pub(crate) fn stop(mut self) -> Vec<Stored> {
        self.command.stop();
        while let Some(line) = self.command.next() {
            self.delivered.push(Stored::delivered(&line));
        }
        self.delivered
    }
}
