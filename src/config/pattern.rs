//! Topic names with `*` (03 §4).

use crate::id::TopicName;

/// A configured topic name that admits others: `*` stands for any text, everything else for itself, and the whole
/// name must match.
///
/// Matching takes time in proportion to the name for each `*`, whatever the pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPattern {
    name: TopicName,
    prefix: String,
    /// What must follow one after another between prefix and suffix.
    inner: Vec<String>,
    suffix: String,
}

impl TopicPattern {
    /// None if there is no `*` in the name.
    pub fn new(name: &TopicName) -> Option<Self> {
        let (prefix, rest) = name.as_str().split_once('*')?;
        let (inner, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
        Some(Self {
            name: name.clone(),
            prefix: prefix.to_owned(),
            inner: inner.split('*').filter(|piece| !piece.is_empty()).map(str::to_owned).collect(),
            suffix: suffix.to_owned(),
        })
    }

    /// The pattern as it is written.
    pub fn name(&self) -> &TopicName {
        &self.name
    }

    /// Whether the pattern admits this name.
    pub fn matches(&self, name: &str) -> bool {
        let Some(mut rest) = name.strip_prefix(&*self.prefix).and_then(|rest| rest.strip_suffix(&*self.suffix)) else {
            return false;
        };
        // the earliest place for each piece leaves the most room for the next, so there is nothing to try twice
        for piece in &self.inner {
            let Some((_, after)) = rest.split_once(&**piece) else {
                return false;
            };
            rest = after;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        TopicPattern::new(&TopicName::new(pattern).unwrap()).unwrap().matches(name)
    }

    #[test]
    fn only_the_star_is_special_and_the_whole_name_must_match() {
        assert!(matches("TBCTU-*", "TBCTU-x"));
        assert!(matches("TBCTU-*", "TBCTU-"));
        assert!(!matches("TBCTU-*", "xTBCTU-x"));
        assert!(matches("*", "anything"));
        assert!(matches("a.*", "a.b"));
        assert!(!matches("a.*", "axb"));
        assert!(matches("a[*", "a[b"));
        assert!(matches("*-x-*-y", "1-x-2-y"));
        assert!(!matches("*-x-*-y", "1-x-y"));
        assert!(!matches("ab*ba", "aba"));
        assert!(matches("a**b", "ab"));
    }

    #[test]
    fn a_name_without_star_is_no_pattern() {
        assert_eq!(TopicPattern::new(&TopicName::new("test").unwrap()), None);
    }

    #[test]
    fn a_pattern_of_many_stars_does_not_explode() {
        let pattern = "*a".repeat(99) + "*b";
        let started = Instant::now();
        for _ in 0..100 {
            assert!(!matches(&pattern, &"a".repeat(200)));
        }
        assert!(started.elapsed() < Duration::from_secs(5));
    }

    /// What a pattern means, by trying everything.
    fn naive(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, rest) => rest.is_none(),
            (Some((b'*', pattern_rest)), _) => (0..=name.len()).any(|skip| naive(pattern_rest, &name[skip..])),
            (Some((p, pattern_rest)), Some((n, name_rest))) => p == n && naive(pattern_rest, name_rest),
            (Some(_), None) => false,
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_trying_everything(pattern in "[ab*]{0,6}\\*[ab]{0,3}", name in "[ab]{0,10}") {
            prop_assert_eq!(matches(&pattern, &name), naive(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
