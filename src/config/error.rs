//! What can be wrong with a configuration, all of it at once and with lines.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The largest configuration file that is read, in bytes (16 MiB); a real one has a few kilobytes.
pub const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// How many problems, and how many warnings, of one file are kept; the rest is only counted.
pub const MAX_PROBLEMS: usize = 1000;

/// One problem of a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// Line from 1; for a missing key that of its section's header; none if there is no line to point at.
    pub line: Option<usize>,
    /// The section it concerns, if one does.
    pub section: Option<String>,
    /// What is wrong, with the text of the reference where it has one (03 §6).
    pub message: String,
}

/// Something that does not keep the broker from starting but is hardly meant.
pub type Warning = ConfigProblem;

impl ConfigProblem {
    /// `path:line: message`, the form that editors and people know from compilers.
    pub fn located(&self, path: Option<&Path>) -> String {
        let path = path.unwrap_or(Path::new("configuration")).display();
        match self.line {
            Some(line) => format!("{path}:{line}: {}", self.message),
            None => format!("{path}: {}", self.message),
        }
    }
}

/// Everything that is wrong with the content of one file, in the order of its lines.
///
/// Displayed as one problem a line, `path:line: message`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The file, if the text came from one.
    pub path: Option<PathBuf>,
    /// At least one problem, at most [`MAX_PROBLEMS`] and a last one that says how many there are more.
    pub errors: Vec<ConfigProblem>,
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.errors.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&problem.located(self.path.as_deref()))?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Why there is no configuration (03 §6).
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The path is the empty text.
    #[error("Blank file path")]
    BlankPath,
    /// No such file.
    #[error("File {} is not exists", .0.display())]
    NotFound(PathBuf),
    /// The path names a directory.
    #[error("Parse configuration failed,path={}: it is a directory, name the file in it", .0.display())]
    Directory(PathBuf),
    /// More than [`MAX_FILE_BYTES`].
    #[error("Parse configuration failed,path={}: it has more than {MAX_FILE_BYTES} bytes, hence is no configuration", .0.display())]
    TooLarge(PathBuf),
    /// The file cannot be read.
    #[error("Parse configuration failed,path={}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The content is wrong.
    #[error(transparent)]
    Invalid(#[from] ConfigErrors),
}

/// Problems and warnings as they are found.
#[derive(Debug, Default)]
pub(super) struct Problems {
    errors: Vec<ConfigProblem>,
    warnings: Vec<Warning>,
    errors_dropped: usize,
    warnings_dropped: usize,
    /// Lines were unreadable: that something is absent need not be true.
    incomplete: bool,
}

impl Problems {
    /// Notes an error at a line.
    pub(super) fn error(&mut self, line: usize, section: Option<&str>, message: impl Into<String>) {
        self.push_error(Some(line), section, || message.into());
    }

    /// Notes an error at a line; the message is made only if it is kept.
    pub(super) fn error_with(&mut self, line: usize, section: Option<&str>, message: impl FnOnce() -> String) {
        self.push_error(Some(line), section, message);
    }

    /// Notes that something is absent; dropped if it may stand in a line that could not be read.
    pub(super) fn missing(&mut self, line: Option<usize>, section: Option<&str>, message: impl Into<String>) {
        if !self.incomplete {
            self.push_error(line, section, || message.into());
        }
    }

    /// Notes a line that could not be read.
    pub(super) fn unreadable(&mut self, line: usize, message: impl Into<String>) {
        self.incomplete = true;
        self.push_error(Some(line), None, || message.into());
    }

    /// Notes a warning at a line.
    pub(super) fn warn(&mut self, line: usize, section: &str, message: impl Into<String>) {
        if self.warnings.len() < MAX_PROBLEMS {
            let section = Some(section.to_owned());
            self.warnings.push(Warning { line: Some(line), section, message: message.into() });
        } else {
            self.warnings_dropped += 1;
        }
    }

    fn push_error(&mut self, line: Option<usize>, section: Option<&str>, message: impl FnOnce() -> String) {
        if self.errors.len() < MAX_PROBLEMS {
            self.errors.push(ConfigProblem { line, section: section.map(str::to_owned), message: message() });
        } else {
            self.errors_dropped += 1;
        }
    }

    /// The warnings, or the errors if there is one.
    pub(super) fn finish(self) -> Result<Vec<Warning>, Vec<ConfigProblem>> {
        if self.errors.is_empty() {
            Ok(ordered(self.warnings, self.warnings_dropped, "warnings"))
        } else {
            Err(ordered(self.errors, self.errors_dropped, "problems"))
        }
    }
}

fn ordered(mut found: Vec<ConfigProblem>, dropped: usize, kind: &str) -> Vec<ConfigProblem> {
    found.sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
    if dropped > 0 {
        let message = format!("and {dropped} {kind} more");
        found.push(ConfigProblem { line: None, section: None, message });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_shown_one_a_line_in_the_order_of_the_file() {
        let mut problems = Problems::default();
        problems.missing(None, None, "Empty topics list");
        problems.error(7, Some("system"), "late");
        problems.error(2, Some("system"), "early");
        let errors = ConfigErrors { path: Some("conf/server.ini".into()), errors: problems.finish().unwrap_err() };
        assert_eq!(
            errors.to_string(),
            "conf/server.ini:2: early\nconf/server.ini:7: late\nconf/server.ini: Empty topics list"
        );
    }

    #[test]
    fn what_is_absent_is_not_reported_when_lines_were_unreadable() {
        let mut problems = Problems::default();
        problems.unreadable(1, "parse error");
        problems.missing(Some(1), Some("system"), "Blank value for brokerId");
        assert_eq!(problems.finish().unwrap_err().len(), 1);
    }

    #[test]
    fn the_number_of_kept_problems_is_bounded() {
        let mut problems = Problems::default();
        for line in 0..MAX_PROBLEMS + 5 {
            problems.error(line, None, "x");
        }
        let errors = problems.finish().unwrap_err();
        assert_eq!(errors.len(), MAX_PROBLEMS + 1);
        assert_eq!(errors[MAX_PROBLEMS].message, "and 5 problems more");
    }
}
