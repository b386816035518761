//! What a fetch engine is told at its start.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::common::clock::bounded;
use crate::id::Offset;
use crate::zk::Lease;

use super::event::FetchObserver;
use super::request::RequestLimits;

/// How a [`FetchEngine`](super::FetchEngine) works; the defaults are those of the reference (05 §1) where it has the option.
#[derive(Debug, Clone)]
pub struct FetchOptions {
    /// Listeners at work at the same time, over all partitions (`fetchRunnerCount`); by default one for each CPU. Gets under
    /// way are not limited by it.
    pub runners: NonZeroUsize,
    /// Time-out of a get and of an offset query (`fetchTimeoutInMills`), 10 s.
    pub fetch_timeout: Duration,
    /// How long a broker that can do so may hold an answer back while there is nothing new; half of
    /// [`fetch_timeout`](Self::fetch_timeout) at most, and so by default. Zero switches it off.
    pub wait: Duration,
    /// The longest pause between two gets of a partition (`maxDelayFetchTimeInMills`), 5 s. Pauses grow by a tenth of it.
    pub max_delay: Duration,
    /// Between two periodic commits (`commitOffsetPeriodInMills`), 5 s; 1 ms at least.
    pub commit_period: Duration,
    /// Failed deliveries tolerated before a message is rejected (`maxFetchRetries`), 5: it is delivered once more than that.
    pub max_fetch_retries: u32,
    /// Answers without a whole message tolerated before the size asked for doubles (`maxIncreaseFetchDataRetries`), 5.
    pub max_increase_retries: u32,
    /// The largest body of a message that is accepted, and the size beyond which gets do not grow any more, in bytes
    /// (`notify.remoting.max_read_buffer_size`), 2 MiB.
    pub max_read_buffer_size: usize,
    /// Bytes that are being fetched or wait for their listener, over all partitions, 64 MiB. Answers at the end of a
    /// partition are not waited for but count when they are there: 64 KiB a partition at most.
    pub fetched_bytes: usize,
    /// How long a running listener may go on when its partition is released, 10 s; then it is cancelled.
    pub drain_timeout: Duration,
    /// How long the [`OffsetStorage`](super::OffsetStorage) may take for a commit or to read an offset, 30 s: as long as
    /// ZooKeeper takes by default to end a session. Then that counts as failed, and is tried again later. Releases,
    /// [`commit`](super::FetchEngine::commit) and [`stop`](super::FetchEngine::stop) wait twice as long at most: for a
    /// commit that is under way, and for theirs.
    pub storage_timeout: Duration,
    /// Where to begin when nothing is stored (`offset`), the earliest by default.
    pub start: SeekTo,
    /// Begin at the end whatever is stored, whenever a partition is added (`alwaysConsumeFromMaxOffset`): what came in
    /// between is skipped, also after each hand-over between members.
    pub always_from_max: bool,
    /// Tells before each delivery and each commit whether the session of the group's member is known to live: while it is
    /// not, none begins. `None` without a group.
    pub lease: Option<Lease>,
    /// Is told what happens.
    pub observer: Option<Arc<dyn FetchObserver>>,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self {
            runners: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            fetch_timeout: Duration::from_secs(10),
            wait: Duration::from_secs(5),
            max_delay: Duration::from_secs(5),
            commit_period: Duration::from_secs(5),
            max_fetch_retries: 5,
            max_increase_retries: 5,
            max_read_buffer_size: 2 << 20,
            fetched_bytes: 64 << 20,
            drain_timeout: Duration::from_secs(10),
            storage_timeout: Duration::from_secs(30),
            start: SeekTo::Earliest,
            always_from_max: false,
            lease: None,
            observer: None,
        }
    }
}

impl FetchOptions {
    /// The same with times that every clock can express.
    pub(crate) fn bounded(mut self) -> Self {
        let times = [
            &mut self.fetch_timeout,
            &mut self.wait,
            &mut self.max_delay,
            &mut self.commit_period,
            &mut self.drain_timeout,
            &mut self.storage_timeout,
        ];
        times.into_iter().for_each(|time| *time = bounded(*time));
        self
    }

    pub(super) fn limits(&self) -> RequestLimits {
        RequestLimits {
            max_delay: self.max_delay,
            max_retries: self.max_fetch_retries,
            max_increase: self.max_increase_retries,
            max_read_buffer: self.max_read_buffer_size,
        }
    }

    /// The wait to ask for.
    pub(super) fn held(&self) -> Duration {
        self.wait.min(self.fetch_timeout / 2)
    }

    pub(super) fn period(&self) -> Duration {
        self.commit_period.max(Duration::from_millis(1))
    }
}

/// A place in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeekTo {
    /// This byte, at which a message must begin.
    Offset(Offset),
    /// The oldest message that is still there.
    Earliest,
    /// Behind the newest message. The broker says where that is when it is asked first: what arrives before is skipped
    /// (05 §8).
    Latest,
}

impl SeekTo {
    /// What to ask for: the broker corrects it if there is nothing (301).
    pub(super) fn offset(self) -> Offset {
        match self {
            Self::Offset(offset) => offset,
            Self::Earliest => Offset::ZERO,
            Self::Latest => Offset::LATEST,
        }
    }
}

impl fmt::Display for SeekTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offset(offset) => write!(f, "offset {offset}"),
            Self::Earliest => f.write_str("the earliest message"),
            Self::Latest => f.write_str("the end"),
        }
    }
}
