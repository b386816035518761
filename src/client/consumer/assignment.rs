//! Between the driver of a group and the engine that reads.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_core::future::BoxFuture;
use tracing::{debug, error};

use super::dispatch::Dispatch;
use super::watcher::RebalanceListener;
use crate::common::guard::lock;
use crate::common::panics::{caught, caught_async};
use crate::fetch::{FetchEngine, Released};
use crate::id::{TopicName, TopicPartition};
use crate::rebalance::Assignee;

/// Turns what the group decides into work of the engine, and tells the application.
pub(super) struct Assignment {
    pub(super) engine: Arc<FetchEngine>,
    pub(super) dispatch: Arc<Dispatch>,
    pub(super) listener: Option<Arc<dyn RebalanceListener>>,
    /// Longest wait for the listener.
    pub(super) patience: Duration,
    /// What came of releases since the end began.
    pub(super) at_the_end: Mutex<Option<Released>>,
}

impl Assignment {
    fn call(&self, call: impl FnOnce(&dyn RebalanceListener)) {
        if let Some(listener) = &self.listener
            && let Err(panic) = caught(|| call(&**listener))
        {
            self.told_panic(&panic);
        }
    }

    fn told_panic(&self, panic: &str) {
        error!(group = %self.dispatch.group, panic, "the rebalance listener panicked; the rebalance goes on");
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
        match self.engine.release(partitions).await {
            Ok(released) => {
                if let Some(all) = &mut *lock(&self.at_the_end) {
                    all.cancelled.extend(released.cancelled);
                    all.not_committed.extend(released.not_committed);
                }
            }
            Err(error) => debug!(%error, "partitions released by the end of the engine"),
        }
        for of in partitions {
            self.dispatch.given_up(of);
        }
    }

    /// From now on it counts for the whole consumer how partitions are released.
    pub(super) fn note_ending(&self) {
        lock(&self.at_the_end).get_or_insert_default();
    }

    /// What came of the releases since.
    pub(super) fn released_at_the_end(&self) -> Released {
        lock(&self.at_the_end).take().unwrap_or_default()
    }
}

impl Assignee for Assignment {
    fn assigned(&self, partitions: &[TopicPartition]) {
        // In this order the listener can seek.
        self.add(partitions);
        self.call(|listener| listener.assigned(partitions));
    }

    fn release<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.remove(partitions).await;
            if let Some(listener) = &self.listener {
                let revoked = match caught(|| listener.revoked(partitions)) {
                    Ok(revoked) => tokio::time::timeout(self.patience, caught_async(revoked)).await,
                    Err(panic) => Ok(Err(panic)),
                };
                match revoked {
                    Ok(Ok(())) => {}
                    Ok(Err(panic)) => self.told_panic(&panic),
                    Err(_) => error!(
                        group = %self.dispatch.group, drain_timeout = ?self.patience,
                        "the rebalance listener did not return in time and was cancelled; the rebalance goes on"
                    ),
                }
            }
        })
    }

    fn lost(&self, partitions: &[TopicPartition]) {
        if let Err(error) = self.engine.lose(partitions) {
            debug!(%error, "partitions lost after the end of the engine");
        }
        for of in partitions {
            self.dispatch.given_up(of);
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
