//! What the reference's client logged, and the same out of our lines.

use serde_json::Value;

/// One message sent or received.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Logged {
    partition: String,
    id: i64,
    /// Of a message that was sent.
    offset: Option<i64>,
    /// Of one that was received: attribute, size, and the first bytes of the payload.
    content: Option<(Option<String>, u64, String)>,
}

/// How much of a payload is logged.
const HEAD: usize = 31;

impl Logged {
    pub(crate) fn of_line(line: &Value) -> Self {
        let content = line["payload"].as_str().map(|payload| {
            let attribute = line["attribute"].as_str().map(str::to_owned);
            (attribute, line["size"].as_u64().unwrap(), payload[..HEAD].to_owned())
        });
        Self {
            partition: format!("{}-{}", line["broker"], line["partition"]),
            id: line["id"].as_i64().unwrap(),
            offset: if content.is_none() { line["offset"].as_i64() } else { None },
            content,
        }
    }
}

/// `SEND 0 success=true partition=0-1 offset=0 id=-5468925004273942528 error=null`
pub(crate) fn sends(recording: &str) -> Vec<Logged> {
    let send = |line: &str| {
        assert_eq!(field(line, "success"), "true");
        let number = |name| field(line, name).parse().unwrap();
        Logged {
            partition: field(line, "partition").to_owned(),
            id: number("id"),
            offset: Some(number("offset")),
            content: None,
        }
    };
    lines(recording, "SEND ").iter().map(|line| send(line)).collect()
}

/// `RECV 0 id=-5468925004273942528 topic=test partition=0-1 attribute=null len=64 data=msg-0fghi…`
pub(crate) fn receipts(recording: &str) -> Vec<Logged> {
    let receipt = |line: &str| {
        let attribute = Some(field(line, "attribute")).filter(|&text| text != "null").map(str::to_owned);
        let data = field(line, "data").to_owned();
        assert_eq!(data.len(), HEAD);
        Logged {
            partition: field(line, "partition").to_owned(),
            id: field(line, "id").parse().unwrap(),
            offset: None,
            content: Some((attribute, field(line, "len").parse().unwrap(), data)),
        }
    };
    lines(recording, "RECV ").iter().map(|line| receipt(line)).collect()
}

fn lines(recording: &str, start: &str) -> Vec<String> {
    let path = format!("{}/tests/fixtures/wire/{recording}.log", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with(start)).map(str::to_owned).collect();
    assert!(!lines.is_empty(), "{recording}.log has no {start}");
    lines
}

fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let value = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("no {name} in {line}"))
}
