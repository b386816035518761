//! From the text to a schedule.

use std::collections::BTreeSet;

use super::super::reader::shortened;
use super::error::{CronField, CronProblem, InvalidCron};
use super::schedule::{Days, Schedule};

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// Most days before the last one of a month.
const MOST_DAYS_BEFORE_LAST: i16 = 30;

pub(super) fn parse(text: &str) -> Result<Schedule, InvalidCron> {
    let text = text.to_ascii_uppercase();
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let (&[second, minute, hour, day_of_month, month, day_of_week], year) = match fields.split_first_chunk() {
        Some((first, [])) => (first, "*"),
        Some((first, [year])) => (first, *year),
        Some(_) => return Err(InvalidCron::TooManyFields(fields.len())),
        None => {
            // What is wrong with a field tells more than that the last ones are missing.
            for (&text, field) in fields.iter().zip(CronField::ALL) {
                read(field, text)?;
            }
            return Err(InvalidCron::TooFewFields(fields.len()));
        }
    };
    let [seconds, minutes, hours] =
        [values(CronField::Second, second)?, values(CronField::Minute, minute)?, values(CronField::Hour, hour)?];
    let days = read(CronField::DayOfMonth, day_of_month)?;
    let months = values(CronField::Month, month)?;
    let weekdays = read(CronField::DayOfWeek, day_of_week)?;
    let years = read(CronField::Year, year)?.values;
    let days = match (days.is_open, weekdays.is_open) {
        (true, true) => return Err(InvalidCron::NoDay),
        (false, false) => return Err(InvalidCron::BothDays),
        (false, true) => days.days_of_month(),
        (true, false) => weekdays.days_of_week(),
    };
    Ok(Schedule { seconds, minutes, hours, days, months, years })
}

/// The values of a field that has nothing but values.
fn values(field: CronField, text: &str) -> Result<BTreeSet<i8>, InvalidCron> {
    Ok(small(&read(field, text)?.values))
}

/// Values of any field but the year.
fn small(values: &BTreeSet<i16>) -> BTreeSet<i8> {
    values.iter().filter_map(|&value| i8::try_from(value).ok()).collect()
}

fn read(field: CronField, text: &str) -> Result<Content, InvalidCron> {
    let content = Content::read(field, text);
    content.map_err(|problem| InvalidCron::Field { field, text: shortened(text), problem })
}

/// What a field says.
#[derive(Debug, Default)]
struct Content {
    values: BTreeSet<i16>,
    /// `?`
    is_open: bool,
    /// `L` in the day of the month, with the days before it.
    before_last: Option<i8>,
    /// `W`
    nearest_weekday: bool,
    /// `#3`
    nth: Option<i8>,
    /// `6L`
    last_of_week: bool,
}

impl Content {
    fn read(field: CronField, text: &str) -> Result<Self, CronProblem> {
        let mut content = Self::default();
        if text == "?" && matches!(field, CronField::DayOfMonth | CronField::DayOfWeek) {
            content.is_open = true;
            return Ok(content);
        }
        // Quartz ignores empty items.
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let mut cursor = Cursor { field, rest: item };
            content.item(&mut cursor)?;
            if let Some(left) = cursor.peek() {
                return Err(CronProblem::Character(left));
            }
        }
        let is_list = text.contains(',');
        match field {
            CronField::DayOfMonth if is_list && content.before_last.is_some() => Err(CronProblem::LastDayInList),
            CronField::DayOfWeek if is_list && text.contains('L') => Err(CronProblem::LastWeekdayInList),
            _ if content.values.is_empty() && content.before_last.is_none() => Err(CronProblem::End),
            _ => Ok(content),
        }
    }

    fn item(&mut self, cursor: &mut Cursor<'_>) -> Result<(), CronProblem> {
        let field = cursor.field;
        match cursor.peek() {
            Some('?') => Err(CronProblem::Question),
            Some('*' | '/') => {
                cursor.take('*');
                let step = if cursor.take('/') { cursor.step()? } else { 1 };
                self.add(field, field.bounds().0, Some(field.bounds().1), step.max(1))
            }
            Some('L') => self.last(cursor),
            Some('A'..='Z') => self.named(cursor),
            Some('0'..='9') => self.numbered(cursor),
            Some(other) => Err(CronProblem::Character(other)),
            None => Err(CronProblem::End),
        }
    }

    /// `L`, `L-3`, `LW`, `L-3W` of the month; `L` of the week is Saturday.
    fn last(&mut self, cursor: &mut Cursor<'_>) -> Result<(), CronProblem> {
        cursor.take('L');
        match cursor.field {
            CronField::DayOfWeek => self.add(CronField::DayOfWeek, 7, None, 0),
            CronField::DayOfMonth => {
                let days = if cursor.take('-') { cursor.number()? } else { 0 };
                let days = i8::try_from(days).ok().filter(|_| days <= MOST_DAYS_BEFORE_LAST);
                self.before_last = Some(days.ok_or(CronProblem::Offset)?);
                self.nearest_weekday = cursor.take('W');
                Ok(())
            }
            _ => Err(CronProblem::Option('L')),
        }
    }

    /// `FRI`, `FRI-MON`, `FRI#3`, `FRIL`, and the same without `#` and `L` for months.
    fn named(&mut self, cursor: &mut Cursor<'_>) -> Result<(), CronProblem> {
        let first = cursor.name()?;
        if cursor.take('-') {
            let last = cursor.name()?;
            self.add(cursor.field, first, Some(last), 1)?;
        } else {
            self.add(cursor.field, first, None, 0)?;
            self.day_option(cursor)?;
        }
        if cursor.peek() == Some('/') { Err(CronProblem::StepOfName) } else { Ok(()) }
    }

    /// `5`, `5/15`, `5-10`, `5-10/2`, `15W`, `6L`, `6#3`.
    fn numbered(&mut self, cursor: &mut Cursor<'_>) -> Result<(), CronProblem> {
        let field = cursor.field;
        let first = cursor.number()?;
        if cursor.take('-') {
            let last = cursor.number()?;
            // Quartz checks no step of a range: one that is too long leaves its beginning.
            let step = if cursor.take('/') { cursor.number()? } else { 1 };
            self.add(field, first, Some(last), step)
        } else if cursor.take('/') {
            let step = cursor.step()?;
            let last = (step > 0).then_some(field.bounds().1);
            self.add(field, first, last, step)
        } else {
            self.add(field, first, None, 0)?;
            self.day_option(cursor)
        }
    }

    /// What may stand behind a single day.
    fn day_option(&mut self, cursor: &mut Cursor<'_>) -> Result<(), CronProblem> {
        match (cursor.field, cursor.peek()) {
            (CronField::DayOfMonth, Some('W')) => self.nearest_weekday = cursor.take('W'),
            (CronField::DayOfWeek, Some('L')) => self.last_of_week = cursor.take('L'),
            (CronField::DayOfWeek, Some('#')) => {
                cursor.take('#');
                let nth = cursor.number().ok().and_then(|nth| i8::try_from(nth).ok());
                let nth = nth.filter(|nth| (1..=5).contains(nth)).ok_or(CronProblem::Nth)?;
                if self.nth.replace(nth).is_some() {
                    return Err(CronProblem::TwoNths);
                }
            }
            (_, Some(option @ ('L' | 'W' | '#'))) => return Err(CronProblem::Option(option)),
            _ => {}
        }
        Ok(())
    }

    /// Adds a value, or those from one to another; a range that ends before it begins goes on from the least value.
    fn add(&mut self, field: CronField, first: i16, last: Option<i16>, step: i16) -> Result<(), CronProblem> {
        let (least, greatest) = field.bounds();
        if !(least..=greatest).contains(&first) || last.is_some_and(|last| last > greatest) {
            return Err(CronProblem::OutOfRange(field));
        }
        let Some(last) = last.filter(|_| step > 0) else {
            self.values.insert(first);
            return Ok(());
        };
        let round = greatest - least + 1;
        let unwrapped = match field {
            _ if last >= first => last,
            CronField::Year => return Err(CronProblem::YearsBackwards),
            _ => last + round,
        };
        let wrap = |value: i16| if value > greatest { value - round } else { value };
        self.values.extend((first..=unwrapped).step_by(usize::try_from(step).unwrap_or(1)).map(wrap));
        Ok(())
    }

    fn smallest(&self) -> i8 {
        small(&self.values).first().copied().unwrap_or_default()
    }

    fn days_of_month(self) -> Days {
        match self.before_last {
            Some(days) if self.nearest_weekday => Days::WeekdayBeforeLast(days),
            Some(days) => Days::BeforeLast(days),
            None if self.nearest_weekday => Days::NearestWeekday(self.smallest()),
            None => Days::OfMonth(small(&self.values)),
        }
    }

    fn days_of_week(self) -> Days {
        match self.nth {
            _ if self.last_of_week => Days::LastOfWeek(self.smallest()),
            Some(nth) => Days::NthOfWeek { day: self.smallest(), nth },
            None => Days::OfWeek(small(&self.values)),
        }
    }
}

/// What is left of an item.
#[derive(Debug)]
struct Cursor<'a> {
    field: CronField,
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self, expected: char) -> bool {
        let rest = self.rest.strip_prefix(expected);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn split(&mut self, at: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(at).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    /// A number; one that is too large for any field stays too large.
    fn number(&mut self) -> Result<i16, CronProblem> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        if end == 0 {
            return Err(self.peek().map_or(CronProblem::End, CronProblem::Character));
        }
        Ok(self.split(end).parse().unwrap_or(i16::MAX))
    }

    /// The number behind a `/`.
    fn step(&mut self) -> Result<i16, CronProblem> {
        if !self.peek().is_some_and(|c| c.is_ascii_digit()) {
            return Err(CronProblem::NoStep);
        }
        let step = self.number()?;
        if step > self.field.greatest_step() {
            return Err(CronProblem::Step { field: self.field, given: step });
        }
        Ok(step)
    }

    /// The value of three letters.
    fn name(&mut self) -> Result<i16, CronProblem> {
        let names: &[&str] = match self.field {
            CronField::Month => &MONTHS,
            CronField::DayOfWeek => &WEEKDAYS,
            _ => &[],
        };
        let name = self.split(3);
        let position = names.iter().position(|&known| known == name).and_then(|position| i16::try_from(position).ok());
        position.map(|position| position + 1).ok_or_else(|| CronProblem::Name(self.field, shortened(name)))
    }
}
