//! Between the driver of a group and the engine that reads.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use tracing::{debug, error};

use super::dispatch::Dispatch;
use super::panics::{caught, caught_call};
use super::watcher::RebalanceListener;
use crate::fetch::FetchEngine;
use crate::id::{TopicName, TopicPartition};
use crate::rebalance::Assignee;

/// Turns what the group decides into work of the engine, and tells the application.
pub(super) struct Assignment {
    pub(super) engine: Arc<FetchEngine>,
    pub(super) dispatch: Arc<Dispatch>,
    pub(super) listener: Option<Arc<dyn RebalanceListener>>,
}

impl Assignment {
    fn call(&self, call: impl FnOnce(&dyn RebalanceListener)) {
        if let Some(listener) = &self.listener
            && let Err(panic) = caught_call(|| call(&**listener))
        {
            error!(panic, "the rebalance listener panicked; the rebalance goes on");
        }
    }

    /// Begins to read.
    pub(super) fn add(&self, partitions: &[TopicPartition]) {
        let mut by_topic: BTreeMap<&TopicName, Vec<TopicPartition>> = BTreeMap::new();
        for of in partitions {
            by_topic.entry(&of.topic).or_default().push(of.clone());
        }
        for (topic, partitions) in by_topic {
            let size = self.dispatch.max_size(topic);
            // The size was checked when the topic was subscribed to; a stopped engine reads nothing any more.
            if let Err(error) = self.engine.add(&partitions, size) {
                debug!(%error, "partitions assigned too late");
            }
        }
    }

    /// Stops to read, in good order.
    pub(super) async fn remove(&self, partitions: &[TopicPartition]) {
        if let Err(error) = self.engine.release(partitions).await {
            debug!(%error, "partitions released by the end of the engine");
        }
    }
}

impl Assignee for Assignment {
    fn assigned(&self, partitions: &[TopicPartition]) {
        self.call(|listener| listener.assigned(partitions));
        self.add(partitions);
    }

    fn release<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.remove(partitions).await;
            if let Some(listener) = &self.listener {
                let revoked = match caught_call(|| listener.revoked(partitions)) {
                    Ok(revoked) => caught(revoked).await,
                    Err(panic) => Err(panic),
                };
                if let Err(panic) = revoked {
                    error!(panic, "the rebalance listener panicked; the rebalance goes on");
                }
            }
        })
    }

    fn lost(&self, partitions: &[TopicPartition]) {
        if let Err(error) = self.engine.lose(partitions) {
            debug!(%error, "partitions lost after the end of the engine");
        }
        self.call(|listener| listener.lost(partitions));
    }

    fn fence(&self, fenced: bool) {
        self.engine.fence(fenced);
    }
}

impl fmt::Debug for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assignment").finish_non_exhaustive()
    }
}
