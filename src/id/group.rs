//! Consumer groups and their members (04 §9, 05 §1).

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use bytestring::ByteString;

/// What the reference refuses in a group's name.
const REFUSED: &str = "~!#$%^&*()+=`'\",;/?[]<>.: ";

/// Name of a consumer group: a word of the protocol's line and an element of ZooKeeper paths.
///
/// Everything that comes from outside passes through [`GroupName::new`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName(ByteString);

/// Why a text cannot name a group; the first two texts are the reference's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGroupName {
    /// Empty, or blanks only.
    #[error("Blank group")]
    Blank,
    /// A character that the protocol, ZooKeeper or the reference refuses.
    #[error("Group name has invalid character {0}")]
    Character(char),
    /// Longer than [`GroupName::MAX_BYTES`].
    #[error("a group name has at most {max} bytes, this one has {0}", max = GroupName::MAX_BYTES)]
    TooLong(usize),
}

impl GroupName {
    /// Longest admissible name, as for topics.
    pub const MAX_BYTES: usize = 200;

    /// Checks a text and takes it.
    ///
    /// # Errors
    /// [`InvalidGroupName`].
    pub fn new(text: impl Into<ByteString>) -> Result<Self, InvalidGroupName> {
        let text = text.into();
        if text.trim().is_empty() {
            return Err(InvalidGroupName::Blank);
        }
        let refused = |c: char| REFUSED.contains(c) || c.is_whitespace() || !super::topic::fits_a_path(c);
        if let Some(c) = text.chars().find(|&c| refused(c)) {
            return Err(InvalidGroupName::Character(c));
        }
        if text.len() > Self::MAX_BYTES {
            return Err(InvalidGroupName::TooLong(text.len()));
        }
        Ok(Self(text))
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

impl Borrow<str> for GroupName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for GroupName {
    type Err = InvalidGroupName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_reference_takes_is_taken() {
        for name in ["g1", "meta-example", "a_b@c", r"x|y\z", "{g}", "测试组", &"g".repeat(200)] {
            assert_eq!(GroupName::new(name).map(|g| g.as_str().to_owned()), Ok(name.to_owned()));
        }
    }

    #[test]
    fn what_the_reference_or_the_line_refuses_is_refused_with_its_text() {
        for name in ["", "  "] {
            assert_eq!(GroupName::new(name).unwrap_err().to_string(), "Blank group");
        }
        for c in REFUSED.chars().chain(['\r', '\n', '\t', '\0', '\u{fffd}', '\u{3000}']) {
            let error = GroupName::new(format!("g{c}1")).unwrap_err();
            assert_eq!(error.to_string(), format!("Group name has invalid character {c}"));
        }
        assert_eq!(GroupName::new("g".repeat(201)), Err(InvalidGroupName::TooLong(201)));
    }
}
