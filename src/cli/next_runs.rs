//! `metaq config next-runs`: when a `deleteWhen` is.

use std::process::ExitCode;
use std::str::FromStr;

use anyhow::Context as _;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::output::{Format, Printer, finish, tell};
use crate::config::{CronExpression, local_text, local_zone, zone_name};

/// Arguments of `metaq config next-runs`.
#[derive(Debug, clap::Args)]
pub(super) struct NextRunsArguments {
    /// A Quartz cron expression, in quotes: second minute hour day-of-month month day-of-week [year]
    #[arg(value_name = "EXPR")]
    expression: CronExpression,
    /// The time to begin after, as 2026-11-30T17:30:00, by the local clock or with an offset (+01:00 or Z) [default: now]
    #[arg(long, value_name = "TIME")]
    after: Option<Instant>,
    /// How many
    #[arg(short = 'n', value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
    /// The form of the output
    #[arg(long, value_enum, default_value_t)]
    output: Format,
}

/// A point in time, as it can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instant {
    Exact(Timestamp),
    /// By the clocks of the local time zone.
    Local(DateTime),
}

impl FromStr for Instant {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let exact = text.parse().map(Self::Exact);
        exact.or_else(|_| text.parse().map(Self::Local)).map_err(
            |_| "write a local time, as 2026-11-30T17:30:00, or one with an offset, as 2026-11-30T17:30:00+01:00 or …Z",
        )
    }
}

impl Instant {
    /// The time in `zone`; one that the clocks skip is as much later.
    fn in_zone(self, zone: &TimeZone) -> anyhow::Result<Timestamp> {
        match self {
            Self::Exact(time) => Ok(time),
            Self::Local(local) => zone.to_timestamp(local).context("--after is beyond the times that there are"),
        }
    }
}

pub(super) fn run(arguments: &NextRunsArguments) -> ExitCode {
    finish(print(arguments), arguments.output)
}

/// Prints the times; whether there is one at all.
fn print(arguments: &NextRunsArguments) -> anyhow::Result<bool> {
    let NextRunsArguments { expression, after, count, output } = arguments;
    let zone = local_zone();
    let now = Timestamp::now();
    let after = after.map_or(Ok(now), |after| after.in_zone(&zone))?;
    let times = expression.times_after(after, &zone).take(usize::try_from(*count)?);
    let mut printer = Printer::new();
    if *output == Format::Text {
        printer.line(format_args!("time zone {}", zone_name(&zone)))?;
    }
    let mut found = 0;
    for time in times {
        found += 1;
        let local = local_text(time, &zone);
        match output {
            Format::Text => printer.line(format_args!("{local}  {}", distance(now.duration_until(time))))?,
            Format::Json => printer.json(&json!({
                "time": local,
                "time_zone": zone_name(&zone),
                "timestamp_ms": time.as_millisecond(),
                "in_seconds": now.duration_until(time).as_secs(),
            }))?,
        }
    }
    if found < *count {
        let text = if found == 0 { "no run" } else { "no run after that" };
        tell(format_args!("{text} before the year 2300"));
    }
    Ok(found > 0)
}

/// `in 2 d 3 h`: a duration in its two largest units.
fn distance(duration: SignedDuration) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let mut left = duration.unsigned_abs().as_secs();
    let parts = UNITS.map(|(seconds, unit)| {
        let count = left / seconds;
        left %= seconds;
        (count, unit)
    });
    let first = parts.iter().position(|&(count, _)| count > 0).unwrap_or(parts.len() - 1);
    let largest = parts.iter().skip(first).take(2).filter(|(count, _)| *count > 0);
    let text = largest.map(|(count, unit)| format!("{count} {unit}")).collect::<Vec<_>>().join(" ");
    match (text.is_empty(), duration.is_negative()) {
        (true, _) => "now".to_owned(),
        (false, true) => format!("{text} ago"),
        (false, false) => format!("in {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_has_its_two_largest_units() {
        let shown = |seconds| distance(SignedDuration::from_secs(seconds));
        assert_eq!(shown(0), "now");
        assert_eq!(shown(59), "in 59 s");
        assert_eq!(shown(3_600), "in 1 h");
        assert_eq!(shown(3_661), "in 1 h 1 min");
        assert_eq!(shown(86_400 * 3 + 5), "in 3 d");
        assert_eq!(shown(-90), "1 min 30 s ago");
    }

    #[test]
    fn a_time_is_local_unless_it_has_an_offset() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let time = |text: &str| text.parse::<Instant>().map(|time| time.in_zone(&zone).unwrap().to_string());
        assert_eq!(time("2026-11-30T17:30:00").unwrap(), "2026-11-30T16:30:00Z");
        assert_eq!(time("2026-11-30 17:30").unwrap(), "2026-11-30T16:30:00Z");
        assert_eq!(time("2026-11-30T17:30:00Z").unwrap(), "2026-11-30T17:30:00Z");
        assert_eq!(time("2026-11-30T17:30:00-05:00").unwrap(), "2026-11-30T22:30:00Z");
        assert!(time("tomorrow").is_err());
    }
}
