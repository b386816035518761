//! What is special about the errors of consumers. Texts before a colon or parenthesis are the reference's.

use std::sync::Arc;

use crate::client::Fault;
use crate::fetch::FetchError;
use crate::id::{GroupName, InvalidGroupName, TopicName};
use crate::rebalance::JoinError;

/// Why a consumer did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumerError {
    /// Not a name for a group.
    #[error(transparent)]
    Group(#[from] InvalidGroupName),
    /// No listener could run.
    #[error("Invalid fetchRunnerCount:{0} (at least 1)")]
    RunnerCount(usize),
    /// No answer could come in time.
    #[error("Invalid fetchTimeoutInMills:{0} (above 0)")]
    FetchTimeout(u64),
    /// No storage can answer in no time.
    #[error("the storage time-out must be above 0")]
    StorageTimeout,
    /// Not the name of a member.
    #[error(
        "consumerId '{0}' cannot be part of a ZooKeeper path: use up to 200 bytes without '/' and control characters"
    )]
    ConsumerId(String),
    /// Nothing can be asked for.
    #[error("maxSize <=0: ask for 1 byte at least, not {0}")]
    MaxSize(i32),
    /// The consumer has the topic already.
    #[error("Topic={0} has been subscribered")]
    Subscribed(TopicName),
    /// Another consumer of the factory has it.
    #[error(
        "Topic={topic} has been subscribered by group {group}: use another factory for a second member of the group"
    )]
    SubscribedByGroup {
        /// The topic.
        topic: TopicName,
        /// The group.
        group: GroupName,
    },
    /// The work has begun.
    #[error(
        "Consumer has been already registed: subscribe to everything before complete_subscribe, and call that once"
    )]
    Registered,
    /// The work has not begun.
    #[error("the consumer reads nothing yet: call complete_subscribe or assign first")]
    NotStarted,
    /// Nothing to do.
    #[error("the consumer subscribes to nothing: call subscribe first")]
    NothingSubscribed,
    /// Partitions come from the group.
    #[error("the partitions of this consumer come from its group: use another consumer to assign them by hand")]
    AssignedByGroup,
    /// Assigned by hand without a listener.
    #[error("topic {0} has no listener in this consumer: subscribe to it before partitions of it are assigned")]
    NoListener(TopicName),
    /// Without ZooKeeper nobody tells which partitions there are.
    #[error(
        "name the partition to read from this one broker (ConsumerConfig::partition), or connect through ZooKeeper"
    )]
    NoPartition,
    /// It could not become a member of its group.
    #[error(transparent)]
    Join(JoinError),
    /// A fault of this library has ended it; [`ClientEvent::ConsumerPanicked`](crate::client::ClientEvent::ConsumerPanicked)
    /// told.
    #[error("the consumer has ended by a fault of its own, restart the process and report this: {0}")]
    Panicked(Arc<str>),
    /// The engine refused.
    #[error(transparent)]
    Fetch(Arc<FetchError>),
    /// At the end, offsets could not be stored or listeners did not end.
    #[error(
        "{not_committed} offsets could not be stored and {cancelled} listeners were cancelled at the end: what they had \
         handled is delivered again"
    )]
    Unclean {
        /// Partitions whose offsets were not stored.
        not_committed: usize,
        /// Partitions whose listeners were cancelled.
        cancelled: usize,
    },
    /// At the end, nodes of the member may remain.
    #[error("{0}; the other members wait for that")]
    Left(String),
    /// What was read is no sequence of messages.
    #[error("partition data from offset {offset} on is damaged: {reason}; ask the broker for the nearest offset")]
    Damaged {
        /// The offset asked for.
        offset: crate::id::Offset,
        /// What is wrong.
        reason: String,
    },
}

impl From<FetchError> for ConsumerError {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Panicked(panic) => Self::Panicked(panic),
            error => Self::Fetch(Arc::new(error)),
        }
    }
}

impl From<JoinError> for ConsumerError {
    fn from(error: JoinError) -> Self {
        match error {
            JoinError::Panicked(panic) => Self::Panicked(panic),
            error => Self::Join(error),
        }
    }
}

impl ConsumerError {
    /// Where to look first.
    pub(in crate::client) fn fault(&self) -> Fault {
        match self {
            Self::Join(JoinError::NotConnected(_) | JoinError::Unanswered { .. } | JoinError::Refused(_))
            | Self::Left(_)
            | Self::Unclean { .. } => Fault::Coordinator,
            Self::Fetch(error) => match **error {
                FetchError::Source(_) => Fault::Broker,
                FetchError::NotCommitted { .. } | FetchError::Fenced => Fault::Coordinator,
                _ => Fault::Caller,
            },
            Self::Damaged { .. } => Fault::Broker,
            Self::Panicked(_) => Fault::Library,
            _ => Fault::Caller,
        }
    }
}
