//! What members were handed.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

/// Bytes of a record before its body (02 §3).
const RECORD_HEADER: usize = 20;

/// Bytes before an attribute (01 §6).
const ATTRIBUTE_LENGTH: usize = 4;

/// Where a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub broker: i64,
    pub partition: i64,
    pub offset: i64,
}

impl Place {
    /// From the line of an answer or a delivery.
    pub fn of(line: &Value) -> Self {
        let number = |name: &str| line[name].as_i64().unwrap_or_else(|| panic!("no {name} in {line}"));
        Self { broker: number("broker"), partition: number("partition"), offset: number("offset") }
    }

    pub fn partition(&self) -> (i64, i64) {
        (self.broker, self.partition)
    }
}

/// One message, handed to one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// When its line was read here.
    pub at: Instant,
    pub place: Place,
    pub id: i64,
    pub attribute: Option<String>,
    pub payload: Vec<u8>,
}

impl Delivery {
    /// Where the next message begins.
    pub fn end(&self) -> i64 {
        let attribute = self.attribute.as_ref().map_or(0, |attribute| ATTRIBUTE_LENGTH + attribute.len());
        self.place.offset + i64::try_from(RECORD_HEADER + attribute + self.payload.len()).unwrap()
    }
}

/// The lines of one member, ours or Java's, with payloads in base64.
#[derive(Debug, Default)]
pub struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    deliveries: Vec<Delivery>,
    ready: bool,
    /// Deliveries that failed on purpose.
    failed: usize,
    /// The last line of one that ended by itself.
    last: Option<Value>,
    ended: bool,
}

impl Inbox {
    /// Takes a line.
    pub fn take(&self, line: &Value) {
        let at = Instant::now();
        let mut state = self.lock();
        if line["ready"] == true {
            state.ready = true;
        } else if line["summary"] == true || !line["exit"].is_null() || !line["fatal"].is_null() {
            state.last = Some(line.clone());
        } else if line["ok"] == false {
            state.failed += 1;
        } else {
            let payload = line["payload"].as_str().unwrap_or_else(|| panic!("no payload in {line}"));
            let payload = BASE64_STANDARD.decode(payload).unwrap();
            // What our command line calls `id` is that of the command in the lines of the Java client.
            let id = line["messageId"].as_i64().or_else(|| line["id"].as_i64());
            let id = id.unwrap_or_else(|| panic!("no id of a message in {line}"));
            let attribute = line["attribute"].as_str().map(str::to_owned);
            state.deliveries.push(Delivery { at, place: Place::of(line), id, attribute, payload });
        }
        self.changed.notify_all();
    }

    /// What feeds the inbox with lines of text; the inbox knows that nothing follows when it is dropped.
    pub fn feeder(self: &Arc<Self>) -> Box<dyn FnMut(String) + Send> {
        let feeder = Feeder(Arc::clone(self));
        Box::new(move |line| {
            let line = serde_json::from_str(&line).unwrap_or_else(|error| panic!("'{line}': {error}"));
            feeder.0.take(&line);
        })
    }

    /// Nothing follows.
    pub fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_all();
    }

    /// All deliveries until now.
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.lock().deliveries.clone()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lock().deliveries.len()
    }

    /// How many were failed on purpose.
    pub fn failed(&self) -> usize {
        self.lock().failed
    }

    /// The last line of a member that ended by itself.
    pub fn last(&self) -> Option<Value> {
        self.lock().last.clone()
    }

    /// Waits until the member has subscribed.
    pub fn await_ready(&self, name: &str) {
        self.wait(name, "subscribed", |state| state.ready || state.ended);
        let state = self.lock();
        assert!(state.ready, "{name} ended before it had subscribed: {:?}", state.last);
    }

    /// Waits until every line of a member that has ended was taken.
    pub fn await_end(&self, name: &str) {
        self.wait(name, "ended", |state| state.ended);
    }

    fn wait(&self, name: &str, what: &str, is_so: impl Fn(&State) -> bool) {
        let started = Instant::now();
        let mut state = self.lock();
        while !is_so(&state) {
            assert!(started.elapsed() < super::GROUP_DEADLINE, "{name} has not {what}");
            let (next, _) = self.changed.wait_timeout(state, Duration::from_millis(100)).unwrap();
            state = next;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Feeder(Arc<Inbox>);

impl Drop for Feeder {
    fn drop(&mut self) {
        self.0.end();
    }
}
