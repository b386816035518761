//! What is read of a topic, and what one read by hand brings.

use std::sync::Arc;

use super::dispatch::{Handler, Subscription};
use super::error::ConsumerError;
use super::filter::MessageFilter;
use crate::client::ClientError;
use crate::fetch::{FetchOptions, Fetched, ReceivedMessage};
use crate::id::{Offset, TopicPartition};
use crate::message::Records;

/// How a topic is read.
pub struct SubscribeOptions {
    max_size: i32,
    filter: Option<Box<dyn MessageFilter>>,
}

impl SubscribeOptions {
    /// Asks for so many bytes at a time, at least 1. It is the most that one answer brings, not the limit of a message:
    /// for a larger one more is asked for.
    pub fn new(max_size: i32) -> Self {
        Self { max_size, filter: None }
    }

    /// Leaves out what the filter does not accept.
    #[must_use]
    pub fn filter(mut self, filter: impl MessageFilter) -> Self {
        self.filter = Some(Box::new(filter));
        self
    }

    pub(super) fn with(self, handler: Handler) -> Result<Subscription, ConsumerError> {
        if self.max_size <= 0 {
            return Err(ConsumerError::MaxSize(self.max_size));
        }
        Ok(Subscription { max_size: self.max_size, filter: self.filter, handler })
    }
}

impl std::fmt::Debug for SubscribeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SubscribeOptions")
            .field("max_size", &self.max_size)
            .field("filter", &self.filter.is_some())
            .finish()
    }
}

/// What one get brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetch {
    /// Whole messages from the offset on. None if not even one fits the size: ask for more.
    Messages(Vec<ReceivedMessage>),
    /// Nothing begins at the offset any more, or yet: the partition begins, or ends, here.
    Moved(Offset),
    /// Nothing there, or not yet.
    Nothing,
}

impl Fetch {
    pub(super) fn of(
        from: TopicPartition,
        offset: Offset,
        fetched: Fetched,
        options: &FetchOptions,
    ) -> Result<Self, ClientError> {
        let data = match fetched {
            Fetched::Data(data) => data,
            Fetched::Moved { to, .. } => return Ok(Self::Moved(to)),
            Fetched::Nothing { .. } => return Ok(Self::Nothing),
        };
        let from = Arc::new(from);
        let damaged = |reason: String| ClientError::from(ConsumerError::Damaged { offset, reason });
        let at = |position: usize| offset.checked_add(position as u64).unwrap_or(Offset::LATEST);
        let mut messages = Vec::new();
        let mut records = Records::new(data, options.max_read_buffer_size);
        while let Some(record) = records.next() {
            let record = record.map_err(|error| damaged(error.to_string()))?;
            let body = record.decode_body().map_err(|error| damaged(error.to_string()))?;
            messages.push(ReceivedMessage {
                from: Arc::clone(&from),
                offset: at(record.position),
                next_offset: at(records.consumed()),
                id: record.header.id,
                attribute: body.attribute,
                payload: body.payload,
                redeliveries: 0,
            });
        }
        Ok(Self::Messages(messages))
    }
}
