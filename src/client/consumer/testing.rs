//! Messages for tests.

use std::sync::Arc;

use bytes::Bytes;

use crate::fetch::ReceivedMessage;
use crate::id::{MessageId, Offset, TopicName, TopicPartition};

/// `topic 0-3` as a value.
pub(super) fn topic_partition(text: &str) -> TopicPartition {
    let (topic, partition) = text.split_once(' ').unwrap();
    TopicPartition { topic: TopicName::new(topic.to_owned()).unwrap(), partition: partition.parse().unwrap() }
}

/// A message of one byte with the id 1000 + offset.
pub(super) fn message(from: &str, offset: i64) -> ReceivedMessage {
    ReceivedMessage {
        from: Arc::new(topic_partition(from)),
        offset: Offset::new(offset),
        next_offset: Offset::new(offset + 1),
        id: MessageId::new(1000 + offset),
        attribute: None,
        payload: Bytes::from_static(b"x"),
        redeliveries: 0,
    }
}
