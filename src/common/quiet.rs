//! Log lines that may come in floods.

use std::time::{Duration, Instant};

/// Lets one event in a period through and counts the rest.
#[derive(Debug)]
pub(crate) struct Quiet {
    period: Duration,
    last: Option<Instant>,
    count: u64,
}

impl Quiet {
    pub(crate) fn new(period: Duration) -> Self {
        Self { period, last: None, count: 0 }
    }

    /// Notes an event. Returns how many there were since the last one that was let through, this one included, if this
    /// one should be logged.
    pub(crate) fn count(&mut self) -> Option<u64> {
        self.count += 1;
        if self.last.is_some_and(|last| last.elapsed() < self.period) {
            return None;
        }
        self.last = Some(Instant::now());
        Some(std::mem::take(&mut self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_flood_is_let_through_and_the_rest_is_counted() {
        let mut quiet = Quiet::new(Duration::from_secs(3600));
        assert_eq!([quiet.count(), quiet.count(), quiet.count()], [Some(1), None, None]);
        quiet.last = None;
        assert_eq!(quiet.count(), Some(3));
    }
}
