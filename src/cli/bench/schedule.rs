//! When a run is measured and when it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long answers that are owed are waited for after an interruption.
const GRACE: Duration = Duration::from_secs(1);

/// The user's wish to end the run early; clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long a run takes, as it was asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Length {
    /// Load before the first measured command.
    pub(super) warm_up: Duration,
    /// `None` for as long as the count takes.
    pub(super) time: Option<Duration>,
    /// Commands to measure, of each connection; `None` for as many as there is time for.
    pub(super) count: Option<u64>,
}

impl Length {
    /// The run begins now.
    pub(super) fn begin(&self, interrupt: Interrupt) -> Schedule {
        let begun = Instant::now();
        let measured_from = begun + self.warm_up;
        let ends = self.time.map(|time| measured_from + time);
        Schedule { begun, measured_from, ends, count: self.count, interrupt }
    }
}

/// A run under way.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    /// The begin of the warm-up.
    pub(super) begun: Instant,
    /// What is sent from here on is measured.
    pub(super) measured_from: Instant,
    ends: Option<Instant>,
    count: Option<u64>,
    interrupt: Interrupt,
}

impl Schedule {
    pub(super) fn is_measured(&self, sent_at: Instant) -> bool {
        sent_at >= self.measured_from
    }

    /// How many commands one connection may still send, `sent` measured ones after the begin.
    pub(super) fn left(&self, now: Instant, sent: u64) -> u64 {
        if self.interrupt.is_set() || self.ends.is_some_and(|end| now >= end) {
            return 0;
        }
        match self.count {
            Some(count) if self.is_measured(now) => count.saturating_sub(sent),
            _ => u64::MAX,
        }
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupt.is_set()
    }

    /// For whoever waits for what is owed.
    pub(super) fn patience(&self) -> Patience<'_> {
        Patience { interrupt: &self.interrupt, interrupted: None }
    }
}

/// Ends some time after an interruption.
#[derive(Debug)]
pub(super) struct Patience<'a> {
    interrupt: &'a Interrupt,
    interrupted: Option<Instant>,
}

impl Patience<'_> {
    pub(super) fn is_over(&mut self) -> bool {
        self.interrupt.is_set() && self.interrupted.get_or_insert_with(Instant::now).elapsed() >= GRACE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_begins_behind_the_warm_up() {
        let minute = Duration::from_secs(60);
        let run = Length { warm_up: minute, time: None, count: Some(5) }.begin(Interrupt::default());
        assert_eq!(run.left(run.begun, 0), u64::MAX);
        assert_eq!(run.left(run.begun + minute, 2), 3);
        assert_eq!(run.left(run.begun + minute, 6), 0);
        assert!(!run.is_measured(run.begun) && run.is_measured(run.begun + minute));
    }

    #[test]
    fn a_run_ends_by_its_time_or_by_an_interruption() {
        let (second, interrupt) = (Duration::from_secs(1), Interrupt::default());
        let run = Length { warm_up: second, time: Some(second), count: None }.begin(interrupt.clone());
        assert_eq!((run.left(run.begun + second, 9), run.left(run.begun + 2 * second, 9)), (u64::MAX, 0));
        assert!(!run.patience().is_over());
        interrupt.set();
        assert_eq!(run.left(run.begun, 0), 0);
    }
}
