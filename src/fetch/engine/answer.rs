//! The answer to a get, taken apart where it arrived rather than in the engine's own task.

use std::sync::Arc;

use bytes::Bytes;

use crate::fetch::request::needed;
use crate::fetch::{Fetched, ReceivedMessage};
use crate::id::{Offset, TopicPartition};
use crate::message::Records;

/// What a get brought.
#[derive(Debug)]
pub(super) enum Answer {
    Messages(Messages),
    /// Bytes without a whole message.
    Short {
        length: usize,
        needed: Option<usize>,
    },
    /// The first bytes are no record.
    Invalid(String),
    Moved {
        to: Offset,
        holds_gets: bool,
    },
    Nothing {
        waited: bool,
    },
}

/// Whole messages, one at least.
#[derive(Debug)]
pub(super) struct Messages {
    pub(super) messages: Vec<ReceivedMessage>,
    /// Bytes of the answer.
    pub(super) length: usize,
    /// The first message (then the only one) cannot be given to a listener.
    pub(super) undeliverable: Option<String>,
}

/// Takes an answer apart. Messages before something that is none are taken, the next get begins with the latter.
pub(super) fn parse(from: &Arc<TopicPartition>, offset: Offset, fetched: Fetched, body_limit: usize) -> Answer {
    match fetched {
        Fetched::Data(data) => messages(from, offset, data, body_limit),
        Fetched::Moved { to, holds_gets } => Answer::Moved { to, holds_gets },
        Fetched::Nothing { waited } => Answer::Nothing { waited },
    }
}

fn messages(from: &Arc<TopicPartition>, start: Offset, data: Bytes, body_limit: usize) -> Answer {
    let length = data.len();
    let needed = needed(&data);
    let mut messages = Vec::new();
    let mut undeliverable = None;
    let mut records = Records::new(data, body_limit);
    while let Some(record) = records.next() {
        let record = match record {
            Ok(record) => record,
            Err(invalid) if messages.is_empty() => return Answer::Invalid(invalid.to_string()),
            Err(_) => break,
        };
        let at = |position: usize| u64::try_from(position).ok().and_then(|position| start.checked_add(position));
        let (Some(offset), Some(next_offset)) = (at(record.position), at(records.consumed())) else {
            return Answer::Invalid("the offset would pass the largest one".to_owned());
        };
        let (attribute, payload) = match record.decode_body() {
            Ok(body) => (body.attribute, body.payload),
            Err(error) if messages.is_empty() => {
                undeliverable = Some(error.to_string());
                (None, record.body)
            }
            Err(_) => break,
        };
        let id = record.header.id;
        let from = Arc::clone(from);
        messages.push(ReceivedMessage { from, offset, next_offset, id, attribute, payload, redeliveries: 0 });
        if undeliverable.is_some() {
            break;
        }
    }
    if messages.is_empty() {
        return Answer::Short { length, needed };
    }
    Answer::Messages(Messages { messages, length, undeliverable })
}
