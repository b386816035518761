//! What a driver reports.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::id::{TopicName, TopicPartition};
use crate::zk::{CoordinatorError, NotConnected, SessionId};

/// Where a member of a group stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DriverState {
    /// Whether it belongs to the group.
    pub phase: Phase,
    /// What the latest plan gives it.
    pub wanted: Arc<BTreeSet<TopicPartition>>,
    /// What it owns: assigned, and neither released nor lost.
    pub owned: Arc<BTreeSet<TopicPartition>>,
    /// How many of these it is giving up just now.
    pub releasing: usize,
    /// Whether deliveries and commits are stopped, because the session may be over.
    pub fenced: bool,
    /// The latest rebalance.
    pub rebalance: Rebalance,
    /// Counts how often brokers have come to, gone from or changed a topic of this member.
    pub broker_changes: u64,
}

impl DriverState {
    /// What the plan gives it and it does not own yet.
    pub fn pending(&self) -> impl Iterator<Item = &TopicPartition> {
        self.wanted.difference(&self.owned)
    }

    /// Whether it owns exactly what the plan gives it.
    pub fn is_settled(&self) -> bool {
        self.phase == Phase::Member && self.releasing == 0 && self.wanted == self.owned
    }
}

/// Whether a driver's member belongs to its group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Phase {
    /// Not yet: ZooKeeper is not reached, or a node is in the way.
    #[default]
    Joining,
    /// It has a node of its own and a plan.
    Member,
    /// It was a member, and has no node at present; that is repaired by itself.
    Rejoining,
    /// It is leaving, or has given up joining and cleans up.
    Leaving,
    /// It is gone, and the driver with it.
    Left(Left),
    /// It could not join, and the driver has ended.
    Failed(JoinError),
    /// A fault of this library has ended the driver; the text is what it panicked with. All partitions are lost, and the
    /// member's nodes remain until the ZooKeeper session ends.
    Panicked(Arc<str>),
}

/// A plan that changed something, in numbers of partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rebalance {
    /// Counts the rebalances of this driver, from 1; 0 before the first.
    pub number: u64,
    /// Kept.
    pub kept: usize,
    /// Given up.
    pub released: usize,
    /// To be claimed.
    pub claimed: usize,
}

/// How a member left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// All partitions are released, all its nodes are removed.
    Complete,
    /// All partitions are released, but nodes may remain until ZooKeeper ends the session.
    Incomplete {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => f.write_str("left the group"),
            Self::Incomplete { reason } => {
                write!(f, "left the group, but its nodes may remain until the ZooKeeper session ends: {reason}")
            }
        }
    }
}

/// Why a consumer could not join its group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// No session with ZooKeeper in time.
    #[error(transparent)]
    NotConnected(#[from] NotConnected),
    /// ZooKeeper did not answer in time what had to be asked.
    #[error("could not join the consumer group within {ms} ms: {reason}")]
    Unanswered {
        /// The time allowed, in milliseconds.
        ms: u128,
        /// The last failure.
        reason: CoordinatorError,
    },
    /// ZooKeeper refuses what joining takes; to try again does not help.
    #[error("could not join the consumer group: {0}")]
    Refused(CoordinatorError),
    /// Another consumer has the id, and has kept it for one session time-out.
    #[error(
        "consumer id {consumer} is in use by another consumer (ZooKeeper node {path}, session {session}); \
         stop that one or give this one another consumerId"
    )]
    IdInUse {
        /// The id.
        consumer: String,
        /// Its node.
        path: String,
        /// The session that the node belongs to.
        session: SessionId,
    },
    /// Somebody has made a node of this name that does not go with a session.
    #[error(
        "consumer id {consumer} is in use: ZooKeeper node {path} belongs to no session, so no consumer has made it; \
         delete it or give this consumer another consumerId"
    )]
    IdBlocked {
        /// The id.
        consumer: String,
        /// The node.
        path: String,
    },
    /// A topic that the members of a group cannot tell each other.
    #[error("topic '{0}' cannot be subscribed to: a comma separates the topics of a consumer in ZooKeeper; rename it")]
    Topic(TopicName),
    /// The strategy of the application panicked.
    #[error("the load balance strategy panicked: {0}; correct it, it must have a share for every member of any group")]
    Strategy(String),
    /// A fault of this library has ended the driver.
    #[error(
        "the member of the consumer group has ended by a fault of its own, restart the process and report this: {0}"
    )]
    Panicked(Arc<str>),
    /// [`Driver::leave`](super::Driver::leave) came first.
    #[error("the consumer was shut down before it had joined its group")]
    Left,
}
