//! The engine's handle. The work is done by one task, the scheduler, and by short tasks for each get, delivery and commit;
//! an idle partition is an entry of a queue, or a get that a broker holds.
//!
//! | part | what it does |
//! |---|---|
//! | `scheduler` | the task: what is due, who waits for room or a runner |
//! | `slot` | one partition |
//! | `gets`, `answer` | loading offsets, asking brokers, what comes back |
//! | `deliveries` | listeners |
//! | `commits` | offsets to the storage, one commit after the other |
//! | `leaving` | releasing, losing, stopping |
//! | `requests` | the other wishes of the handle |
//! | `hanging` | the name of a storage that does not answer |
//! | `budget` | memory for what was fetched |
//! | `outages` | which failures are told |
//! | `supervision` | what is known when the task has ended by a panic |

mod answer;
mod budget;
mod command;
mod commits;
mod deliveries;
mod gets;
mod hanging;
mod leaving;
mod outages;
mod requests;
mod scheduler;
mod slot;
mod supervision;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::id::{GroupName, Offset, TopicPartition};
use crate::zk::Lease;
use crate::zk::format::StoredOffset;

use super::{
    FetchError, FetchOptions, Fetched, Get, MessageSink, MessageSource, OffsetStorage, PartitionState, Released, SeekTo,
};
use command::Command;
use scheduler::Scheduler;
use supervision::End;

/// Bytes asked for when only the answer's kind is of interest.
const PROBE_SIZE: i32 = 1024;

/// Reads partitions and gives their messages to a sink, those of a partition in order, and keeps offsets.
///
/// Every message is handled at least once, and an offset is stored only when everything before it was handled. A broker
/// that cannot be reached stops its own partitions and no others; nothing is given up.
///
/// Should it end by a fault of its own, every call fails with [`FetchError::Panicked`] from then on.
///
/// Nothing blocks when it is dropped: listeners are cancelled, and what was handled since the last commit is delivered again
/// later. Call [`stop`](Self::stop) for a clean end.
#[derive(Debug)]
pub struct FetchEngine {
    commands: mpsc::UnboundedSender<Command>,
    fenced: Arc<AtomicBool>,
    lease: Option<Lease>,
    source: Arc<dyn MessageSource>,
    fetch_timeout: Duration,
    end: End,
}

impl FetchEngine {
    /// Starts without partitions, in the present tokio runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime with a clock.
    pub fn start(
        source: Arc<dyn MessageSource>,
        sink: Arc<dyn MessageSink>,
        storage: Arc<dyn OffsetStorage>,
        group: GroupName,
        options: FetchOptions,
    ) -> Self {
        let options = options.bounded();
        let (commands, inbox) = mpsc::unbounded_channel();
        let fenced = Arc::new(AtomicBool::new(false));
        let (fetch_timeout, lease) = (options.fetch_timeout, options.lease.clone());
        let scheduler = Scheduler::new(Arc::clone(&source), sink, storage, group, options, Arc::clone(&fenced));
        let end = End::default();
        tokio::spawn(supervision::run(scheduler, inbox, end.clone()));
        Self { commands, fenced, lease, source, fetch_timeout, end }
    }

    /// Begins to read partitions, each from where its group stands; `max_size` is what a get asks for, in bytes. With a
    /// [lease](FetchOptions::lease), they are those of the session that it is for now. Returns before anything is known. A
    /// partition that is here already goes on untouched.
    ///
    /// # Errors
    /// [`FetchError::Size`], [`FetchError::Stopped`].
    pub fn add(&self, of: &[TopicPartition], max_size: i32) -> Result<(), FetchError> {
        if max_size <= 0 {
            return Err(FetchError::Size(max_size));
        }
        let term = self.lease.as_ref().map(Lease::term);
        self.tell(Command::Add { of: of.to_vec(), size: max_size, term })
    }

    /// Gives partitions up in good order: gets end at once, running listeners may go on for
    /// [`drain_timeout`](FetchOptions::drain_timeout) and are cancelled then, offsets are committed. All other partitions go
    /// on. When it returns, the partitions can be given to somebody else.
    ///
    /// Cancellation-safe: once polled, it is done all the same.
    ///
    /// # Errors
    /// [`FetchError::Stopped`].
    pub async fn release(&self, of: &[TopicPartition]) -> Result<Released, FetchError> {
        self.ask(|reply| Command::Release { of: of.to_vec(), reply }).await
    }

    /// Gives partitions up that are somebody else's already: listeners are cancelled, nothing is committed. A listener that
    /// does not wait for anything cannot be cancelled and goes on until it does.
    ///
    /// # Errors
    /// [`FetchError::Stopped`].
    pub fn lose(&self, of: &[TopicPartition]) -> Result<(), FetchError> {
        self.tell(Command::Lose { of: of.to_vec() })
    }

    /// While fenced, no delivery and no commit begins. Running listeners go on; what they handle is committed when the fence
    /// is taken down. It acts at once.
    pub fn fence(&self, fenced: bool) {
        self.fenced.store(fenced, Ordering::SeqCst);
        let _gone_when_stopped = self.commands.send(Command::Fenced);
    }

    /// Stores all offsets that have changed.
    ///
    /// Cancellation-safe: once polled, it is done all the same.
    ///
    /// # Errors
    /// [`FetchError::Fenced`], [`FetchError::NotCommitted`], [`FetchError::Stopped`].
    pub async fn commit(&self) -> Result<(), FetchError> {
        self.ask(|reply| Command::Commit { reply }).await?
    }

    /// No more deliveries of these partitions from now on; a running listener may end its batch. Partitions that are not here
    /// are left out.
    ///
    /// Cancellation-safe: once polled, it is done all the same.
    ///
    /// # Errors
    /// [`FetchError::Stopped`].
    pub async fn pause(&self, of: &[TopicPartition]) -> Result<(), FetchError> {
        self.ask(|reply| Command::Pause { of: of.to_vec(), pause: true, reply }).await
    }

    /// Ends [`pause`](Self::pause).
    ///
    /// Cancellation-safe: once polled, it is done all the same.
    ///
    /// # Errors
    /// [`FetchError::Stopped`].
    pub async fn resume(&self, of: &[TopicPartition]) -> Result<(), FetchError> {
        self.ask(|reply| Command::Pause { of: of.to_vec(), pause: false, reply }).await
    }

    /// Goes on elsewhere, forwards or backwards: the next delivery is from there, and so is the next commit. What a running
    /// listener handles of the old place counts no more.
    ///
    /// Cancellation-safe: once polled, it is done all the same.
    ///
    /// # Errors
    /// [`FetchError::NotAssigned`], [`FetchError::Negative`], [`FetchError::Stopped`].
    pub async fn seek(&self, of: &TopicPartition, to: SeekTo) -> Result<(), FetchError> {
        if to.offset() < Offset::ZERO {
            return Err(FetchError::Negative(to.offset()));
        }
        self.ask(|reply| Command::Seek { of: of.clone(), to, reply }).await?
    }

    /// The next byte to be handled, and the message before it. `None` if the partition is not here or its stored offset was
    /// not read yet.
    ///
    /// Cancellation-safe.
    pub async fn position(&self, of: &TopicPartition) -> Option<StoredOffset> {
        self.state(of).await?.position
    }

    /// What is stored, as far as this engine knows; `None` also if the partition is not here.
    ///
    /// Cancellation-safe.
    pub async fn committed(&self, of: &TopicPartition) -> Option<StoredOffset> {
        self.state(of).await?.committed
    }

    /// Bytes between the position and the end of the partition, for which the broker is asked: a get at the largest offset is
    /// answered with the end (01 §8.3). `None` if the broker has nothing of the partition yet, or the position is not known.
    ///
    /// Cancellation-safe.
    ///
    /// # Errors
    /// [`FetchError::NotAssigned`], [`FetchError::Source`].
    pub async fn lag(&self, of: &TopicPartition) -> Result<Option<u64>, FetchError> {
        let state = self.state(of).await.ok_or_else(|| FetchError::NotAssigned(of.clone()))?;
        let get = Get { from: of, offset: Offset::LATEST, max_size: PROBE_SIZE, wait: Duration::ZERO };
        let answer = tokio::time::timeout(self.fetch_timeout, self.source.get(get)).await;
        let answer = answer.unwrap_or_else(|_| Err(gets::timed_out(self.fetch_timeout)));
        let (Fetched::Moved { to: end, .. }, Some(position)) = (answer.map_err(FetchError::Source)?, state.position)
        else {
            return Ok(None);
        };
        Ok(Some(u64::try_from(end.get().saturating_sub(position.offset.get())).unwrap_or(0)))
    }

    /// The partitions that are here, those being released included.
    ///
    /// Cancellation-safe.
    pub async fn assigned(&self) -> Vec<TopicPartition> {
        self.states().await.into_iter().map(|state| TopicPartition::clone(&state.of)).collect()
    }

    /// How every partition stands, in the order of their names. Empty once stopped.
    ///
    /// Cancellation-safe.
    pub async fn states(&self) -> Vec<PartitionState> {
        self.ask(|reply| Command::States { of: None, reply }).await.unwrap_or_default()
    }

    /// How a partition stands, `None` if it is not here.
    ///
    /// Cancellation-safe.
    pub async fn state(&self, of: &TopicPartition) -> Option<PartitionState> {
        self.ask(|reply| Command::States { of: Some(of.clone()), reply }).await.ok()?.pop()
    }

    /// Releases everything and ends.
    ///
    /// Cancellation-safe: once polled, it is done all the same. A listener that awaits it waits for itself, and is cancelled
    /// after [`drain_timeout`](FetchOptions::drain_timeout); the same is true of [`release`](Self::release).
    pub async fn stop(&self) -> Released {
        self.ask(|reply| Command::Stop { reply }).await.unwrap_or_default()
    }

    /// What the engine has panicked with, if a fault of its own has ended it: nothing is read any more.
    pub fn panicked(&self) -> Option<Arc<str>> {
        self.end.panicked()
    }

    /// Waits for the end of the engine, and tells what it has panicked with if a fault of its own is the reason.
    ///
    /// Cancellation-safe.
    pub async fn ended(&self) -> Option<Arc<str>> {
        self.end.wait().await
    }

    /// Stands in for a fault of ours: the task panics.
    #[cfg(test)]
    pub(crate) fn fault(&self) {
        self.tell(Command::Fault).unwrap();
    }

    fn tell(&self, command: Command) -> Result<(), FetchError> {
        self.commands.send(command).map_err(|_| self.end.error())
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, FetchError> {
        let (reply, answer) = oneshot::channel();
        self.tell(command(reply))?;
        match answer.await {
            Ok(answer) => Ok(answer),
            Err(_) => {
                // What a panic takes along goes before it is known.
                self.end.wait().await;
                Err(self.end.error())
            }
        }
    }
}

#[cfg(test)]
mod tests;
