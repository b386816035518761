//! Typed access to the options of one section; what is wrong is noted and reading goes on with a stand-in.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use super::error::Problems;
use super::expr;
use super::ini::{IniOption, Section};
use super::keys::nearest;

/// Every int of the reference.
pub(super) const INT: RangeInclusive<i64> = i32::MIN as i64..=i32::MAX as i64;

/// Every int of the reference above zero.
pub(super) const POSITIVE_INT: RangeInclusive<i64> = 1..=i32::MAX as i64;

/// One section and where its problems go.
pub(super) struct Reader<'a> {
    section: &'a Section,
    problems: &'a mut Problems,
}

impl<'a> Reader<'a> {
    pub(super) fn new(section: &'a Section, problems: &'a mut Problems) -> Self {
        Self { section, problems }
    }

    /// Refuses keys that are neither known nor ignored, and warns of ignored ones.
    pub(super) fn check_keys(&mut self, known: &[&str], ignored: &[&str], exempt: impl Fn(&str) -> bool) {
        for IniOption { key, line, .. } in self.section.options() {
            let key = key.as_str();
            if known.contains(&key) || exempt(key) {
                continue;
            }
            if ignored.contains(&key) {
                self.problems.warn(*line, self.section.name(), format!("{key} is accepted and ignored"));
                continue;
            }
            self.problems.error_with(*line, Some(self.section.name()), || {
                let best = nearest(key, known.iter().chain(ignored).copied());
                format!("Invalid config key:{},do you mean '{best}'?", shortened(key))
            });
        }
    }

    /// The option, unless it is absent or blank, which is the same.
    pub(super) fn option(&self, key: &str) -> Option<&'a IniOption> {
        self.section.get(key).filter(|option| !option.value.trim().is_empty())
    }

    /// A path, which the operating system must be able to take.
    pub(super) fn path(&mut self, key: &str) -> Option<PathBuf> {
        let option = self.option(key)?;
        if option.value.contains('\0') {
            self.error(option, format!("{key} contains a NUL character, which no path can have"));
            return None;
        }
        Some(PathBuf::from(&option.value))
    }

    /// An integer expression whose value must lie in the range.
    pub(super) fn int<T: TryFrom<i64>>(&mut self, key: &str, range: RangeInclusive<i64>) -> Option<T> {
        let option = self.option(key)?;
        let value = match expr::evaluate(&option.value) {
            Ok(value) => value,
            Err(error) => {
                self.error(option, format!("{key}={}: {error}", shortened(&option.value)));
                return None;
            }
        };
        match T::try_from(value) {
            Ok(typed) if range.contains(&value) => Some(typed),
            _ => {
                let (min, max) = range.into_inner();
                self.error(option, format!("{key}={value} is out of range, the least is {min}, the most {max}"));
                None
            }
        }
    }

    /// As [`Reader::int`], but the key must be there.
    pub(super) fn required_int<T: TryFrom<i64>>(&mut self, key: &str, range: RangeInclusive<i64>) -> Option<T> {
        self.require(key);
        self.int(key, range)
    }

    /// Notes an error if the key is absent or blank.
    pub(super) fn require(&mut self, key: &str) {
        if self.option(key).is_none() {
            let message = format!("Blank value for {key}");
            let line = self.section.get(key).map_or(self.section.line(), |option| option.line);
            self.problems.missing(Some(line), Some(self.section.name()), message);
        }
    }

    /// `true` or `false`.
    pub(super) fn bool(&mut self, key: &str) -> Option<bool> {
        let option = self.option(key)?;
        let value = expr::boolean(&option.value);
        if value.is_none() {
            self.error(option, format!("{key}={}: write true or false", shortened(&option.value)));
        }
        value
    }

    /// A value that parses itself.
    pub(super) fn parse<T, E: Display>(&mut self, key: &str, parse: impl FnOnce(&str) -> Result<T, E>) -> Option<T> {
        let option = self.option(key)?;
        match parse(&option.value) {
            Ok(value) => Some(value),
            Err(error) => {
                self.error(option, error.to_string());
                None
            }
        }
    }

    /// A value that parses itself and whose errors name neither key nor value.
    pub(super) fn quoted<T: FromStr<Err: Display>>(&mut self, key: &str) -> Option<T> {
        self.parse(key, |text| text.parse().map_err(|error: T::Err| format!("{key}={}: {error}", shortened(text))))
    }

    /// Notes an error at an option.
    pub(super) fn error(&mut self, option: &IniOption, message: String) {
        self.problems.error(option.line, Some(self.section.name()), message);
    }

    /// Notes a warning at an option.
    pub(super) fn warn(&mut self, option: &IniOption, message: String) {
        self.problems.warn(option.line, self.section.name(), message);
    }
}

/// A value as it is quoted in a message.
pub(super) fn shortened(value: &str) -> String {
    const MAX_CHARS: usize = 80;
    let mut text: String = value.chars().take(MAX_CHARS).collect();
    if text.len() < value.len() {
        text.push('…');
    }
    text
}
