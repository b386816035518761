//! What happens to a factory while it runs, for applications that show or react to it.

use tokio::sync::broadcast;

use crate::id::{GroupName, MessageId, Offset, Partition, TopicName, TopicPartition};

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
    /// A consumer could not join its group and was shut down.
    JoinFailed {
        /// The group.
        group: GroupName,
        /// Why, and what to do.
        error: String,
    },
    /// A member of a group owns exactly what the group's plan gives it, after a change.
    Rebalanced {
        /// The group.
        group: GroupName,
        /// What it owns now.
        owned: Vec<TopicPartition>,
    },
    /// A consumer has ended by a fault of this library: it reads nothing any more. Restart the process, and report the reason.
    ConsumerPanicked {
        /// Its group.
        group: GroupName,
        /// What was said.
        reason: String,
    },
    /// Another member turned out to own a partition: it is not read any more.
    PartitionTaken {
        /// The partition.
        of: TopicPartition,
    },
    /// A partition cannot be read on from an offset. It is tried again with the longest pause; a seek ends it.
    PartitionStuck {
        /// The partition.
        of: TopicPartition,
        /// Where it stands.
        offset: Offset,
        /// What is wrong.
        reason: String,
    },
    /// Gets of a partition fail since now, because its broker cannot be reached or refuses them; they are repeated for ever.
    /// Told once for each outage of a partition.
    PartitionFailing {
        /// The partition.
        of: TopicPartition,
        /// What the first of them failed with.
        error: String,
    },
    /// A partition is read again whose gets failed, or whose stored offset could not be read.
    PartitionRecovered {
        /// The partition.
        of: TopicPartition,
    },
    /// A broker sent a consumer to another offset: there is nothing at the old one.
    OffsetMoved {
        /// The partition.
        of: TopicPartition,
        /// The old offset.
        from: Offset,
        /// The new one.
        to: Offset,
    },
    /// A listener did not handle a message; it is delivered again after a pause.
    ListenerFailed {
        /// Where it was read from.
        from: TopicPartition,
        /// Its offset.
        offset: Offset,
        /// How often in a row.
        times: u32,
        /// What the listener said.
        reason: String,
    },
    /// A message is not delivered again: it went to the handler for rejected ones.
    MessageRejected {
        /// Where it was read from.
        from: TopicPartition,
        /// Its offset.
        offset: Offset,
        /// Its id.
        id: MessageId,
        /// Why.
        reason: String,
    },
    /// The handler for rejected messages did not take one. Its partition stands still: the message is offered again, after
    /// growing pauses and for ever, and nothing behind it is delivered. Told once for each message;
    /// [`MessageRejected`](Self::MessageRejected) tells that it was taken.
    RejectFailed {
        /// Where it was read from.
        from: TopicPartition,
        /// Its offset.
        offset: Offset,
        /// What the handler said.
        error: String,
    },
    /// Offsets cannot be read or stored; it is tried again for ever.
    OffsetsUnavailable {
        /// A partition that it is about.
        of: TopicPartition,
        /// What the storage said.
        error: String,
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
