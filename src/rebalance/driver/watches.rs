//! Armed watches, waited for by one task each.

use std::future::pending;

use tokio::task::{AbortHandle, JoinSet};

use super::view::List;
use crate::id::TopicPartition;
use crate::zk::Watch;

/// What a watch is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Watched {
    /// A list of the group or of a topic.
    List(List),
    /// Our id node, which somebody else has.
    Member,
    /// The owner node of a partition, ours or somebody else's.
    Owner(TopicPartition),
}

/// A watch that was armed and has not fired; it is given up when this is dropped.
#[derive(Debug)]
pub(super) struct Armed {
    number: u64,
    task: AbortHandle,
}

/// A watch that has fired.
#[derive(Debug)]
pub(super) struct Fired {
    pub(super) what: Watched,
    number: u64,
}

impl Armed {
    pub(super) fn is(&self, fired: &Fired) -> bool {
        self.number == fired.number
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// All watches of a session.
#[derive(Debug, Default)]
pub(super) struct Watches {
    tasks: JoinSet<Fired>,
    armed: u64,
}

impl Watches {
    pub(super) fn arm(&mut self, what: Watched, watch: Watch) -> Armed {
        self.armed += 1;
        let number = self.armed;
        let task = self.tasks.spawn(async move {
            watch.await;
            Fired { what, number }
        });
        Armed { number, task }
    }

    /// Gives all up.
    pub(super) fn clear(&mut self) {
        self.tasks.abort_all();
        self.tasks.detach_all();
    }

    /// The next one that fires. Cancellation-safe.
    pub(super) async fn fired(&mut self) -> Fired {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(fired)) => return fired,
                // Given up.
                Some(Err(_)) => {}
                None => pending().await,
            }
        }
    }

    /// One that has fired already.
    pub(super) fn try_fired(&mut self) -> Option<Fired> {
        loop {
            if let Ok(fired) = self.tasks.try_join_next()? {
                return Some(fired);
            }
        }
    }
}
