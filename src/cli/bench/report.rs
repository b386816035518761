//! What a load saw.

use std::fmt;
use std::time::Duration;

use anyhow::Context as _;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::protocol::ResultResponse;

/// Percentiles that are shown.
const PERCENTILES: [(&str, f64); 5] = [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9), ("max", 100.0)];

/// Three digits of precision are more than a shared machine gives.
const PRECISION: u8 = 3;

/// Counts and latencies.
#[derive(Debug)]
pub(super) struct Report {
    /// Messages for puts, answers for gets.
    unit: &'static str,
    latencies_us: Histogram<u64>,
    bytes: u64,
    refused: u64,
    first_refusal: Option<String>,
    elapsed: Duration,
}

/// The figures of a report.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    unit: &'static str,
    count: u64,
    refused: u64,
    seconds: f64,
    per_second: f64,
    mb_per_second: f64,
    p50_us: u64,
    p90_us: u64,
    p99_us: u64,
    p999_us: u64,
    max_us: u64,
}

impl Report {
    pub(super) fn new(puts: bool) -> anyhow::Result<Self> {
        Ok(Self {
            unit: if puts { "messages" } else { "answers" },
            latencies_us: Histogram::new(PRECISION)?,
            bytes: 0,
            refused: 0,
            first_refusal: None,
            elapsed: Duration::ZERO,
        })
    }

    pub(super) fn count(&mut self, bytes: usize, latency: Duration) -> anyhow::Result<()> {
        self.bytes += bytes as u64;
        self.latencies_us.record(u64::try_from(latency.as_micros())?).context("an absurd latency")
    }

    pub(super) fn refused(&mut self, result: &ResultResponse) {
        self.refused += 1;
        let text = || format!("status {}: {}", result.status, String::from_utf8_lossy(&result.body));
        self.first_refusal.get_or_insert_with(text);
    }

    pub(super) fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        self.latencies_us.add(&other.latencies_us)?;
        self.bytes += other.bytes;
        self.refused += other.refused;
        self.first_refusal = self.first_refusal.take().or_else(|| other.first_refusal.clone());
        Ok(())
    }

    pub(super) fn finish(&mut self, elapsed: Duration) {
        self.elapsed = elapsed;
    }

    /// Whether the broker refused nothing.
    pub(super) fn is_clean(&self) -> bool {
        self.refused == 0
    }

    #[expect(clippy::cast_precision_loss, reason = "rates are shown with three digits")]
    pub(super) fn figures(&self) -> Figures {
        let seconds = self.elapsed.as_secs_f64();
        let count = self.latencies_us.len();
        let at = |percentile| self.latencies_us.value_at_percentile(percentile);
        Figures {
            unit: self.unit,
            count,
            refused: self.refused,
            seconds,
            per_second: count as f64 / seconds,
            mb_per_second: self.bytes as f64 / 1e6 / seconds,
            p50_us: at(50.0),
            p90_us: at(90.0),
            p99_us: at(99.0),
            p999_us: at(99.9),
            max_us: at(100.0),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { unit, count, seconds, per_second, mb_per_second, .. } = self.figures();
        writeln!(f, "{count} {unit} in {seconds:.2} s: {per_second:.0} {unit}/s, {mb_per_second:.1} MB/s")?;
        write!(f, "latency")?;
        for (name, percentile) in PERCENTILES {
            let at = Duration::from_micros(self.latencies_us.value_at_percentile(percentile));
            write!(f, "  {name} {at:.1?}")?;
        }
        if let Some(refusal) = &self.first_refusal {
            write!(f, "\n{} refused, the first with {refusal}", self.refused)?;
        }
        Ok(())
    }
}
