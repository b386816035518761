//! Latencies in buckets that are evenly spaced on a logarithmic scale.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Widest bar.
const BAR_WIDTH: u64 = 40;

/// Where buckets begin below ten microseconds, and in tenths in each decade above.
const FIRST_DECADE: [u64; 5] = [0, 1, 2, 4, 6];
const DECADE: [u64; 5] = [10, 16, 25, 40, 63];

/// How many latencies lie between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Bucket {
    /// Microseconds, included.
    pub(super) from_us: u64,
    /// Microseconds, excluded.
    pub(super) to_us: u64,
    pub(super) count: u64,
}

/// All buckets from the smallest to the largest latency, empty ones between them too.
pub(super) fn buckets(latencies_us: &Histogram<u64>) -> Vec<Bucket> {
    let bounds: Vec<u64> = bounds(latencies_us.max());
    let mut buckets: Vec<Bucket> = bounds
        .windows(2)
        .filter_map(|pair| match *pair {
            [from_us, to_us] => Some(Bucket { from_us, to_us, count: 0 }),
            _ => None,
        })
        .collect();
    for value in latencies_us.iter_recorded() {
        let at = buckets.partition_point(|bucket| bucket.to_us <= value.value_iterated_to());
        // Beyond three digits a value stands for its neighbours, and may lie behind the last bound.
        let at = at.min(buckets.len().saturating_sub(1));
        if let Some(bucket) = buckets.get_mut(at) {
            bucket.count += value.count_at_value();
        }
    }
    let first = buckets.iter().position(|bucket| bucket.count > 0).unwrap_or(buckets.len());
    let last = buckets.iter().rposition(|bucket| bucket.count > 0).map_or(0, |last| last + 1);
    buckets.get(first..last).unwrap_or_default().to_vec()
}

/// Bounds from 0 to the first one beyond `max`.
fn bounds(max: u64) -> Vec<u64> {
    let mut bounds = FIRST_DECADE.to_vec();
    let mut scale = 1_u64;
    while bounds.last().is_none_or(|&last| last <= max) {
        bounds.extend(DECADE.map(|bound| bound.saturating_mul(scale)));
        scale = scale.saturating_mul(10);
        if scale == u64::MAX {
            break;
        }
    }
    bounds
}

/// Buckets as lines of text with bars.
pub(super) struct Bars<'a>(pub(super) &'a [Bucket]);

impl fmt::Display for Bars<'_> {
    #[expect(clippy::cast_precision_loss, reason = "percentages are shown with two digits")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let largest = self.0.iter().map(|bucket| bucket.count).max().unwrap_or(0).max(1);
        let total: u64 = self.0.iter().map(|bucket| bucket.count).sum();
        for bucket in self.0 {
            let percent = bucket.count as f64 * 100.0 / total.max(1) as f64;
            // What is there is seen, however little it is.
            let width = (bucket.count.saturating_mul(BAR_WIDTH) / largest).max(u64::from(bucket.count > 0));
            let bar = "#".repeat(usize::try_from(width).unwrap_or(0));
            let (from, to) = (Microseconds(bucket.from_us).to_string(), Microseconds(bucket.to_us).to_string());
            let line = format!("{from:>8} – {to:<8} {:>10} {percent:>6.2} % {bar}", bucket.count);
            write!(f, "\n{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A time as people write it.
struct Microseconds(u64);

impl fmt::Display for Microseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As short as it can be: bounds have two digits only.
        fmt::Debug::fmt(&Duration::from_micros(self.0), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: &[u64]) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).unwrap();
        values.iter().for_each(|&value| histogram.record(value).unwrap());
        histogram
    }

    #[test]
    fn every_latency_is_in_the_bucket_between_whose_bounds_it_lies() {
        let buckets = buckets(&histogram(&[0, 1, 9, 10, 15, 16, 62, 63]));
        let seen: Vec<_> = buckets.iter().map(|bucket| (bucket.from_us, bucket.to_us, bucket.count)).collect();
        let expected = [
            (0, 1, 1),
            (1, 2, 1),
            (2, 4, 0),
            (4, 6, 0),
            (6, 10, 1),
            (10, 16, 2),
            (16, 25, 1),
            (25, 40, 0),
            (40, 63, 1),
        ];
        assert_eq!(seen, [&expected[..], &[(63, 100, 1)]].concat());
    }

    #[test]
    fn nothing_is_lost_at_any_size() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..50 {
            let values: Vec<u64> = (0..100).map(|_| rng.u64(..) >> rng.u32(2..64)).collect();
            let buckets = buckets(&histogram(&values));
            assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 100, "{values:?}");
            assert!(buckets.windows(2).all(|pair| pair[0].to_us == pair[1].from_us));
            assert!(buckets.first().unwrap().count > 0 && buckets.last().unwrap().count > 0);
        }
        assert_eq!(buckets(&histogram(&[])), []);
    }

    #[test]
    fn bars_show_what_is_there() {
        let bucket = |from_us, to_us, count| Bucket { from_us, to_us, count };
        let text = Bars(&[bucket(630, 1000, 999), bucket(1000, 1600, 0), bucket(1600, 2500, 1)]).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], format!("   630µs – 1ms             999  99.90 % {}", "#".repeat(40)));
        assert_eq!(lines[2], "     1ms – 1.6ms             0   0.00 %");
        assert_eq!(lines[3], "   1.6ms – 2.5ms             1   0.10 % #");
    }
}
