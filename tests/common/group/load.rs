//! A producer that goes on and on, and what of it was acknowledged.

use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{GROUP_DEADLINE, Place, Subject};
use crate::common::process::Process;

/// Pause between two messages.
const INTERVAL_MS: &str = "4";

/// Longest wait for an answer: a broker that is frozen answers nothing.
const TIMEOUT_MS: &str = "2000";

/// Messages that may wait for an answer: more than are sent within the time-out.
const WINDOW: &str = "4000";

/// More than anybody waits for.
const COUNT: &str = "100000000";

/// An acknowledged message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    pub place: Place,
    pub id: i64,
    pub payload: Vec<u8>,
}

/// `metaq produce` at work.
pub struct Load {
    process: Process,
    answers: Arc<Mutex<Answers>>,
}

#[derive(Default)]
struct Answers {
    acknowledged: Vec<Sent>,
    failures: usize,
    last_failure: Option<String>,
    summary: bool,
}

impl Load {
    /// Starts it; payloads are the prefix and a number.
    pub fn start(subject: &Subject, prefix: &str) -> Self {
        let answers = Arc::<Mutex<Answers>>::default();
        let on_line = {
            let (answers, prefix) = (Arc::clone(&answers), prefix.to_owned());
            Box::new(move |line: String| {
                let line = serde_json::from_str(&line).unwrap_or_else(|error| panic!("'{line}': {error}"));
                lock(&answers).take(&line, &prefix);
            })
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
        command.arg("produce").args(subject.arguments()).args(["--payload-prefix", prefix, "--count", COUNT]);
        command.args(["--interval-ms", INTERVAL_MS, "--timeout-ms", TIMEOUT_MS, "--threads", WINDOW]);
        command.args(["--output", "json"]).env("RUST_LOG", "info");
        let process = Process::start(&format!("the producer of {}", subject.topic), &mut command, Some(on_line));
        Self { process, answers }
    }

    /// All that was acknowledged until now.
    pub fn acknowledged(&self) -> Vec<Sent> {
        lock(&self.answers).acknowledged.clone()
    }

    /// How many messages were refused, or sent without an answer.
    pub fn failures(&self) -> usize {
        lock(&self.answers).failures
    }

    /// Waits until so many further messages are acknowledged, and returns those.
    #[track_caller]
    pub fn await_further(&self, count: usize) -> Vec<Sent> {
        let before = lock(&self.answers).acknowledged.len();
        let started = Instant::now();
        loop {
            {
                let answers = lock(&self.answers);
                if answers.acknowledged.len() >= before + count {
                    return answers.acknowledged[before..].to_vec();
                }
                let (so_far, failure) = (answers.acknowledged.len() - before, &answers.last_failure);
                assert!(
                    started.elapsed() < GROUP_DEADLINE,
                    "only {so_far} of {count} messages acknowledged; last refused: {failure:?}"
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Stops it and returns all that was acknowledged.
    pub fn stop(&mut self) -> Vec<Sent> {
        self.process.terminate();
        crate::common::wait_until("the producer's last line", || lock(&self.answers).summary);
        self.acknowledged()
    }
}

impl Answers {
    fn take(&mut self, line: &Value, prefix: &str) {
        if line["summary"] == true {
            self.summary = true;
        } else if line["ok"] == true {
            let payload = format!("{prefix}{}", line["i"]).into_bytes();
            self.acknowledged.push(Sent { place: Place::of(line), id: line["id"].as_i64().unwrap(), payload });
        } else {
            self.failures += 1;
            self.last_failure = Some(line.to_string());
        }
    }
}

fn lock(answers: &Mutex<Answers>) -> MutexGuard<'_, Answers> {
    answers.lock().unwrap_or_else(PoisonError::into_inner)
}
