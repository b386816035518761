//! Realtime statistics: events and amounts since the last reset, for topics that ask for them (01 §10.5, 03 §12).

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::common::guard::lock;

/// The counters start over by themselves after this time.
const RESET_PERIOD: Duration = Duration::from_secs(30 * 60);

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Put,
    Get,
    Offset,
    GetMiss,
    PutFailed,
    MessageSize,
}

impl Kind {
    /// Every kind in the order of the answer.
    pub(super) const ALL: [Self; 6] =
        [Self::Put, Self::Get, Self::Offset, Self::GetMiss, Self::PutFailed, Self::MessageSize];

    /// The word behind `realtime_` and `topic_realtime_`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Offset => "offset",
            Self::GetMiss => "get_miss",
            Self::PutFailed => "put_failed",
            Self::MessageSize => "message_size",
        }
    }
}

/// The counters of all kinds and topics.
#[derive(Debug)]
pub(super) struct Realtime(Mutex<State>);

#[derive(Debug)]
struct State {
    since: Instant,
    /// A kind that never counted anything is absent, also after a reset.
    kinds: [Option<HashMap<String, Sum>>; Kind::ALL.len()],
}

#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    count: u64,
    value: u64,
}

impl Realtime {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State { since: Instant::now(), kinds: Default::default() }))
    }

    /// Counts one event of an amount.
    pub(super) fn add(&self, kind: Kind, topic: &str, amount: u64) {
        self.add_many(kind, topic, 1, amount);
    }

    /// Counts several events of an amount together.
    pub(super) fn add_many(&self, kind: Kind, topic: &str, count: u64, amount: u64) {
        let mut state = self.lock();
        let Some(topics) = state.kinds.get_mut(kind as usize) else { return };
        let topics = topics.get_or_insert_with(HashMap::new);
        let sum = match topics.get_mut(topic) {
            Some(sum) => sum,
            None => topics.entry(topic.to_owned()).or_default(),
        };
        sum.count += count;
        sum.value += amount;
    }

    /// Starts over.
    pub(super) fn reset(&self) {
        self.lock().reset();
    }

    /// The text for a kind over all topics.
    pub(super) fn total(&self, kind: Kind) -> String {
        let state = self.lock();
        match state.topics(kind) {
            None => "null".to_owned(),
            Some(topics) => {
                let add = |a: Sum, b: &Sum| Sum { count: a.count + b.count, value: a.value + b.value };
                state.text(topics.values().fold(Sum::default(), add))
            }
        }
    }

    /// The text for a kind and one topic.
    pub(super) fn of_topic(&self, kind: Kind, topic: &str) -> String {
        let state = self.lock();
        match state.topics(kind) {
            None => "null".to_owned(),
            Some(topics) => match topics.get(topic) {
                Some(sum) => state.text(*sum),
                None => format!("Invalid keyTwo:{topic}"),
            },
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = lock(&self.0);
        if state.since.elapsed() >= RESET_PERIOD {
            state.reset();
        }
        state
    }
}

impl State {
    fn reset(&mut self) {
        self.since = Instant::now();
        self.kinds.iter_mut().flatten().flat_map(HashMap::values_mut).for_each(|sum| *sum = Sum::default());
    }

    fn topics(&self, kind: Kind) -> Option<&HashMap<String, Sum>> {
        self.kinds.get(kind as usize)?.as_ref()
    }

    fn text(&self, Sum { count, value }: Sum) -> String {
        let seconds = self.since.elapsed().as_secs();
        let mut text = format!("Count={count},Value={value},Value/Count=");
        // Writing to a text cannot fail.
        let _ = write!(text, "{},Count/Duration={},Duration={seconds}", Ratio(value, count), Ratio(count, seconds));
        text
    }
}

/// A quotient with at most two decimals, rounded half to even; `invalid` for a divisor of zero.
struct Ratio(u64, u64);

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(dividend, divisor) = *self;
        if divisor == 0 {
            return f.write_str("invalid");
        }
        let (dividend, divisor) = (u128::from(dividend) * 100, u128::from(divisor));
        let (quotient, twice) = (dividend / divisor, dividend % divisor * 2);
        let up = twice > divisor || (twice == divisor && quotient % 2 == 1);
        let hundredths = quotient + u128::from(up);
        match (hundredths / 100, hundredths % 100) {
            (whole, 0) => write!(f, "{whole}"),
            (whole, part) if part % 10 == 0 => write!(f, "{whole}.{}", part / 10),
            (whole, part) => write!(f, "{whole}.{part:02}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_at_most_two_decimals_rounded_half_to_even() {
        let ratio = |a, b| Ratio(a, b).to_string();
        assert_eq!(ratio(38, 7), "5.43");
        assert_eq!(ratio(10, 2), "5");
        assert_eq!(ratio(1, 20), "0.05");
        assert_eq!(ratio(1, 2), "0.5");
        assert_eq!(ratio(1_234_567, 1), "1234567");
        assert_eq!(ratio(1, 8), "0.12");
        assert_eq!(ratio(3, 8), "0.38");
        assert_eq!(ratio(1, 0), "invalid");
        assert_eq!(ratio(u64::MAX, 1), u64::MAX.to_string());
    }

    #[test]
    fn a_kind_is_null_before_its_first_event_and_zero_after_a_reset() {
        let realtime = Realtime::new();
        assert_eq!(realtime.total(Kind::Put), "null");
        assert_eq!(realtime.of_topic(Kind::Put, "t"), "null");
        realtime.add(Kind::MessageSize, "t", 38);
        realtime.add(Kind::MessageSize, "u", 2);
        let zero_seconds = "Count/Duration=invalid,Duration=0";
        assert_eq!(realtime.total(Kind::MessageSize), format!("Count=2,Value=40,Value/Count=20,{zero_seconds}"));
        assert_eq!(
            realtime.of_topic(Kind::MessageSize, "t"),
            format!("Count=1,Value=38,Value/Count=38,{zero_seconds}")
        );
        assert_eq!(realtime.of_topic(Kind::MessageSize, "x"), "Invalid keyTwo:x");
        realtime.reset();
        assert_eq!(
            realtime.total(Kind::MessageSize),
            "Count=0,Value=0,Value/Count=invalid,Count/Duration=invalid,Duration=0"
        );
        assert_eq!(realtime.total(Kind::Get), "null");
    }
}
