//! Node data: UTF-8 text without any frame (04 §1, §3–§5).

use std::fmt;

use crate::id::{BrokerUrl, MessageId, Offset, TopicName};

/// Most partitions of one broker and topic that a reader takes from a node; more is taken for a damaged node.
pub const MAX_PARTITIONS: u32 = 100_000;

/// Most characters of a node's text that an error repeats.
const SHOWN: usize = 200;

/// Why a node's data could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidData {
    /// Nothing there, or JSON `null`.
    #[error("it is empty")]
    Empty,
    /// Not UTF-8.
    #[error("it is not UTF-8 text")]
    NotText,
    /// Not a broker's address.
    #[error("'{0}' is not a broker address of the form meta://host:port")]
    Url(String),
    /// Not an offset of 04 §8.
    #[error("'{0}' is not an offset of the form <message id>-<offset>, for example -1-4096")]
    Offset(String),
    /// Not the JSON object of 04 §5.
    #[error("'{0}' is not of the form {{\"numParts\":12,\"broker\":\"0-m\"}}: {1}")]
    TopicBroker(String, String),
}

/// What a broker publishes about its share of a topic, below `topics-pub` and `topics-sub` (04 §5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicBroker {
    /// Number of partitions.
    pub partitions: u32,
}

impl TopicBroker {
    /// The JSON text: exactly two members, since Java readers refuse any other, without blanks.
    ///
    /// `child` is the node's own name, for example `0-m`.
    pub fn to_json(partitions: u32, child: &str) -> String {
        format!(r#"{{"numParts":{partitions},"broker":{}}}"#, serde_json::Value::from(child))
    }

    /// Reads what any version of the reference reads; `broker` is not looked at, as there.
    ///
    /// # Errors
    /// [`InvalidData`]: the reader skips the child.
    pub fn parse(data: &[u8]) -> Result<Self, InvalidData> {
        let text = text(data)?;
        let invalid = |reason: String| InvalidData::TopicBroker(shown(text), reason);
        let members = match serde_json::from_str(text).map_err(|e| invalid(e.to_string()))? {
            serde_json::Value::Null => return Err(InvalidData::Empty),
            serde_json::Value::Object(members) => members,
            _ => return Err(invalid("it is not an object".to_owned())),
        };
        if let Some(name) = members.keys().find(|name| !matches!(name.as_str(), "numParts" | "broker")) {
            return Err(invalid(format!("unknown member '{}'", shown(name))));
        }
        let count = match members.get("numParts") {
            None | Some(serde_json::Value::Null) => 0,
            Some(serde_json::Value::Number(number)) => {
                number.as_i64().ok_or_else(|| invalid("numParts is no integer".to_owned()))?
            }
            Some(serde_json::Value::String(digits)) => {
                digits.trim().parse().map_err(|_| invalid("numParts is no integer".to_owned()))?
            }
            Some(_) => return Err(invalid("numParts is no integer".to_owned())),
        };
        let partitions = u32::try_from(count.max(0)).ok().filter(|&count| count <= MAX_PARTITIONS);
        partitions
            .map(|partitions| Self { partitions })
            .ok_or_else(|| invalid(format!("more than {MAX_PARTITIONS} partitions")))
    }
}

/// Data of a child of `brokers/topics/<topic>`: the partition count in decimal.
pub fn partition_count(partitions: u32) -> String {
    partitions.to_string()
}

/// Data of `master_config_checksum`: the CRC-32 of the configuration file in decimal, 0 if there is no file.
pub fn config_checksum(checksum: u32) -> String {
    checksum.to_string()
}

/// Reads a broker's address (04 §3).
///
/// # Errors
/// [`InvalidData::Empty`] for blank data, which counts as no broker; else [`InvalidData::Url`].
pub fn parse_broker_url(data: &[u8]) -> Result<BrokerUrl, InvalidData> {
    let text = text(data)?;
    text.parse().map_err(|_| InvalidData::Url(shown(text)))
}

/// Where a group stands in a partition, as it is stored (04 §8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredOffset {
    /// The next byte to read.
    pub offset: Offset,
    /// The last message before it, if it is known.
    pub message_id: Option<MessageId>,
}

impl StoredOffset {
    /// Stands for a message that is not known.
    const UNKNOWN: MessageId = MessageId::new(-1);

    /// Reads `<message id>-<offset>`, and the bare offset of clients before 1.4.
    ///
    /// # Errors
    /// [`InvalidData`]; such a node must be reported, never taken for 0.
    pub fn parse(data: &[u8]) -> Result<Self, InvalidData> {
        let text = text(data)?;
        let invalid = || InvalidData::Offset(shown(text));
        let (id, offset) = match text.rfind('-').filter(|&dash| dash > 0).and_then(|dash| text.split_at_checked(dash)) {
            Some((id, offset)) => (id.parse().map_err(|_| invalid())?, offset.trim_start_matches('-')),
            None => (Self::UNKNOWN, text),
        };
        let offset = offset.parse().map_err(|_| invalid())?;
        Ok(Self { offset, message_id: (id != Self::UNKNOWN).then_some(id) })
    }
}

impl fmt::Display for StoredOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.message_id.unwrap_or(Self::UNKNOWN), self.offset)
    }
}

/// Data of a member's node: its topics, in any order.
pub fn subscriptions<'a>(topics: impl IntoIterator<Item = &'a TopicName>) -> String {
    topics.into_iter().map(TopicName::as_str).collect::<Vec<_>>().join(",")
}

/// The topics of a member; those that cannot be topics of ours are left out.
///
/// # Errors
/// [`InvalidData::NotText`].
pub fn parse_subscriptions(data: &[u8]) -> Result<Vec<TopicName>, InvalidData> {
    let text = std::str::from_utf8(data).map_err(|_| InvalidData::NotText)?;
    Ok(text.split(',').filter_map(|topic| TopicName::new(topic.to_owned()).ok()).collect())
}

/// What errors repeat of a node's text, which may be a megabyte of anything: its beginning, without control characters.
fn shown(text: &str) -> String {
    let mut characters = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut shown: String = characters.by_ref().take(SHOWN).collect();
    if characters.next().is_some() {
        shown.push('…');
    }
    shown
}

fn text(data: &[u8]) -> Result<&str, InvalidData> {
    let text = std::str::from_utf8(data).map_err(|_| InvalidData::NotText)?;
    if text.trim().is_empty() { Err(InvalidData::Empty) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_exactly_two_members_in_the_reference_s_order_and_no_blanks() {
        assert_eq!(TopicBroker::to_json(12, "0-m"), r#"{"numParts":12,"broker":"0-m"}"#);
        assert_eq!(TopicBroker::to_json(1, "3-s0"), r#"{"numParts":1,"broker":"3-s0"}"#);
    }

    #[test]
    fn what_errors_repeat_of_a_node_is_short_and_one_line() {
        let rubbish = format!("x\r\n{}", "ü".repeat(1 << 20));
        let errors = [
            TopicBroker::parse(rubbish.as_bytes()).unwrap_err(),
            TopicBroker::parse(format!(r#"{{"{}":1}}"#, "y".repeat(1 << 20)).as_bytes()).unwrap_err(),
            parse_broker_url(rubbish.as_bytes()).unwrap_err(),
            StoredOffset::parse(rubbish.as_bytes()).unwrap_err(),
        ];
        for error in errors.map(|error| error.to_string()) {
            assert!(error.len() < 1024 && !error.contains('\n'), "{} bytes: {:.100}", error.len(), error);
        }
    }

    #[test]
    fn topic_json_is_read_as_the_reference_reads_it() {
        for (text, partitions) in [
            (r#"{"numParts":12,"broker":"0-m"}"#, 12),
            (r#"{"broker":"0-m","numParts":12}"#, 12),
            (r#" { "numParts" : 3 } "#, 3),
            (r#"{"numParts":"7"}"#, 7),
            (r#"{"broker":"0-m"}"#, 0),
            (r#"{"numParts":-4,"broker":"0-m"}"#, 0),
        ] {
            assert_eq!(TopicBroker::parse(text.as_bytes()), Ok(TopicBroker { partitions }), "{text}");
        }
        for text in ["", "null", "12", "{", "[]", r#"{"numParts":1,"broker":"0-m","x":1}"#, r#"{"numParts":"x"}"#] {
            assert!(TopicBroker::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn offsets_are_read_and_written_as_the_reference_does() {
        let parse = |text: &str| StoredOffset::parse(text.as_bytes());
        for (text, id, offset) in [
            ("1180591620717412352-1024", Some(1_180_591_620_717_412_352), 1024),
            ("-1-4096", None, 4096),
            ("-1-0", None, 0),
            ("0-2048", Some(0), 2048),
            ("-5468925003737071616-84", Some(-5_468_925_003_737_071_616), 84),
        ] {
            let stored = StoredOffset { offset: Offset::new(offset), message_id: id.map(MessageId::new) };
            assert_eq!(parse(text), Ok(stored), "{text}");
            assert_eq!(stored.to_string(), text);
        }
        assert_eq!(parse("77"), Ok(StoredOffset { offset: Offset::new(77), message_id: None }));
        for text in ["", " ", "x", "1-", "-", "1-2-x", "x-1"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_topics_of_a_member_are_joined_by_commas() {
        let topics = ["test", "other"].map(|t| TopicName::new(t).unwrap());
        assert_eq!(subscriptions(&topics), "test,other");
        assert_eq!(parse_subscriptions(b"test,other"), Ok(topics.to_vec()));
        assert_eq!(parse_subscriptions(b""), Ok(Vec::new()));
        assert_eq!(parse_subscriptions(b"a/b,test"), Ok(topics[..1].to_vec()));
        assert!(parse_subscriptions(b"\xff").is_err());
    }

    #[test]
    fn a_damaged_count_does_not_become_memory() {
        assert!(TopicBroker::parse(br#"{"numParts":2147483647}"#).is_err());
    }

    #[test]
    fn blank_data_is_no_broker() {
        assert_eq!(parse_broker_url(b""), Err(InvalidData::Empty));
        assert_eq!(parse_broker_url(b" "), Err(InvalidData::Empty));
        assert_eq!(parse_broker_url(b"\xff"), Err(InvalidData::NotText));
        assert!(matches!(parse_broker_url(b"10.0.0.1:8123"), Err(InvalidData::Url(_))));
        assert_eq!(parse_broker_url(b"meta://h:1").map(|url| url.to_string()), Ok("meta://h:1".to_owned()));
    }
}
