//! Topic names, which become path elements in ZooKeeper and directory names on disk.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use bytestring::ByteString;

/// A name that is safe as a directory name and as a ZooKeeper path element: 1 to 200 bytes without `/`, control
/// characters or what ZooKeeper refuses in a path, and neither `.` nor `..`.
///
/// Everything that comes from outside passes through [`TopicName::new`] before it touches a path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName(ByteString);

/// Why a text cannot name a topic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTopicName {
    /// The empty text.
    #[error("a topic name must not be empty")]
    Empty,
    /// Longer than [`TopicName::MAX_BYTES`].
    #[error("a topic name has at most {max} bytes, this one has {0}", max = TopicName::MAX_BYTES)]
    TooLong(usize),
    /// `.` or `..`.
    #[error("'.' and '..' cannot name a topic")]
    Dots,
    /// A character that a directory or ZooKeeper cannot carry.
    #[error("a topic name must not contain the character {0:?}")]
    Character(char),
}

impl serde::Serialize for TopicName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl TopicName {
    /// Longest admissible name: with `-` and a partition number it still fits a directory entry of 255 bytes.
    pub const MAX_BYTES: usize = 200;

    /// Checks a text and takes it as a topic name; a [`ByteString`] is not copied.
    pub fn new(text: impl Into<ByteString>) -> Result<Self, InvalidTopicName> {
        let text = text.into();
        Self::check(&text)?;
        Ok(Self(text))
    }

    /// Checks without taking.
    pub fn check(text: &str) -> Result<(), InvalidTopicName> {
        match text {
            "" => return Err(InvalidTopicName::Empty),
            "." | ".." => return Err(InvalidTopicName::Dots),
            _ if text.len() > Self::MAX_BYTES => return Err(InvalidTopicName::TooLong(text.len())),
            _ => {}
        }
        match text.chars().find(|&c| !fits_a_path(c)) {
            Some(c) => Err(InvalidTopicName::Character(c)),
            None => Ok(()),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as the protocol carries it.
    pub fn to_wire(&self) -> ByteString {
        self.0.clone()
    }
}

/// Whether a character can be part of an element of a path, of a directory as of ZooKeeper. Beyond control characters
/// ZooKeeper refuses the private use area and the specials.
pub(super) fn fits_a_path(c: char) -> bool {
    c != '/' && !c.is_control() && !matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}')
}

impl Borrow<str> for TopicName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for TopicName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl FromStr for TopicName {
    type Err = InvalidTopicName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_are_taken() {
        for name in ["test", "my-topic-12", "a.b", "...", "TBCTU-*", "测试", &"x".repeat(200)] {
            assert_eq!(TopicName::new(name).map(|t| t.as_str().len()), Ok(name.len()));
        }
    }

    #[test]
    fn names_that_could_leave_their_directory_are_refused() {
        assert_eq!(TopicName::new(""), Err(InvalidTopicName::Empty));
        assert_eq!(TopicName::new("."), Err(InvalidTopicName::Dots));
        assert_eq!(TopicName::new(".."), Err(InvalidTopicName::Dots));
        assert_eq!(TopicName::new("../etc"), Err(InvalidTopicName::Character('/')));
        assert_eq!(TopicName::new("a\0b"), Err(InvalidTopicName::Character('\0')));
        assert_eq!(TopicName::new("a\nb"), Err(InvalidTopicName::Character('\n')));
        assert_eq!(TopicName::new("a\u{85}b"), Err(InvalidTopicName::Character('\u{85}')));
        assert_eq!(TopicName::new("a\u{fffd}"), Err(InvalidTopicName::Character('\u{fffd}')));
        assert_eq!(TopicName::new("x".repeat(201)), Err(InvalidTopicName::TooLong(201)));
    }
}
