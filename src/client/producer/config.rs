//! Settings of a producer.

use std::sync::Arc;

use super::selector::{PartitionSelector, RoundRobinSelector};
use crate::client::{ClientError, ConfigError};
use crate::id::PartitionIndex;

/// Messages of a producer that may wait for their answers at a time.
pub const DEFAULT_IN_FLIGHT_MESSAGES: u32 = 1024;
/// Bytes of those.
pub const DEFAULT_IN_FLIGHT_BYTES: u32 = 64 << 20;
/// Largest message, payload and attribute: what consumers of the reference take.
pub const DEFAULT_MAX_MESSAGE_BYTES: usize = 2 << 20;

/// Settings of a [`Producer`](super::Producer): the default ones, then refined.
#[derive(Debug, Clone)]
pub struct ProducerConfig {
    pub(super) selector: Arc<dyn PartitionSelector>,
    pub(super) in_flight_messages: u32,
    pub(super) in_flight_bytes: u32,
    pub(super) max_message_bytes: Option<usize>,
    pub(super) retries: Retries,
    pub(super) wait_for_broker: bool,
    pub(super) server_partition: PartitionIndex,
}

/// Which failures are answered by sending once more, to another partition if there is one. Each attempt counts against
/// the message's one time-out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retries {
    pub(super) attempts: u32,
    pub(super) refused: bool,
    pub(super) unknown: bool,
}

impl Default for ProducerConfig {
    fn default() -> Self {
        Self {
            selector: Arc::new(RoundRobinSelector::default()),
            in_flight_messages: DEFAULT_IN_FLIGHT_MESSAGES,
            in_flight_bytes: DEFAULT_IN_FLIGHT_BYTES,
            max_message_bytes: Some(DEFAULT_MAX_MESSAGE_BYTES),
            retries: Retries::none(),
            wait_for_broker: false,
            server_partition: PartitionIndex::RANDOM,
        }
    }
}

impl ProducerConfig {
    /// Who chooses the partition of each message; in turn, beginning with the second, if not set.
    #[must_use]
    pub fn selector(mut self, selector: impl PartitionSelector + 'static) -> Self {
        self.selector = Arc::new(selector);
        self
    }

    /// Messages that may wait for their answers at a time, at least 1; 1024 if not set. Beyond, sending waits.
    #[must_use]
    pub fn in_flight_messages(mut self, count: u32) -> Self {
        self.in_flight_messages = count;
        self
    }

    /// Bytes of messages that may wait for their answers at a time, at least 1; 64 MiB if not set. A message that is
    /// larger than that is sent alone.
    #[must_use]
    pub fn in_flight_bytes(mut self, bytes: u32) -> Self {
        self.in_flight_bytes = bytes;
        self
    }

    /// Largest payload with attribute in bytes; 2 MiB if not set, which is what consumers of the reference take
    /// (`notify.remoting.max_read_buffer_size`). `None` leaves the limit to the broker.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: Option<usize>) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Which failures are answered by sending once more; none if not set, as the reference does.
    #[must_use]
    pub fn retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// Whether messages for a broker that cannot be reached wait for it, in their order, until their time is over;
    /// if not set they fail at once, or are [sent elsewhere](Self::retries).
    #[must_use]
    pub fn wait_for_broker(mut self, wait: bool) -> Self {
        self.wait_for_broker = wait;
        self
    }

    /// The partition to send to where one broker is known by its address only; that broker chooses if not set. Selectors
    /// are not asked there.
    #[must_use]
    pub fn server_partition(mut self, partition: PartitionIndex) -> Self {
        self.server_partition = partition;
        self
    }

    pub(super) fn check(&self) -> Result<(), ClientError> {
        let positive = [("in_flight_messages", self.in_flight_messages), ("in_flight_bytes", self.in_flight_bytes)];
        match positive.into_iter().find(|&(_, value)| value == 0) {
            Some((name, _)) => Err(ConfigError::OutOfRange { name, expected: "at least 1" }.into()),
            None => Ok(()),
        }
    }
}

impl Retries {
    /// None.
    pub const fn none() -> Self {
        Self { attempts: 0, refused: false, unknown: false }
    }

    /// So many more attempts at a message whose broker could not be reached. It was not stored, so there are no
    /// duplicates; but it may come to lie behind messages that were sent after it.
    pub const fn of_unsent(attempts: u32) -> Self {
        Self { attempts, refused: false, unknown: false }
    }

    /// Also after a broker said that it did not store the message: a closed partition, a broker that is stopping.
    #[must_use]
    pub const fn and_refused(mut self) -> Self {
        self.refused = true;
        self
    }

    /// Also when nobody knows whether the message was stored: no answer came, or an internal error of the broker (500).
    /// **It may be stored twice.**
    #[must_use]
    pub const fn and_unknown(mut self) -> Self {
        self.unknown = true;
        self
    }
}
