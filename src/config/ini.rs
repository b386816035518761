//! The text of `server.ini` as the reference's parser (ini4j) reads it (03 §1).
//!
//! The grammar of a single option line is that of the crate rust-ini, without its quotes and escapes. Lines, comments,
//! continuations, sections, escapes and merging are ours, because there the two disagree in ways that silently lose
//! a setting: indented comments, lines without an operator, sections and keys that occur twice, text that is not UTF-8.
//!
//! One quirk of the reference is left out: `[topic=a/b]` does not create a section `topic=a`.

mod escape;
mod lines;

use std::collections::HashMap;

use self::escape::unescape;
use self::lines::{LogicalLine, logical_lines, trim};

pub(super) use self::escape::escape;

/// A line is quoted in an error up to this many characters.
const MAX_QUOTED_CHARS: usize = 200;

/// A line that cannot be read, in the words of the reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("parse error (at line: {line}): {text}")]
pub struct IniError {
    /// Line from 1; of a continued line the first.
    pub line: usize,
    /// The line without blanks around it, shortened if it is very long.
    pub text: String,
}

/// One option with its effective value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IniOption {
    /// The name, never empty.
    pub key: String,
    /// The last value given, without blanks around it; may be empty.
    pub value: String,
    /// Line of that value, from 1.
    pub line: usize,
}

/// All options of the sections with one name, in the order of their first appearance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    name: String,
    line: usize,
    options: Vec<IniOption>,
    index: HashMap<String, usize>,
}

impl Section {
    fn new(name: String, line: usize) -> Self {
        Self { name, line, options: Vec::new(), index: HashMap::new() }
    }

    /// The name between the brackets, never empty.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Line of its first header, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Its options in the order of their first appearance.
    pub fn options(&self) -> &[IniOption] {
        &self.options
    }

    /// The option of that name.
    pub fn get(&self, key: &str) -> Option<&IniOption> {
        self.index.get(key).and_then(|&i| self.options.get(i))
    }

    fn set(&mut self, option: IniOption) {
        match self.index.get(&option.key).and_then(|&i| self.options.get_mut(i)) {
            Some(present) => *present = option,
            None => {
                self.index.insert(option.key.clone(), self.options.len());
                self.options.push(option);
            }
        }
    }
}

/// The sections of a file, merged by name, in the order of their first appearance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IniFile {
    sections: Vec<Section>,
    index: HashMap<String, usize>,
}

/// Where the next option goes.
enum Current {
    /// Before the first section: nowhere, an error.
    Nothing,
    /// Below a header that could not be read: nowhere, and that error is enough.
    Unreadable,
    /// Into the section with this index.
    Section(usize),
}

impl IniFile {
    /// Reads a file; on any unreadable line the errors of all of them.
    ///
    /// A byte order mark is skipped; what is not UTF-8 becomes replacement characters, which harms only what it
    /// stands in.
    pub fn parse(bytes: &[u8]) -> Result<Self, Vec<IniError>> {
        match Self::parse_readable(bytes) {
            (file, errors) if errors.is_empty() => Ok(file),
            (_, errors) => Err(errors),
        }
    }

    /// What can be read, and an error for each line that cannot.
    pub fn parse_readable(bytes: &[u8]) -> (Self, Vec<IniError>) {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let text = String::from_utf8_lossy(bytes);
        let mut file = Self::default();
        let mut errors = Vec::new();
        let mut current = Current::Nothing;
        for line in logical_lines(&text) {
            if let Some(rest) = line.text.strip_prefix('[') {
                current = match section_name(rest).filter(|_| line.complete) {
                    Some(name) => Current::Section(file.section_index(name, line.number)),
                    None => {
                        errors.push(unreadable(&line));
                        Current::Unreadable
                    }
                };
                continue;
            }
            match (option(&line).filter(|_| line.complete), &current) {
                (Some(option), Current::Section(i)) => {
                    if let Some(section) = file.sections.get_mut(*i) {
                        section.set(option);
                    }
                }
                (Some(_), Current::Unreadable) => {}
                (Some(_), Current::Nothing) | (None, _) => errors.push(unreadable(&line)),
            }
        }
        (file, errors)
    }

    /// The sections in the order of their first appearance.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The section of that name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.index.get(name).and_then(|&i| self.sections.get(i))
    }

    fn section_index(&mut self, name: String, line: usize) -> usize {
        if let Some(&i) = self.index.get(&name) {
            return i;
        }
        let i = self.sections.len();
        self.index.insert(name.clone(), i);
        self.sections.push(Section::new(name, line));
        i
    }
}

/// The name in `name]`.
fn section_name(rest: &str) -> Option<String> {
    let name = unescape(trim(rest.strip_suffix(']')?))?;
    (!name.is_empty()).then_some(name)
}

/// Splits a line into name and value.
fn option(line: &LogicalLine) -> Option<IniOption> {
    let grammar = ::ini::ParseOption { enabled_quote: false, enabled_escape: false, ..Default::default() };
    let parsed = ::ini::Ini::load_from_str_opt(&line.text, grammar).ok()?;
    let (key, value) = parsed.general_section().iter().next()?;
    let key = trim(&unescape(key)?).to_owned();
    let value = trim(&unescape(value)?).to_owned();
    (!key.is_empty()).then_some(IniOption { key, value, line: line.number })
}

fn unreadable(line: &LogicalLine) -> IniError {
    let mut text: String = line.text.chars().take(MAX_QUOTED_CHARS).collect();
    if text.len() < line.text.len() {
        text.push('…');
    }
    IniError { line: line.number, text }
}

#[cfg(test)]
mod tests;
