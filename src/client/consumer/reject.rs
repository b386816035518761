//! What becomes of messages that are not delivered again (05 §13).

use std::fmt;

use futures_core::future::BoxFuture;
use tracing::warn;

use crate::client::{Message, Producer};
use crate::fetch::{ReceivedMessage, RejectError};
use crate::id::TopicName;

/// Takes messages that a listener rejected or failed on too often. Once it has succeeded the group's offset moves behind
/// the message.
pub trait RejectHandler: fmt::Debug + Send + Sync + 'static {
    /// Puts a message away. `reason` is for people.
    ///
    /// # Errors
    /// The message is offered once more after a pause, before anything behind it.
    fn reject<'a>(&'a self, message: &'a ReceivedMessage, reason: &'a str) -> BoxFuture<'a, Result<(), RejectError>>;
}

/// Writes a warning for each message and drops it; the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogRejected;

impl RejectHandler for LogRejected {
    fn reject<'a>(&'a self, message: &'a ReceivedMessage, reason: &'a str) -> BoxFuture<'a, Result<(), RejectError>> {
        warn!(
            partition = %message.from, offset = %message.offset, id = %message.id, reason,
            "message rejected and dropped; read it again with a seek to its offset"
        );
        Box::pin(async { Ok(()) })
    }
}

/// Drops messages without a word.
#[derive(Debug, Clone, Copy, Default)]
pub struct DropRejected;

impl RejectHandler for DropRejected {
    fn reject<'a>(&'a self, _: &'a ReceivedMessage, _: &'a str) -> BoxFuture<'a, Result<(), RejectError>> {
        Box::pin(async { Ok(()) })
    }
}

/// Publishes messages to a topic for rejected ones, payload and attribute as they are; where a message came from and why is in
/// the log and in [`ClientEvent::MessageRejected`](crate::client::ClientEvent::MessageRejected). As long as no broker stores
/// it, its partition stands still.
///
/// A message may come there twice: when the answer to the first attempt is lost, it is sent again.
#[derive(Debug, Clone)]
pub struct DeadLetterTopic {
    producer: Producer,
    topic: TopicName,
}

impl DeadLetterTopic {
    /// Publishes with this producer, which need not have published the topic. It must not be one that is shut down before
    /// the consumer is.
    pub fn new(producer: Producer, topic: TopicName) -> Self {
        Self { producer, topic }
    }
}

impl RejectHandler for DeadLetterTopic {
    fn reject<'a>(&'a self, message: &'a ReceivedMessage, reason: &'a str) -> BoxFuture<'a, Result<(), RejectError>> {
        Box::pin(async move {
            self.producer.publish(&self.topic).await?;
            let mut letter = Message::new(self.topic.clone(), message.payload.clone());
            if let Some(attribute) = &message.attribute {
                letter = letter.with_attribute(attribute.clone());
            }
            let sent = self.producer.send(letter).await?;
            warn!(
                partition = %message.from, offset = %message.offset, id = %message.id, reason,
                topic = %self.topic, sent_as = %sent.id, "message rejected and sent to the dead letter topic"
            );
            Ok(())
        })
    }
}
