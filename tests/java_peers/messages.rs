//! Messages as they were sent, acknowledged, stored and delivered.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::common::group::Delivery;
pub(crate) use crate::common::group::Place;

/// What a producer sends.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) attribute: Option<String>,
    pub(crate) payload: Vec<u8>,
}

/// A message in a broker, be it known from an acknowledgement, a delivery or from reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) place: Place,
    pub(crate) id: i64,
    pub(crate) message: Message,
}

impl Message {
    pub(crate) fn new(payload: impl Into<Vec<u8>>) -> Self {
        Self { attribute: None, payload: payload.into() }
    }

    /// `{"payload":…,"attribute":…}` for the Java producer.
    pub(crate) fn to_json(&self) -> Value {
        json!({ "payload": BASE64_STANDARD.encode(&self.payload), "attribute": self.attribute })
    }
}

/// Short enough for a failed assertion about messages of 1 MiB.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = String::from_utf8_lossy(&self.payload[..self.payload.len().min(32)]);
        write!(f, "{start:?} of {} bytes, attribute {:?}", self.payload.len(), self.attribute)
    }
}

impl Stored {
    /// From the line of a good answer and what was sent.
    pub(crate) fn acknowledged(line: &Value, message: Message) -> Self {
        Self { place: Place::of(line), id: id_of(line), message }
    }

    /// From the line of a delivery with the payload in base64.
    pub(crate) fn delivered(line: &Value) -> Self {
        let payload = line["payload"].as_str().unwrap_or_else(|| panic!("no payload in {line}"));
        let message = Message {
            attribute: line["attribute"].as_str().map(str::to_owned),
            payload: BASE64_STANDARD.decode(payload).unwrap(),
        };
        Self { place: Place::of(line), id: id_of(line), message }
    }
}

impl From<&Delivery> for Stored {
    fn from(one: &Delivery) -> Self {
        let message = Message { attribute: one.attribute.clone(), payload: one.payload.clone() };
        Self { place: one.place, id: one.id, message }
    }
}

/// The command line calls it `id`, which in the lines of the Java client is that of the command.
fn id_of(line: &Value) -> i64 {
    let id = line["messageId"].as_i64().or_else(|| line["id"].as_i64());
    id.unwrap_or_else(|| panic!("no id of a message in {line}"))
}

/// Joins what was sent and the answers, of which each must be there and good.
#[track_caller]
pub(crate) fn acknowledged(answers: &[Value], messages: &[Message]) -> Vec<Stored> {
    let answers: Vec<_> = answers.iter().filter(|line| !line["i"].is_null()).collect();
    assert_eq!(answers.len(), messages.len(), "answers");
    let join = |answer: &Value| {
        assert_eq!(answer["ok"], true, "{answer}");
        let number = usize::try_from(answer["i"].as_u64().unwrap()).unwrap();
        Stored::acknowledged(answer, messages[number].clone())
    };
    answers.into_iter().map(join).collect()
}

/// The messages of each partition, in the order given.
pub(crate) fn by_partition<'a>(stored: impl IntoIterator<Item = &'a Stored>) -> BTreeMap<(i64, i64), Vec<&'a Stored>> {
    let mut partitions = BTreeMap::<_, Vec<_>>::new();
    for one in stored {
        partitions.entry(one.place.partition()).or_default().push(one);
    }
    partitions
}

/// Asserts that both have the same messages, in the same order in each partition.
#[track_caller]
pub(crate) fn assert_same_log(actual: &[Stored], expected: &[Stored]) {
    let (actual, expected) = (by_partition(actual), by_partition(expected));
    assert_eq!(actual.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "partitions");
    for (partition, expected) in expected {
        let actual = &actual[&partition];
        let differing = actual.iter().zip(&expected).position(|(a, b)| a != b);
        if let Some(i) = differing {
            panic!("partition {partition:?}, message {i}: {:?} instead of {:?}", actual[i], expected[i]);
        }
        assert_eq!(actual.len(), expected.len(), "number of messages in partition {partition:?}");
    }
}

/// Asserts that each acknowledged message is in the log exactly once, where and as it was acknowledged.
#[track_caller]
pub(crate) fn assert_all_there(log: &[Stored], acknowledged: &[Stored]) {
    let mut copies = HashMap::<&[u8], Vec<&Stored>>::new();
    for one in log {
        copies.entry(&one.message.payload).or_default().push(one);
    }
    for one in acknowledged {
        let copies = copies.get(&one.message.payload[..]).map_or(&[][..], Vec::as_slice);
        assert_eq!(copies, [one], "copies in the log of an acknowledged message");
    }
}
