//! What the handle asks of the scheduler.

use tokio::sync::oneshot;

use crate::fetch::state::{PartitionState, Released};
use crate::fetch::{FetchError, SeekTo};
use crate::id::TopicPartition;
use crate::zk::Term;

#[derive(Debug)]
pub(super) enum Command {
    /// Stands in for a fault of ours: the task panics.
    #[cfg(test)]
    Fault,
    Add {
        of: Vec<TopicPartition>,
        size: i32,
        /// The session in which they were assigned.
        term: Option<Term>,
    },
    Release {
        of: Vec<TopicPartition>,
        reply: oneshot::Sender<Released>,
    },
    Lose {
        of: Vec<TopicPartition>,
    },
    /// The fence was put up or taken down.
    Fenced,
    Commit {
        reply: oneshot::Sender<Result<(), FetchError>>,
    },
    Pause {
        of: Vec<TopicPartition>,
        pause: bool,
        reply: oneshot::Sender<()>,
    },
    Seek {
        of: TopicPartition,
        to: SeekTo,
        reply: oneshot::Sender<Result<(), FetchError>>,
    },
    /// One partition, or all.
    States {
        of: Option<TopicPartition>,
        reply: oneshot::Sender<Vec<PartitionState>>,
    },
    Stop {
        reply: oneshot::Sender<Released>,
    },
}
