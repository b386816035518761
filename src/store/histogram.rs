//! Durations counted in fixed buckets, cheap enough for every group of messages and readable at any time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets in nanoseconds, each included; what takes longer counts in one more.
const BOUNDS_NS: [u64; 17] = [
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// Buckets of durations from 50 µs to 10 s, filled by any number of threads without a lock.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS_NS.len() + 1],
    sum_ns: AtomicU64,
}

/// What a [`Histogram`] held at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct HistogramSnapshot {
    /// Upper bound in seconds of each bucket but the last, and how many durations were at most that long.
    pub cumulative: Vec<(f64, u64)>,
    /// How many there were in all.
    pub count: u64,
    /// How long they were together, in seconds.
    pub sum_seconds: f64,
}

impl Histogram {
    /// Counts a duration.
    pub fn record(&self, took: Duration) {
        self.record_many(took, 1);
    }

    /// Counts the same duration `count` times: it is that of a group.
    pub fn record_many(&self, took: Duration, count: u64) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_NS.partition_point(|&bound| bound < ns);
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.fetch_add(count, Ordering::Relaxed);
        }
        self.sum_ns.fetch_add(ns.saturating_mul(count), Ordering::Relaxed);
    }

    /// What it holds. The count is that of the buckets; the sum may be ahead of it or behind by what is being recorded.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut count = 0;
        let counts = self.buckets.each_ref().map(|bucket| {
            count += bucket.load(Ordering::Relaxed);
            count
        });
        let bounds = BOUNDS_NS.iter().map(|&ns| Duration::from_nanos(ns).as_secs_f64());
        let sum_seconds = Duration::from_nanos(self.sum_ns.load(Ordering::Relaxed)).as_secs_f64();
        HistogramSnapshot { cumulative: bounds.zip(counts).collect(), count, sum_seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_duration_counts_from_its_bound_on() {
        let histogram = Histogram::default();
        histogram.record(Duration::from_micros(50));
        histogram.record(Duration::from_nanos(50_001));
        histogram.record_many(Duration::from_millis(3), 5);
        histogram.record(Duration::from_secs(11));
        let snapshot = histogram.snapshot();
        let at = |bound: f64| snapshot.cumulative.iter().find(|(b, _)| *b == bound).unwrap().1;
        assert_eq!([at(0.00005), at(0.0001), at(0.0025), at(0.005), at(10.0)], [1, 2, 2, 7, 7]);
        assert_eq!(snapshot.count, 8);
        assert!((snapshot.sum_seconds - 11.015_100_001).abs() < 1e-9, "{}", snapshot.sum_seconds);
    }

    #[test]
    fn bounds_ascend() {
        assert!(BOUNDS_NS.is_sorted_by(|a, b| a < b));
    }
}
