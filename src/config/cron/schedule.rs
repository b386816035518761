//! Which local dates and times an expression means.

use std::collections::BTreeSet;

use jiff::civil::{Date, DateTime, Time, Weekday};

use super::{FIRST_YEAR, LAST_YEAR};

/// Values of all fields.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    pub(super) seconds: BTreeSet<i8>,
    pub(super) minutes: BTreeSet<i8>,
    pub(super) hours: BTreeSet<i8>,
    pub(super) days: Days,
    pub(super) months: BTreeSet<i8>,
    pub(super) years: BTreeSet<i16>,
}

/// What decides about the days of a month.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Days {
    /// These days.
    OfMonth(BTreeSet<i8>),
    /// `L`, `L-3`: so many days before the last one.
    BeforeLast(i8),
    /// `LW`, `L-3W`: the weekday nearest to that.
    WeekdayBeforeLast(i8),
    /// `15W`: the weekday nearest to a day.
    NearestWeekday(i8),
    /// These days of the week; 1 is Sunday.
    OfWeek(BTreeSet<i8>),
    /// `6#3`: the third Friday, in months that have one.
    NthOfWeek { day: i8, nth: i8 },
    /// `6L`: the last Friday.
    LastOfWeek(i8),
}

impl Schedule {
    /// Every day at these full hours.
    pub(super) fn daily(hours: &[i8]) -> Self {
        Self {
            seconds: BTreeSet::from([0]),
            minutes: BTreeSet::from([0]),
            hours: hours.iter().copied().collect(),
            days: Days::OfMonth((1..=31).collect()),
            months: (1..=12).collect(),
            years: (FIRST_YEAR..=LAST_YEAR).collect(),
        }
    }

    /// The first local time that matches, from a given one on.
    pub(super) fn at_or_after(&self, from: DateTime) -> Option<DateTime> {
        for &year in self.years.range(from.year()..) {
            for &month in &self.months {
                if (year, month) < (from.year(), from.month()) {
                    continue;
                }
                let first = Date::new(year, month, 1).ok()?;
                for day in self.days.of_month(first) {
                    let date = Date::new(year, month, day).ok()?;
                    let time = match date.cmp(&from.date()) {
                        std::cmp::Ordering::Less => None,
                        std::cmp::Ordering::Equal => self.time_at_or_after(from.time()),
                        std::cmp::Ordering::Greater => self.time_at_or_after(Time::midnight()),
                    };
                    if let Some(time) = time {
                        return Some(date.to_datetime(time));
                    }
                }
            }
        }
        None
    }

    fn time_at_or_after(&self, from: Time) -> Option<Time> {
        for &hour in self.hours.range(from.hour()..) {
            let from = if hour > from.hour() { Time::midnight() } else { from };
            for &minute in self.minutes.range(from.minute()..) {
                let second = if minute > from.minute() { 0 } else { from.second() };
                if let Some(&second) = self.seconds.range(second..).next() {
                    return Time::new(hour, minute, second, 0).ok();
                }
            }
        }
        None
    }
}

impl Days {
    /// The days of the month that begins with `first`, in ascending order.
    pub(super) fn of_month(&self, first: Date) -> Vec<i8> {
        let last = first.days_in_month();
        let weekday = |day: i8| Weekday::from_sunday_one_offset(day).ok();
        let nth = |day, nth| first.nth_weekday_of_month(nth, weekday(day)?).ok().map(Date::day);
        let one = match self {
            Self::OfMonth(days) => return days.range(..=last).copied().collect(),
            Self::OfWeek(days) => {
                let start = first.weekday().to_sunday_zero_offset();
                return (1..=last).filter(|day| days.contains(&((start + day - 1) % 7 + 1))).collect();
            }
            Self::BeforeLast(days) => Some(last - days),
            Self::WeekdayBeforeLast(days) => (*days < last).then(|| nearest_weekday(first, last - days)),
            Self::NearestWeekday(day) => Some(nearest_weekday(first, *day)),
            Self::NthOfWeek { day, nth: number } => nth(*day, *number),
            Self::LastOfWeek(day) => nth(*day, -1),
        };
        one.filter(|day| (1..=last).contains(day)).into_iter().collect()
    }
}

/// The weekday nearest to a day, which may lie behind the end of the month, without leaving the month.
fn nearest_weekday(first: Date, day: i8) -> i8 {
    let start = first.weekday().to_sunday_zero_offset();
    match (start + day - 1) % 7 {
        6 if day == 1 => day + 2,
        6 => day - 1,
        0 if day == first.days_in_month() => day - 2,
        0 => day + 1,
        _ => day,
    }
}
