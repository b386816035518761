//! Quartz cron expressions: when `deleteWhen` is (02 §13, 03 §2).
//!
//! `parse` reads the text, `schedule` knows which local times match; here is what a time zone makes of that.
//!
//! Where clocks are changed, the rule of Quartz holds: a time that is skipped is no time, one that comes twice counts once, the
//! second time.

mod error;
mod parse;
mod schedule;
mod zone;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan as _};

pub use error::{CronField, CronProblem, InvalidCron};
use schedule::Schedule;
pub use zone::{local_text, local_zone, zone_name};

/// The least year that an expression can name.
const FIRST_YEAR: i16 = 1970;

/// The last year that an expression can name, and in which one that names none has a time.
const LAST_YEAR: i16 = 2299;

/// A Quartz cron expression: second, minute, hour, day of month, month, day of week and, if given, year, as
/// `0 0 6,18 * * ?`.
///
/// Read as Quartz 2.3 does, its oddities included: Sunday is 1; exactly one of the days is `?`; a range may wrap around;
/// of a list with `W` or `#` only the smallest day counts; `31W` is also the 30th of a shorter month if that is a Friday.
/// What Quartz silently ignores is refused instead: characters behind a value, steps behind a name, fields behind the year.
///
/// Cheap to clone. Equal by its text.
#[derive(Clone)]
pub struct CronExpression {
    text: Arc<str>,
    schedule: Arc<Schedule>,
}

impl CronExpression {
    /// `0 0 6,18 * * ?`: at six in the morning and in the evening.
    pub(super) fn twice_a_day() -> Self {
        Self { text: "0 0 6,18 * * ?".into(), schedule: Arc::new(Schedule::daily(&[6, 18])) }
    }

    /// The text, as it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The first time after `after` at which it is due by the clocks of `zone`, in whole seconds; `None` if there is
    /// none before the year 2300.
    pub fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let mut from = first_candidate(after, zone)?;
        loop {
            let local = self.schedule.at_or_after(from)?;
            let times = zone.to_ambiguous_timestamp(local);
            let exists = !matches!(times.offset(), AmbiguousOffset::Gap { .. });
            if let Some(time) = times.later().ok().filter(|&time| exists && time > after) {
                return Some(time);
            }
            from = local.checked_add(1.second()).ok()?;
        }
    }

    /// All times after `after`, in ascending order.
    pub fn times_after(&self, after: Timestamp, zone: &TimeZone) -> impl Iterator<Item = Timestamp> + use<> {
        let (cron, zone) = (self.clone(), zone.clone());
        std::iter::successors(self.next_after(after, &zone), move |&time| cron.next_after(time, &zone))
    }
}

/// The first local time that can belong to an instant later than `after`.
fn first_candidate(after: Timestamp, zone: &TimeZone) -> Option<DateTime> {
    let local = zone.to_datetime(after).with().subsec_nanosecond(0).build().ok()?;
    let comes_again = zone.to_ambiguous_timestamp(local).later().is_ok_and(|later| later > after);
    if comes_again && let Some(change) = zone.following(after).next() {
        // Everything since the hour began comes again.
        return Some(zone.to_datetime(change.timestamp()));
    }
    local.checked_add(1.second()).ok()
}

impl FromStr for CronExpression {
    type Err = InvalidCron;

    fn from_str(text: &str) -> Result<Self, InvalidCron> {
        Ok(Self { text: text.into(), schedule: Arc::new(parse::parse(text)?) })
    }
}

impl PartialEq for CronExpression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for CronExpression {}

impl fmt::Display for CronExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for CronExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CronExpression({:?})", self.text)
    }
}

#[cfg(test)]
mod tests;
