//! What an application sends.

use bytes::Bytes;
use bytestring::ByteString;

use super::ClientError;
use crate::id::TopicName;
use crate::message::{Attribute, encoded_body_len};
use crate::protocol::check_token;

/// A message to be sent: a topic, a payload, which may be empty, and an optional attribute, a text that consumers see
/// beside the payload (07 §6). The empty attribute is one, too.
///
/// ```
/// # use metaq::client::Message;
/// # use metaq::id::TopicName;
/// let message = Message::new(TopicName::new("orders")?, "42 apples").with_attribute("fruit");
/// # Ok::<_, metaq::id::InvalidTopicName>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    topic: TopicName,
    payload: Bytes,
    attribute: Option<Attribute>,
}

impl Message {
    /// A message without an attribute. [`Bytes`] are not copied.
    pub fn new(topic: TopicName, payload: impl Into<Bytes>) -> Self {
        Self { topic, payload: payload.into(), attribute: None }
    }

    /// Gives it an attribute.
    #[must_use]
    pub fn with_attribute(mut self, attribute: impl Into<ByteString>) -> Self {
        self.attribute = Some(attribute.into());
        self
    }

    /// Where it goes.
    pub fn topic(&self) -> &TopicName {
        &self.topic
    }

    /// What it carries.
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// The attribute, if it has one.
    pub fn attribute(&self) -> Option<&str> {
        self.attribute.as_deref()
    }

    /// Bytes of payload and attribute as they are sent and stored, without the record's header of 20 bytes.
    pub fn encoded_len(&self) -> usize {
        encoded_body_len(self.attribute(), &self.payload)
    }
}

/// What a topic has to be so that a broker can be told of it.
pub(super) fn check_topic(topic: &TopicName) -> Result<(), ClientError> {
    if topic.as_str().trim().is_empty() {
        return Err(ClientError::InvalidMessage("Blank topic".to_owned()));
    }
    Ok(check_token("topic", topic.as_str())?)
}
