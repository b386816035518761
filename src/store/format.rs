//! Names on disk: `<topic>-<partition>/<offset, 20 digits>.meta` (02 §1–2).

use super::error::InvalidDirectoryName;
use crate::id::{PartitionIndex, TopicName};

/// What the name of a segment file ends in.
pub(super) const SEGMENT_SUFFIX: &str = ".meta";

/// What the name of a file in a partition's directory says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FileName {
    /// A segment that begins at this offset.
    Segment(u64),
    /// A segment that begins at an offset below zero.
    Negative,
    /// Ends like a segment and is none.
    Invalid,
    /// Of no concern: archived segments and whatever else.
    Foreign,
}

/// The name of a new segment.
pub(super) fn segment_file_name(start: u64) -> String {
    format!("{start:020}{SEGMENT_SUFFIX}")
}

/// Reads the name of a file as the reference does: any width, any sign (02 §2).
pub(super) fn parse_file_name(name: &str) -> FileName {
    match name.strip_suffix(SEGMENT_SUFFIX).map(str::parse::<i64>) {
        None => FileName::Foreign,
        Some(Err(_)) => FileName::Invalid,
        Some(Ok(start)) => u64::try_from(start).map_or(FileName::Negative, FileName::Segment),
    }
}

/// The name of a partition's directory.
pub(super) fn directory_name(topic: &TopicName, index: PartitionIndex) -> String {
    format!("{topic}-{index}")
}

/// Splits the name of a directory at its last dash; `None` without one (02 §1, §10).
pub(super) fn parse_directory_name(name: &str) -> Result<Option<(TopicName, PartitionIndex)>, InvalidDirectoryName> {
    let Some((topic, index)) = name.rsplit_once('-') else {
        return Ok(None);
    };
    let index = index.parse().map_err(|_| InvalidDirectoryName::Partition(index.to_owned()))?;
    Ok(Some((TopicName::new(topic)?, index)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_names_are_written_with_20_digits_and_read_with_any_number() {
        assert_eq!(segment_file_name(0), "00000000000000000000.meta");
        assert_eq!(segment_file_name(1 << 30), "00000000001073741824.meta");
        assert_eq!(parse_file_name("00000000001073741824.meta"), FileName::Segment(1 << 30));
        assert_eq!(parse_file_name("0.meta"), FileName::Segment(0));
        assert_eq!(parse_file_name("-5.meta"), FileName::Negative);
        for name in ["foo.meta", ".meta", "1x.meta", "9223372036854775808.meta"] {
            assert_eq!(parse_file_name(name), FileName::Invalid, "{name}");
        }
        let archives = ["0.meta.arc", "0.meta.zip", "0.meta.1.zip", "0.meta.zip.tmp"];
        for name in archives.into_iter().chain(["x", "0.meta~"]) {
            assert_eq!(parse_file_name(name), FileName::Foreign, "{name}");
        }
    }

    #[test]
    fn directory_names_are_split_at_the_last_dash() {
        let parse = |name| parse_directory_name(name).map(|p| p.map(|(t, i)| (t.to_string(), i.get())));
        assert_eq!(parse("test-0"), Ok(Some(("test".to_owned(), 0))));
        assert_eq!(parse("my-topic-12"), Ok(Some(("my-topic".to_owned(), 12))));
        assert_eq!(parse("a--1"), Ok(Some(("a-".to_owned(), 1))));
        assert_eq!(parse("transactions"), Ok(None));
        assert_eq!(parse("foo-bar"), Err(InvalidDirectoryName::Partition("bar".to_owned())));
        assert_eq!(parse("foo-"), Err(InvalidDirectoryName::Partition(String::new())));
        assert!(matches!(parse("-5"), Err(InvalidDirectoryName::Topic(_))));
        let topic = TopicName::new("my-topic").unwrap();
        assert_eq!(directory_name(&topic, PartitionIndex::new(12)), "my-topic-12");
    }
}
