//! What a load saw.

use std::fmt;
use std::time::Duration;

use anyhow::Context as _;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::histogram::{Bars, Bucket, buckets};
use crate::protocol::ResultResponse;

/// Percentiles that are shown.
const PERCENTILES: [(&str, f64); 5] = [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9), ("max", 100.0)];

/// Three digits of precision are more than a shared machine gives.
const PRECISION: u8 = 3;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    /// From a put to its answer.
    Put,
    /// From a get to its answer.
    Get,
    /// From a put to the consumer that has its message.
    #[serde(rename = "e2e")]
    EndToEnd,
}

impl Mode {
    /// What has a latency.
    fn unit(self) -> &'static str {
        match self {
            Self::Put | Self::EndToEnd => "messages",
            Self::Get => "answers",
        }
    }
}

/// Counts and latencies.
#[derive(Debug)]
pub(super) struct Report {
    mode: Mode,
    latencies_us: Histogram<u64>,
    messages: u64,
    bytes: u64,
    refused: u64,
    first_refusal: Option<String>,
    /// End to end: messages that were accepted and not seen again.
    pub(super) missing: Option<u64>,
    /// End to end: whether the broker holds gets back.
    pub(super) long_poll: Option<bool>,
    elapsed: Duration,
    interrupted: bool,
}

/// The figures of a report.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    mode: Mode,
    unit: &'static str,
    count: u64,
    messages: u64,
    refused: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_refusal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    long_poll: Option<bool>,
    interrupted: bool,
    seconds: f64,
    per_second: f64,
    messages_per_second: f64,
    mb_per_second: f64,
    min_us: u64,
    mean_us: f64,
    p50_us: u64,
    p90_us: u64,
    p99_us: u64,
    p999_us: u64,
    max_us: u64,
    histogram: Vec<Bucket>,
}

impl Report {
    pub(super) fn new(mode: Mode) -> anyhow::Result<Self> {
        Ok(Self {
            mode,
            latencies_us: Histogram::new(PRECISION)?,
            messages: 0,
            bytes: 0,
            refused: 0,
            first_refusal: None,
            missing: None,
            long_poll: None,
            elapsed: Duration::ZERO,
            interrupted: false,
        })
    }

    /// Counts one answer, or one message end to end.
    pub(super) fn count(&mut self, messages: u64, bytes: usize, latency: Duration) -> anyhow::Result<()> {
        self.messages += messages;
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
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.refused += other.refused;
        self.first_refusal = self.first_refusal.take().or_else(|| other.first_refusal.clone());
        Ok(())
    }

    pub(super) fn finish(&mut self, elapsed: Duration, interrupted: bool) {
        self.elapsed = elapsed;
        self.interrupted = interrupted;
    }

    /// Whether there is anything to show.
    pub(super) fn is_empty(&self) -> bool {
        self.latencies_us.is_empty() && self.refused == 0 && self.missing.unwrap_or(0) == 0
    }

    /// Whether the broker refused nothing and nothing is missing.
    pub(super) fn is_clean(&self) -> bool {
        self.refused == 0 && self.missing.unwrap_or(0) == 0
    }

    #[expect(clippy::cast_precision_loss, reason = "rates are shown with three digits")]
    pub(super) fn figures(&self) -> Figures {
        let seconds = self.elapsed.as_secs_f64();
        // Nothing takes no time: a run that was refused as a whole has rates too.
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let count = self.latencies_us.len();
        let at = |percentile| self.latencies_us.value_at_percentile(percentile);
        Figures {
            mode: self.mode,
            unit: self.mode.unit(),
            count,
            messages: self.messages,
            refused: self.refused,
            first_refusal: self.first_refusal.clone(),
            missing: self.missing,
            long_poll: self.long_poll,
            interrupted: self.interrupted,
            seconds,
            per_second: rate(count),
            messages_per_second: rate(self.messages),
            mb_per_second: rate(self.bytes) / 1e6,
            min_us: self.latencies_us.min(),
            mean_us: self.latencies_us.mean(),
            p50_us: at(50.0),
            p90_us: at(90.0),
            p99_us: at(99.0),
            p999_us: at(99.9),
            max_us: at(100.0),
            histogram: buckets(&self.latencies_us),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = self.figures();
        let Figures { unit, count, messages, seconds, per_second, mb_per_second, .. } = figures;
        match self.mode {
            Mode::Get => {
                write!(f, "{count} answers with {messages} messages in {seconds:.2} s: {per_second:.0} answers/s, ")?;
                write!(f, "{:.0} messages/s, ", figures.messages_per_second)?;
            }
            Mode::Put | Mode::EndToEnd => write!(f, "{count} {unit} in {seconds:.2} s: {per_second:.0} {unit}/s, ")?,
        }
        writeln!(f, "{mb_per_second:.1} MB/s{}", if self.interrupted { ", interrupted" } else { "" })?;
        if let Some(long_poll) = self.long_poll {
            let how = if long_poll { "long poll" } else { "polling: the broker does not hold gets back" };
            writeln!(f, "end to end, by {how}")?;
        }
        write!(f, "latency")?;
        for (name, percentile) in PERCENTILES {
            let at = Duration::from_micros(self.latencies_us.value_at_percentile(percentile));
            write!(f, "  {name} {at:.1?}")?;
        }
        write!(f, "  mean {:.1?}", Duration::from_secs_f64(self.latencies_us.mean() / 1e6))?;
        write!(f, "{}", Bars(&figures.histogram))?;
        if let Some(refusal) = &self.first_refusal {
            write!(f, "\n{} refused, the first with {refusal}", self.refused)?;
        }
        if let Some(missing) = self.missing.filter(|&missing| missing > 0) {
            write!(f, "\n{missing} accepted but not seen by the consumer")?;
        }
        Ok(())
    }
}
