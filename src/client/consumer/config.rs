//! Settings of a consumer (05 §1).

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use super::error::ConsumerError;
use super::identity::is_admissible;
use super::reject::{LogRejected, RejectHandler};
use super::watcher::RebalanceListener;
use crate::fetch::{FetchOptions, MessageIdCache, RecentMessages, SeekTo};
use crate::id::{GroupName, InvalidGroupName, Offset, Partition};
use crate::rebalance::{LoadBalanceStrategy, RangeStrategy};

/// Settings of a consumer, with the reference's names and defaults where it has the same setting.
#[derive(Debug, Clone)]
pub struct ConsumerConfig {
    pub(super) group: GroupName,
    pub(super) consumer_id: Option<String>,
    /// As given, to be checked; the processors if not.
    pub(super) runners: Option<usize>,
    pub(super) fetch: FetchOptions,
    pub(super) strategy: Arc<dyn LoadBalanceStrategy>,
    pub(super) partition: Option<Partition>,
    pub(super) reject: Arc<dyn RejectHandler>,
    pub(super) suppression: Suppression,
    pub(super) rebalance_listener: Option<Arc<dyn RebalanceListener>>,
}

/// Where handled messages are remembered.
#[derive(Debug, Clone)]
pub(super) enum Suppression {
    /// In what the process shares.
    Shared,
    /// As the application says.
    Own(Option<Arc<dyn MessageIdCache>>),
}

impl ConsumerConfig {
    /// Defaults for a group.
    ///
    /// # Errors
    /// [`InvalidGroupName`], with the reference's texts.
    pub fn new(group: impl AsRef<str>) -> Result<Self, InvalidGroupName> {
        Ok(Self {
            group: GroupName::new(group.as_ref().to_owned())?,
            consumer_id: None,
            runners: None,
            fetch: FetchOptions::default(),
            strategy: Arc::new(RangeStrategy),
            partition: None,
            reject: Arc::new(LogRejected),
            suppression: Suppression::Shared,
            rebalance_listener: None,
        })
    }

    /// The member's name within the group, in the place of `<local host>-<process id>-<random UUID>`. No two members may
    /// have the same; a second one fails in [`complete_subscribe`](super::Consumer::complete_subscribe).
    #[must_use]
    pub fn consumer_id(mut self, id: impl Into<String>) -> Self {
        self.consumer_id = Some(id.into());
        self
    }

    /// Listeners at work at the same time, at least 1; default: the number of processors. A partition occupies at most
    /// one. Gets are not limited by it.
    #[must_use]
    pub fn fetch_runner_count(mut self, runners: usize) -> Self {
        self.runners = Some(runners);
        self
    }

    /// Longest wait for the answer to a get or an offset query; above 0, default 10 s. A broker that can do so holds a get
    /// back for half of it at most.
    #[must_use]
    pub fn fetch_timeout(mut self, timeout: Duration) -> Self {
        self.fetch.fetch_timeout = timeout;
        self
    }

    /// Longest pause between two gets of a partition: without data from a broker on the JVM, after errors, before a
    /// message is delivered again. Pauses grow by a tenth of it. Default 5 s.
    #[must_use]
    pub fn max_delay_fetch_time(mut self, delay: Duration) -> Self {
        self.fetch.max_delay = delay;
        self
    }

    /// Where to start in a partition for which the group has no offset stored; default offset 0. An offset that lies
    /// before the oldest message means that one.
    #[must_use]
    pub fn offset(mut self, offset: Offset) -> Self {
        self.fetch.start = SeekTo::Offset(offset);
        self
    }

    /// Starts at the end of a partition for which the group has no offset stored.
    ///
    /// While the partition has no message at all on its broker, those that come before the first get are skipped, as
    /// with the reference (05 §8).
    #[must_use]
    pub fn consume_from_max_offset(mut self) -> Self {
        self.fetch.start = SeekTo::Latest;
        self
    }

    /// Starts at the end *whenever* a partition is claimed, whatever is stored: after each rebalance, each lost session.
    /// Messages that came in between are skipped. Meant for tests and for listeners that only want what is new.
    #[must_use]
    pub fn always_consume_from_max_offset(mut self) -> Self {
        self.fetch.start = SeekTo::Latest;
        self.fetch.always_from_max = true;
        self
    }

    /// How often offsets are stored; above 0, default 5 s. A consumer that is killed repeats at most so much.
    #[must_use]
    pub fn commit_offset_period(mut self, period: Duration) -> Self {
        self.fetch.commit_period = period;
        self
    }

    /// After how many failures of a listener on the same message it is rejected: with the default of 5 it is delivered
    /// 6 times, within 10 s. If the messages before it in the same answer of the broker were handled, it is delivered once
    /// more than that.
    #[must_use]
    pub fn max_fetch_retries(mut self, retries: u32) -> Self {
        self.fetch.max_fetch_retries = retries;
        self
    }

    /// After how many answers without a whole message twice the bytes are asked for; default 5.
    #[must_use]
    pub fn max_increase_fetch_data_retries(mut self, retries: u32) -> Self {
        self.fetch.max_increase_retries = retries;
        self
    }

    /// Bytes that may be fetched and not yet handled, over all partitions of the consumer; default 64 MiB.
    #[must_use]
    pub fn fetched_bytes(mut self, bytes: usize) -> Self {
        self.fetch.fetched_bytes = bytes;
        self
    }

    /// How long a listener at work may hold up the release of its partition before it is cancelled; default 10 s. Members
    /// on the JVM give up claiming after 7 times their `zkSyncTimeMs` and wait for the next change.
    #[must_use]
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.fetch.drain_timeout = timeout;
        self
    }

    /// How long the storage of offsets may take for a commit or to read an offset, before that counts as failed and is tried
    /// again later; above 0, default 30 s. A storage that hangs holds up the release of partitions,
    /// [`commit`](super::Consumer::commit) and the end twice as long at most.
    #[must_use]
    pub fn storage_timeout(mut self, timeout: Duration) -> Self {
        self.fetch.storage_timeout = timeout;
        self
    }

    /// Who of the group reads which partition; default [`RangeStrategy`]. All members must use the same.
    #[must_use]
    pub fn load_balance_strategy(mut self, strategy: impl LoadBalanceStrategy + 'static) -> Self {
        self.strategy = Arc::new(strategy);
        self
    }

    /// The partition to read without ZooKeeper, from the server that the factory was made for.
    #[must_use]
    pub fn partition(mut self, partition: Partition) -> Self {
        self.partition = Some(partition);
        self
    }

    /// What becomes of messages that are not delivered again; default [`LogRejected`].
    #[must_use]
    pub fn reject_handler(mut self, handler: impl RejectHandler) -> Self {
        self.reject = Arc::new(handler);
        self
    }

    /// Remembers handled messages here, so that one that comes again, from this or another consumer of the same group in
    /// the process, is not delivered again; `None` switches that off. Default: a cache of 4 096 messages that all consumers
    /// of the process share that read from the same cluster (`zkConnect` and `zkRoot`). Partitions chosen by hand are read again on purpose: for them there is none.
    #[must_use]
    pub fn duplicate_suppression(mut self, seen: Option<Arc<dyn MessageIdCache>>) -> Self {
        self.suppression = Suppression::Own(seen);
        self
    }

    /// Is told of partitions that come and go.
    #[must_use]
    pub fn rebalance_listener(mut self, listener: impl RebalanceListener) -> Self {
        self.rebalance_listener = Some(Arc::new(listener));
        self
    }

    /// Bytes of the largest message that is accepted; larger ones make the partition stand still, which is told. Default
    /// 2 MiB.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.fetch.max_read_buffer_size = bytes;
        self
    }

    /// Where to remember handled messages of a cluster.
    pub(super) fn seen(&self, cluster: &str) -> Option<Arc<dyn MessageIdCache>> {
        match &self.suppression {
            Suppression::Shared => Some(RecentMessages::shared(cluster)),
            Suppression::Own(seen) => seen.clone(),
        }
    }

    /// Checks what only a consumer can be told of, and yields what its engine works with.
    pub(super) fn checked(&self) -> Result<FetchOptions, ConsumerError> {
        let mut options = self.fetch.clone();
        if let Some(runners) = self.runners {
            options.runners = NonZeroUsize::new(runners).ok_or(ConsumerError::RunnerCount(runners))?;
        }
        if options.fetch_timeout.is_zero() {
            return Err(ConsumerError::FetchTimeout(0));
        }
        if options.storage_timeout.is_zero() {
            return Err(ConsumerError::StorageTimeout);
        }
        if let Some(id) = self.consumer_id.as_ref().filter(|id| !is_admissible(id)) {
            return Err(ConsumerError::ConsumerId(id.clone()));
        }
        Ok(options.bounded())
    }

    /// The group.
    pub fn group(&self) -> &GroupName {
        &self.group
    }
}
