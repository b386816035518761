//! A strict reader of the text format for metrics, version 0.0.4.

use std::collections::{BTreeMap, BTreeSet};

/// A family of samples.
#[derive(Debug)]
struct Family {
    kind: String,
    samples: Vec<Sample>,
}

#[derive(Debug, Clone, PartialEq)]
struct Sample {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

/// What an exposition says.
#[derive(Debug)]
pub(crate) struct Exposition(BTreeMap<String, Family>);

impl Exposition {
    /// Reads a text and panics at whatever is not as it has to be: help and type before the samples of a family and only
    /// once, no sample twice, none outside of its family, buckets that ascend up to the count.
    pub(crate) fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n'));
        let mut families = BTreeMap::<String, Family>::new();
        let (mut help, mut current) = (None, None::<String>);
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, words) = rest.split_once(' ').unwrap_or_else(|| panic!("{line}"));
                assert!(words.ends_with('.') && help.is_none(), "{line}");
                help = Some(name.to_owned());
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap_or_else(|| panic!("{line}"));
                assert_eq!(help.take().as_deref(), Some(name), "help comes first: {line}");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                let family = Family { kind: kind.to_owned(), samples: Vec::new() };
                assert!(families.insert(name.to_owned(), family).is_none(), "twice: {line}");
                current = Some(name.to_owned());
            } else {
                let sample = parse_sample(line);
                let name = current.as_ref().unwrap_or_else(|| panic!("no type: {line}"));
                let family = families.get_mut(name).unwrap();
                let suffix = sample.name.strip_prefix(name.as_str()).unwrap_or_else(|| panic!("in {name}: {line}"));
                let allowed: &[&str] = if family.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
                assert!(allowed.contains(&suffix), "in {name}: {line}");
                family.samples.push(sample);
            }
        }
        for (name, family) in &families {
            check(name, family);
        }
        Self(families)
    }

    /// Names and types, one a line.
    pub(crate) fn names(&self) -> String {
        self.0.iter().map(|(name, family)| format!("{name} {}\n", family.kind)).collect()
    }

    /// The value of a sample as it is written: `name{label="value"}`.
    #[track_caller]
    pub(crate) fn value(&self, wanted: &str) -> f64 {
        self.find(wanted).unwrap_or_else(|| panic!("there is no {wanted}"))
    }

    pub(crate) fn find(&self, wanted: &str) -> Option<f64> {
        let wanted = parse_sample(&format!("{wanted} 0"));
        let mut samples = self.0.values().flat_map(|family| &family.samples);
        samples.find(|sample| sample.name == wanted.name && sample.labels == wanted.labels).map(|sample| sample.value)
    }

    /// How many samples a family has.
    pub(crate) fn count(&self, family: &str) -> usize {
        self.0.get(family).map_or(0, |family| family.samples.len())
    }
}

fn check(name: &str, family: &Family) {
    assert!(!family.samples.is_empty(), "{name} is empty");
    let mut seen = BTreeSet::new();
    for sample in &family.samples {
        assert!(seen.insert(format!("{}{:?}", sample.name, sample.labels)), "twice: {sample:?}");
        assert!(family.kind == "gauge" || sample.value >= 0.0, "{sample:?}");
    }
    assert_eq!(family.kind == "counter", name.ends_with("_total"), "{name} {}", family.kind);
    if family.kind == "histogram" {
        assert!(name.ends_with("_seconds"));
        let buckets = family.samples.iter().filter(|sample| sample.name.ends_with("_bucket"));
        let bounds: Vec<(f64, f64)> = buckets
            .map(|sample| match sample.labels.as_slice() {
                [(le, bound)] if le == "le" => (bound.replace("+Inf", "inf").parse().unwrap(), sample.value),
                other => panic!("{name}: {other:?}"),
            })
            .collect();
        assert!(bounds.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{name}: {bounds:?}");
        let of = |suffix: &str| family.samples.iter().find(|s| s.name == format!("{name}{suffix}")).unwrap().value;
        assert_eq!(bounds.last(), Some(&(f64::INFINITY, of("_count"))), "{name}");
        assert_eq!(of("_count") == 0.0, of("_sum") == 0.0, "{name}");
    }
}

fn parse_sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
    let (name, labels) = match series.split_once('{') {
        Some((name, rest)) => (name, parse_labels(rest.strip_suffix('}').unwrap_or_else(|| panic!("{line}")))),
        None => (series, Vec::new()),
    };
    let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    assert!(is_name(name) && labels.iter().all(|(label, _)| is_name(label)), "{line}");
    Sample { name: name.to_owned(), labels, value: value.parse().unwrap_or_else(|_| panic!("{line}")) }
}

fn parse_labels(mut rest: &str) -> Vec<(String, String)> {
    let mut labels = Vec::new();
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{rest}"));
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().unwrap_or_else(|| panic!("{rest}")) {
                (at, '"') => break at,
                (_, '\\') => value.push(match chars.next() {
                    Some((_, 'n')) => '\n',
                    Some((_, c @ ('"' | '\\'))) => c,
                    other => panic!("{other:?} in {rest}"),
                }),
                (_, c) => value.push(c),
            }
        };
        labels.push((name.to_owned(), value));
        rest = after[end + 1..].trim_start_matches(',');
    }
    labels
}

#[test]
#[should_panic(expected = "twice")]
fn the_reader_refuses_a_sample_that_is_there_twice() {
    Exposition::parse("# HELP a A.\n# TYPE a gauge\na{x=\"1\"} 1\na{x=\"1\"} 2\n");
}

#[test]
#[should_panic(expected = "help comes first")]
fn the_reader_refuses_a_type_without_help() {
    Exposition::parse("# TYPE a gauge\na 1\n");
}

#[test]
#[should_panic(expected = "a_seconds")]
fn the_reader_refuses_buckets_that_do_not_end_at_the_count() {
    Exposition::parse(
        "# HELP a_seconds A.\n# TYPE a_seconds histogram\na_seconds_bucket{le=\"1\"} 1\n\
         a_seconds_bucket{le=\"+Inf\"} 1\na_seconds_sum 1\na_seconds_count 2\n",
    );
}
