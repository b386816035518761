//! What happens to a factory while it runs, for applications that show or react to it.

use tokio::sync::broadcast;

use crate::id::{Partition, TopicName};

/// Events that a slow reader may be behind before it loses the oldest ones.
pub const EVENT_CAPACITY: usize = 256;

/// Something that happened; the log tells the same.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientEvent {
    /// A session with ZooKeeper is there, the first, a new one, or one whose connection is restored.
    SessionConnected,
    /// The connection to ZooKeeper is lost; the session may still live.
    SessionDisconnected,
    /// The session with ZooKeeper is over; a new one follows.
    SessionExpired,
    /// A connection to a broker is there.
    BrokerConnected {
        /// `host:port`.
        address: String,
    },
    /// A connection to a broker ended, not by this client's wish; the next use makes a new one.
    BrokerLost {
        /// `host:port`.
        address: String,
        /// Why.
        reason: String,
    },
    /// A broker could not be reached; it is tried again after a pause, if somebody needs it.
    BrokerUnreachable {
        /// `host:port`.
        address: String,
        /// Why.
        reason: String,
    },
    /// A topic that is published has other partitions now.
    PartitionsChanged {
        /// The topic.
        topic: TopicName,
        /// All its partitions, in the order of selectors.
        partitions: Vec<Partition>,
    },
}

/// The way to everybody who listens.
#[derive(Debug, Clone)]
pub(crate) struct Events(broadcast::Sender<ClientEvent>);

impl Events {
    pub(crate) fn new() -> Self {
        Self(broadcast::Sender::new(EVENT_CAPACITY))
    }

    pub(crate) fn emit(&self, event: ClientEvent) {
        // An error says that nobody listens.
        let _ = self.0.send(event);
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<ClientEvent> {
        self.0.subscribe()
    }
}
