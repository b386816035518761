//! What can be wrong with a cron expression.

use std::fmt;

use super::{FIRST_YEAR, LAST_YEAR};

/// A field of a cron expression, in the order in which they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CronField {
    /// 0 to 59.
    Second,
    /// 0 to 59.
    Minute,
    /// 0 to 23.
    Hour,
    /// 1 to 31.
    DayOfMonth,
    /// 1 to 12, or JAN to DEC.
    Month,
    /// 1 to 7, or SUN to SAT.
    DayOfWeek,
    /// 1970 to 2299; may be left out.
    Year,
}

impl CronField {
    pub(super) const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::DayOfMonth, Self::Month, Self::DayOfWeek, Self::Year];

    /// The least and the greatest value.
    pub(super) const fn bounds(self) -> (i16, i16) {
        match self {
            Self::Second | Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::DayOfMonth => (1, 31),
            Self::Month => (1, 12),
            Self::DayOfWeek => (1, 7),
            Self::Year => (FIRST_YEAR, LAST_YEAR),
        }
    }

    /// The greatest step behind `*` or a single value.
    pub(super) const fn greatest_step(self) -> i16 {
        match self {
            Self::Year => LAST_YEAR,
            _ => self.bounds().1,
        }
    }

    /// What the reference calls its values.
    const fn values(self) -> &'static str {
        match self {
            Self::Second | Self::Minute => "Minute and Second values",
            Self::Hour => "Hour values",
            Self::DayOfMonth => "Day of month values",
            Self::Month => "Month values",
            Self::DayOfWeek => "Day-of-Week values",
            Self::Year => "Year values",
        }
    }
}

impl fmt::Display for CronField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day of month",
            Self::Month => "month",
            Self::DayOfWeek => "day of week",
            Self::Year => "year",
        })
    }
}

/// Why a text is no cron expression; begins with the text of Quartz where it has a sensible one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCron {
    /// Fewer than six fields.
    #[error(
        "Unexpected end of expression. It has {0} of the fields second, minute, hour, day of month, month and day of week, \
         as in 0 0 6,18 * * ?"
    )]
    TooFewFields(usize),
    /// More than seven fields.
    #[error("the expression has {0} fields: the last one, the seventh, is the year")]
    TooManyFields(usize),
    /// Neither day is left open.
    #[error(
        "Support for specifying both a day-of-week AND a day-of-month parameter is not implemented. Write ? for one of them"
    )]
    BothDays,
    /// Both days are left open.
    #[error("'?' can only be specified for Day-of-Month -OR- Day-of-Week. Write * for one of them")]
    NoDay,
    /// One field is wrong.
    #[error("{problem} (in the field {field}, '{text}')")]
    Field {
        /// Which.
        field: CronField,
        /// Its text, shortened.
        text: String,
        /// What is wrong with it.
        problem: CronProblem,
    },
}

/// What is wrong with a field of a cron expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronProblem {
    /// A value that there is not.
    #[error("{} must be between {} and {}", .0.values(), .0.bounds().0, .0.bounds().1)]
    OutOfRange(CronField),
    /// A step that leads out of the field at once.
    #[error("Increment > {} : {given}", .field.greatest_step())]
    Step {
        /// The field.
        field: CronField,
        /// The step.
        given: i16,
    },
    /// What no value begins with, or what cannot follow it.
    #[error("Unexpected character: {0}")]
    Character(char),
    /// Something is missing.
    #[error("Unexpected end of string.")]
    End,
    /// `/` without a number.
    #[error("'/' must be followed by an integer.")]
    NoStep,
    /// Three letters that are no month or day of the week, or are neither here.
    #[error("Invalid {0} value: '{1}'")]
    Name(CronField, String),
    /// A step behind a name, which Quartz would ignore.
    #[error("a step cannot follow a name: write numbers")]
    StepOfName,
    /// `?` elsewhere than as the whole of a field for days.
    #[error("'?' can only be specified for Day-of-Month or Day-of-Week, and stands alone there.")]
    Question,
    /// `L`, `W` or `#` where it means nothing.
    #[error("'{0}' option is not valid here.")]
    Option(char),
    /// `#` with anything but 1 to 5.
    #[error("A numeric value between 1 and 5 must follow the '#' option")]
    Nth,
    /// Two `#` in a list.
    #[error("Support for specifying multiple \"nth\" days is not implemented.")]
    TwoNths,
    /// `L` in a list of days of the month.
    #[error("Support for specifying 'L' and 'LW' with other days of the month is not implemented")]
    LastDayInList,
    /// `L` in a list of days of the week.
    #[error("Support for specifying 'L' with other days of the week is not implemented")]
    LastWeekdayInList,
    /// `L-n` with more days than a month has.
    #[error("Offset from last day must be <= 30")]
    Offset,
    /// Years that go backwards.
    #[error("Start year must be less than stop year")]
    YearsBackwards,
}
