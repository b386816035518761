//! Telling the application of partitions that come and go.

use std::fmt;

use futures_core::future::BoxFuture;

use crate::id::TopicPartition;

/// Is told of partitions that come and go. Calls come one at a time, in order; while one runs, no rebalance goes on: be
/// quick.
pub trait RebalanceListener: Send + Sync + 'static {
    /// These partitions are read from now on.
    fn assigned(&self, _partitions: &[TopicPartition]) {}

    /// These are not read any more: their listeners have ended and their offsets are stored. Other members may read them
    /// once this has returned.
    fn revoked<'a>(&'a self, _partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    /// These were taken without notice, for example because the ZooKeeper session was lost: others may read them
    /// already, and what was handled since the last commit comes again.
    fn lost(&self, _partitions: &[TopicPartition]) {}
}

impl fmt::Debug for dyn RebalanceListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RebalanceListener")
    }
}
