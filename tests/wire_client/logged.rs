//! What the reference's client logged, and the same out of our lines.

use serde_json::Value;

/// How much of a payload is logged.
const HEAD: usize = 32;

/// One message as it was received.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Received {
    partition: String,
    id: i64,
    attribute: Option<String>,
    size: u64,
    /// The first bytes of the payload.
    head: String,
}

impl Received {
    pub(crate) fn of_line(line: &Value) -> Self {
        Self {
            partition: format!("{}-{}", line["broker"], line["partition"]),
            id: line["id"].as_i64().unwrap(),
            attribute: line["attribute"].as_str().map(str::to_owned),
            size: line["size"].as_u64().unwrap(),
            head: line["payload"].as_str().unwrap()[..HEAD].to_owned(),
        }
    }

    /// `RECV 0 id=-5468925004273942528 topic=test partition=0-1 attribute=null len=64 data=msg-0fghi…`
    fn of_log(line: &str) -> Self {
        let field = |name: &str| {
            let value = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            value.unwrap_or_else(|| panic!("no {name} in {line}"))
        };
        let head = field("data").to_owned();
        assert_eq!(head.len(), HEAD);
        Self {
            partition: field("partition").to_owned(),
            id: field("id").parse().unwrap(),
            attribute: Some(field("attribute")).filter(|&text| text != "null").map(str::to_owned),
            size: field("len").parse().unwrap(),
            head,
        }
    }
}

pub(crate) fn received(recording: &str) -> Vec<Received> {
    let path = format!("{}/tests/fixtures/wire/{recording}.log", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let received: Vec<_> = text.lines().filter(|line| line.starts_with("RECV ")).map(Received::of_log).collect();
    assert!(text.contains(&format!("DONE received={}", received.len())), "{text}");
    received
}
