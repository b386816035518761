//! What happens to expired segments (02 §13).

use std::fmt;
use std::str::FromStr;

/// The text of a `deletePolicy`: what to do with a segment file, and when it is expired.
///
/// A negative age makes every segment but the last one expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletePolicy {
    /// `delete,<time>`: remove the file.
    Delete {
        /// How long after its last change a segment expires, in milliseconds.
        max_age_ms: i64,
    },
    /// `archive,<time>[,true]`: rename the file, or replace it by a ZIP file.
    Archive {
        /// How long after its last change a segment expires, in milliseconds.
        max_age_ms: i64,
        /// Whether to compress it.
        compress: bool,
    },
}

/// A text that is no delete policy; begins with the text of the reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDeletePolicy {
    /// Neither `delete` nor `archive`.
    #[error("{0}: unknown delete policy, write delete,<time> or archive,<time>[,true]")]
    Unknown(String),
    /// No time, or none that can be read.
    #[error(
        "New delete policy `{0}` failed: write {0},<time> with a whole number of hours, or of minutes (5m) or seconds (5s), without blanks"
    )]
    Arguments(String),
}

const HOUR_MS: i64 = 3_600_000;
const MINUTE_MS: i64 = 60_000;
const SECOND_MS: i64 = 1_000;

impl DeletePolicy {
    /// `delete,168`: a week.
    pub const DEFAULT: Self = Self::Delete { max_age_ms: 168 * HOUR_MS };

    /// How long after its last change a segment expires, in milliseconds.
    pub fn max_age_ms(&self) -> i64 {
        match *self {
            Self::Delete { max_age_ms } | Self::Archive { max_age_ms, .. } => max_age_ms,
        }
    }
}

impl FromStr for DeletePolicy {
    type Err = InvalidDeletePolicy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or_default();
        if !matches!(name, "delete" | "archive") {
            return Err(InvalidDeletePolicy::Unknown(super::reader::shortened(name)));
        }
        let max_age_ms =
            parts.next().and_then(milliseconds).ok_or_else(|| InvalidDeletePolicy::Arguments(name.to_owned()))?;
        // arguments beyond those that a policy knows are ignored, as the reference does
        Ok(match name {
            "delete" => Self::Delete { max_age_ms },
            _ => Self::Archive { max_age_ms, compress: parts.next().is_some_and(|c| c.eq_ignore_ascii_case("true")) },
        })
    }
}

fn milliseconds(time: &str) -> Option<i64> {
    let (number, unit) = match time.as_bytes().last()? {
        b'm' => (time.strip_suffix('m')?, MINUTE_MS),
        b's' => (time.strip_suffix('s')?, SECOND_MS),
        b'h' => (time.strip_suffix('h')?, HOUR_MS),
        _ => (time, HOUR_MS),
    };
    Some(i64::from(number.parse::<i32>().ok()?) * unit)
}

impl fmt::Display for DeletePolicy {
    /// The form of the configuration file, in the largest unit that fits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, suffix) = match self {
            Self::Delete { .. } => ("delete", ""),
            Self::Archive { compress: false, .. } => ("archive", ""),
            Self::Archive { compress: true, .. } => ("archive", ",true"),
        };
        let (unit, letter) = match self.max_age_ms() {
            ms if ms % HOUR_MS == 0 => (HOUR_MS, ""),
            ms if ms % MINUTE_MS == 0 => (MINUTE_MS, "m"),
            _ => (SECOND_MS, "s"),
        };
        write!(f, "{name},{}{letter}{suffix}", self.max_age_ms() / unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> Result<DeletePolicy, InvalidDeletePolicy> {
        text.parse()
    }

    #[test]
    fn policies_are_read_as_the_reference_reads_them() {
        let delete = |max_age_ms| Ok(DeletePolicy::Delete { max_age_ms });
        let archive = |max_age_ms, compress| Ok(DeletePolicy::Archive { max_age_ms, compress });
        assert_eq!(policy("delete,168"), Ok(DeletePolicy::DEFAULT));
        assert_eq!(policy("delete,5h"), delete(5 * 3_600_000));
        assert_eq!(policy("delete,5m"), delete(300_000));
        assert_eq!(policy("delete,5s"), delete(5_000));
        assert_eq!(policy("delete,-1"), delete(-3_600_000));
        assert_eq!(policy("delete,5m,x"), delete(300_000));
        assert_eq!(policy("archive,3"), archive(3 * 3_600_000, false));
        assert_eq!(policy("archive,3,false"), archive(3 * 3_600_000, false));
        assert_eq!(policy("archive,3,TRUE"), archive(3 * 3_600_000, true));
        assert_eq!(policy("archive,3, true"), archive(3 * 3_600_000, false));
        assert_eq!(policy("delete,2147483647"), delete(2_147_483_647 * 3_600_000));
    }

    #[test]
    fn refusals_begin_with_the_text_of_the_reference() {
        for text in ["delete", "delete,", "delete,1d", "delete, 5", "delete,5M", "delete,m", "delete,2147483648"] {
            assert!(policy(text).unwrap_err().to_string().starts_with("New delete policy `delete` failed"), "{text}");
        }
        assert!(policy("archive").unwrap_err().to_string().starts_with("New delete policy `archive` failed"));
        assert!(policy("gzip,3").unwrap_err().to_string().starts_with("gzip"));
        assert!(policy("Delete,3").is_err());
    }

    #[test]
    fn what_is_shown_is_read_back() {
        for text in ["delete,168", "delete,90m", "delete,61s", "delete,-1", "archive,3", "archive,3,true", "delete,0"] {
            assert_eq!(policy(text).unwrap().to_string(), text);
        }
        assert_eq!(policy("delete,120m").unwrap().to_string(), "delete,2");
    }
}
