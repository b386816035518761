//! The public face: opening, finding partitions, closing.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use tracing::{info, warn};

use super::checkpoint::Checkpointer;
use super::clean_stop;
use super::closed::ClosedPartitions;
use super::commit_log::files::remove_files;
use super::commit_log::pool::{Pool, PoolLimits};
use super::commit_log::syncs::Syncs;
use super::commit_log::writer::LogWriter;
use super::committer::{COMMITTERS, Committer, LANES};
use super::data_paths::{Loaded, sync_data_path};
use super::error::{InvalidPartitionRange, StoreError};
use super::flush::{self, Flusher, LogFlush};
use super::fs::{FileSystem, is_full};
use super::health::{DataPath, FailedPartition, Health, LogFileCounts};
use super::housekeeping::{FreeSpace, Housekeeping};
use super::ids::{self, IdGenerator, WallClock};
use super::journal::journal_warning;
use super::load::{find_partitions, inspect_all};
use super::load_hints::LoadHints;
use super::lock::{LockedDirs, make_dir};
use super::options::{StoreOptions, TopicSettings};
use super::partition::{Opened, PartitionLog, Shared};
use super::recover::recover;
use super::recovery_report::RecoveryReport;
use super::replay::Closed;
use super::round::Round;
use super::segment::SegmentList;
use super::set_aside::{self, Kind};
use super::stage::Stage;
use super::times::StoreTimes;
use super::topics::Topics;
use crate::common::guard::lock;
use crate::id::{MessageId, PartitionIndex, TopicName};

/// Directory below `dataLogPath` for everything that is no partition.
pub(super) const TRANSACTIONS_DIR: &str = "transactions";

/// An open message store.
///
/// [`close`](Self::close) it to stop: dropping it ends its threads and frees its locks, but leaves unflushed what is.
#[derive(Debug)]
pub struct Store {
    pub(super) options: StoreOptions,
    pub(super) shared: Arc<Shared>,
    pub(super) topics: Arc<Topics>,
    closed_partitions: ClosedPartitions,
    committer: Committer,
    flusher: Arc<Flusher>,
    log: LogFlush,
    pub(super) pool: Arc<Pool>,
    pub(super) checkpointer: Arc<Checkpointer>,
    pub(super) ids: Arc<IdGenerator>,
    pub(super) free_space: Arc<FreeSpace>,
    journal_warning: Option<String>,
    /// The directory of everything that is no partition.
    transactions: PathBuf,
    recovery: RecoveryReport,
    /// For data paths that are added later: the partitions that take no messages.
    pub(super) hints: Mutex<LoadHints>,
    /// Also held while a partition is added, so that one directory never gets two logs.
    pub(super) locks: Mutex<LockedDirs>,
    /// Data paths are added one after another, while partitions are made in those that are known.
    pub(super) adding: Mutex<()>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    closed: AtomicBool,
}

impl Store {
    /// Locks the data directories, loads everything in them and starts the store's threads (02 §10, §17).
    ///
    /// # Errors
    /// The first thing that is wrong. Then nothing is locked, and nothing was changed on disk beyond missing
    /// directories being made; only an error while the commit log is replayed, which goes on at the next start, or while
    /// torn tails are being cut leaves some of that done.
    pub fn open(options: StoreOptions, fs: Arc<dyn FileSystem>) -> Result<Self, StoreError> {
        let store = Self::open_without_threads(options, fs, ids::system_clock())?;
        store.start_threads().map_err(StoreError::Thread)?;
        Ok(store)
    }

    /// Does all that [`open`](Self::open) does but for starting the threads.
    pub(super) fn open_without_threads(
        mut options: StoreOptions,
        fs: Arc<dyn FileSystem>,
        clock: WallClock,
    ) -> Result<Self, StoreError> {
        let started = Instant::now();
        options.data_path = absolute(&options.data_path)?;
        options.data_log_path = absolute(&options.data_log_path)?;
        options.topic_data_paths = options.topic_data_paths.iter().map(|p| absolute(p)).collect::<Result<_, _>>()?;

        let mut locks = LockedDirs::default();
        let mut data_paths = Vec::new();
        for path in [&options.data_path].into_iter().chain(&options.topic_data_paths) {
            if locks.lock(&*fs, path)? {
                data_paths.push(path.clone());
            }
        }
        make_dir(&*fs, &options.data_log_path)?;
        let transactions = options.data_log_path.join(TRANSACTIONS_DIR);
        locks.lock(&*fs, &transactions)?;

        let shared = Shared::new(Arc::clone(&fs), options.max_segment_size, options.max_transfer_size.into());
        let shared = Arc::new(shared);
        let topics = Arc::new(Topics::default());
        let recovered = recover(&fs, &options, &data_paths, &transactions)?;
        let largest_id = load(&shared, &options, &topics, &data_paths, &recovered.hints)?.max(recovered.largest_id);
        recovered.finish(&*fs)?;

        let unreadable = |source| StoreError::Unreadable { path: transactions.clone(), source };
        let journal_warning = journal_warning(&*fs, &transactions).map_err(unreadable)?;
        if let Some(warning) = &journal_warning {
            warn!(warning, "transaction journal of another broker found");
        }
        let ids = ids::open(Arc::clone(&fs), &transactions, options.broker_id, largest_id, clock);
        let ids = Arc::new(ids.map_err(|source| StoreError::Unreadable { path: transactions.join("ids"), source })?);

        let free_space = Arc::new(FreeSpace::default());
        data_paths.into_iter().for_each(|path| free_space.watch(path));
        free_space.check(&*fs, options.free_space_warning_bytes);
        let limits =
            PoolLimits { file_bytes: options.commit_log_file_bytes, max_files: options.commit_log_files, lanes: LANES };
        let pool = Arc::new(Pool::new(Arc::clone(&fs), &transactions, limits, recovered.next_file_number.max(1)));
        pool.make_file().map_err(|source| {
            let path = transactions.clone();
            if is_full(&source) {
                return StoreError::NoSpaceForLog { path, file_bytes: options.commit_log_file_bytes };
            }
            StoreError::Io { action: "make the commit log in", path, source }
        })?;
        let checkpointer = Arc::new(Checkpointer::new(Arc::clone(&pool)));
        let syncs = Arc::new(Syncs::new(Arc::clone(&shared)));
        let flusher = Arc::<Flusher>::default();
        let log = LogWriter::new(
            Arc::clone(&shared),
            Arc::clone(&topics),
            Arc::clone(&pool),
            Arc::clone(&syncs),
            Arc::clone(&checkpointer),
        );
        let round = Round::new(Arc::clone(&shared), Arc::clone(&ids), Arc::clone(&flusher), log);
        let stage = Arc::new(Stage::new(round, Arc::clone(&syncs)));
        let partitions = topics.all();
        info!(
            partitions = partitions.len(),
            segments = partitions.iter().map(|partition| partition.segment_count()).sum::<usize>(),
            bytes = partitions.iter().map(|partition| partition.size_bytes()).sum::<u64>(),
            elapsed_ms = started.elapsed().as_millis(),
            "message store loaded"
        );
        Ok(Self {
            options,
            shared,
            topics,
            closed_partitions: ClosedPartitions::default(),
            committer: Committer::new(Arc::clone(&stage), Arc::clone(&syncs)),
            flusher,
            log: LogFlush { stage, syncs, flushing: Arc::default() },
            pool,
            checkpointer,
            ids,
            free_space,
            journal_warning,
            transactions,
            recovery: recovered.report,
            hints: Mutex::new(LoadHints { closed: recovered.hints.closed, ..LoadHints::default() }),
            locks: Mutex::new(locks),
            adding: Mutex::default(),
            threads: Mutex::default(),
            closed: AtomicBool::new(false),
        })
    }

    fn start_threads(&self) -> std::io::Result<()> {
        for number in 0..COMMITTERS {
            let committer = self.committer.clone();
            let name = format!("metaq-commit-{number}");
            lock(&self.threads).push(thread::Builder::new().name(name).spawn(move || committer.run(number))?);
        }
        let committer = self.committer.clone();
        let stage = thread::Builder::new().name("metaq-stage".to_owned()).spawn(move || committer.run_slow())?;
        lock(&self.threads).push(stage);
        let tails = Arc::clone(&self.shared.tails);
        let segments = thread::Builder::new().name("metaq-segments".to_owned()).spawn(move || tails.run())?;
        lock(&self.threads).push(segments);
        let checkpointer = self.checkpointer.spawn()?;
        lock(&self.threads).push(checkpointer);
        let housekeeping = Housekeeping {
            fs: Arc::clone(&self.shared.fs),
            ids: Arc::clone(&self.ids),
            free_space: Arc::clone(&self.free_space),
            free_space_warning_bytes: self.options.free_space_warning_bytes,
            next_check: Instant::now(),
        };
        let topics = Arc::clone(&self.topics);
        let flusher = flush::spawn(Arc::clone(&self.flusher), topics, self.log.clone(), housekeeping)?;
        lock(&self.threads).push(flusher);
        Ok(())
    }

    /// The partition, if it was loaded or asked for before.
    pub fn get(&self, topic: &str, index: PartitionIndex) -> Option<Arc<PartitionLog>> {
        self.topics.get(topic, index)
    }

    /// The partition, new and empty if there was none; its directory is made by the first append. All callers get the
    /// same one. `settings` matter only to a new one; see [`apply_settings`](Self::apply_settings).
    ///
    /// A data path that the store does not know yet is locked, and what is in it is loaded.
    ///
    /// # Errors
    /// When such a data path cannot be used, the number is negative, or the store is closed.
    pub fn get_or_create(
        &self,
        topic: &TopicName,
        index: PartitionIndex,
        settings: &TopicSettings,
    ) -> Result<Arc<PartitionLog>, StoreError> {
        if let Some(partition) = self.get(topic.as_str(), index) {
            return Ok(partition);
        }
        if index < PartitionIndex::new(0) {
            return Err(StoreError::NegativePartition { topic: topic.clone(), index });
        }
        let data_path = settings.data_path.as_deref().map_or(Ok(self.options.data_path.clone()), absolute)?;
        if !lock(&self.locks).has(&data_path) {
            self.add_data_paths(&[&data_path]).map_err(|refused| refused.source)?;
        }
        // Held so that there is only ever one.
        let _locks = lock(&self.locks);
        if self.is_closed() {
            return Err(StoreError::Closed);
        }
        if let Some(partition) = self.get(topic.as_str(), index) {
            return Ok(partition);
        }
        let dir = data_path.join(super::format::directory_name(topic, index));
        let segments = SegmentList::default();
        let opened =
            Opened { topic: topic.clone(), index, dir, segments, end: 0, durable: 0, messages: 0, checkpoint: None };
        let partition = PartitionLog::new(Arc::clone(&self.shared), opened, settings);
        // Answered with and logged from there.
        match lock(&self.hints).closed.get(&(topic.clone(), index)) {
            Some(Closed { reason, failed: true }) => {
                let _error = partition.poison_with(reason);
            }
            Some(Closed { reason, failed: false }) => partition.quarantine_with(reason),
            None => {}
        }
        Ok(self.topics.get_or_insert(partition))
    }

    /// Deletes a partition with all its messages, while puts may be under way: those that come later are refused with
    /// [`AppendError::Deleted`](super::AppendError::Deleted), and the next [`get_or_create`](Self::get_or_create) makes
    /// a new partition that begins at offset 0. Returns whether there was such a partition.
    ///
    /// After a crash in the middle, what is left is a partition without its oldest messages, to be deleted again.
    ///
    /// # Errors
    /// When messages of the partition are in quarantine, or its files or the commit log fail. Then it may have lost its
    /// oldest segments already.
    pub fn delete_partition(&self, topic: &str, index: PartitionIndex) -> Result<bool, StoreError> {
        // Nobody makes it anew before everything of it is gone.
        let _locks = lock(&self.locks);
        if self.is_closed() {
            return Err(StoreError::Closed);
        }
        let Some(partition) = self.get(topic, index) else { return Ok(false) };
        let (fs, dir) = (&*self.shared.fs, &self.transactions);
        let quarantine = set_aside::path(dir, Kind::Quarantine, partition.topic(), index);
        let unreadable = |source| StoreError::Unreadable { path: quarantine.clone(), source };
        if fs.kind(&quarantine).map_err(unreadable)?.is_some() {
            return Err(StoreError::Quarantined(quarantine));
        }
        {
            let _staging = self.log.stage.lock();
            partition.mark_deleted(true);
        }
        // Down to one segment first: with its frames void, a short one below another could not be explained.
        let trimmed = partition.remove_oldest(u64::MAX, &mut |_| true).and_then(|_| {
            let voided = self.log.stage.lock().round.log().forget(&partition);
            voided.map_err(|error| partition.not_removed(error))
        });
        if let Err(error) = trimmed {
            partition.mark_deleted(false);
            return Err(error);
        }
        self.topics.remove(partition.topic(), index);
        lock(&self.hints).closed.remove(&(partition.topic().clone(), index));
        let pending = set_aside::path(dir, Kind::Pending, partition.topic(), index);
        set_aside::remove(fs, dir, Kind::Pending, partition.topic(), index).map_err(|source| StoreError::Io {
            action: "remove",
            path: pending,
            source,
        })?;
        partition.discard()?;
        info!(partition = %partition.name(), "partition deleted");
        Ok(true)
    }

    /// All partitions.
    pub fn partitions(&self) -> Vec<Arc<PartitionLog>> {
        self.topics.all()
    }

    /// Each topic that has partitions, with its highest partition number.
    pub fn topics(&self) -> BTreeMap<TopicName, PartitionIndex> {
        let mut topics = BTreeMap::new();
        for partition in self.topics.all() {
            let highest = topics.entry(partition.topic().clone()).or_insert(partition.index());
            *highest = partition.index().max(*highest);
        }
        topics
    }

    /// Takes over changed settings of all topics; partitions stay where they are.
    pub fn apply_settings(&self, settings: impl Fn(&TopicName) -> TopicSettings) {
        for partition in self.topics.all() {
            partition.set_settings(&settings(partition.topic()));
        }
        self.flusher.wake();
    }

    /// Has a partition flushed early if it is flushed periodically and something is unflushed, for a reader who waits;
    /// whether that is so. The flush comes within milliseconds, at most one each 5 ms over all partitions that are asked
    /// for, and wakes those who [wait](super::Waiter).
    pub fn flush_soon(&self, partition: &Arc<PartitionLog>) -> bool {
        let awaits_flush = partition.awaits_flush();
        if awaits_flush {
            self.flusher.flush_soon(partition);
        }
        awaits_flush
    }

    /// Where messages are handed in.
    pub fn committer(&self) -> &Committer {
        &self.committer
    }

    /// The broker's message ids.
    pub fn ids(&self) -> &Arc<IdGenerator> {
        &self.ids
    }

    /// Makes durable and visible everything that was written before the call, unless a disk fails.
    pub fn flush(&self) {
        self.log.flush();
    }

    /// Partitions that the operator closed.
    pub fn closed_partitions(&self) -> &ClosedPartitions {
        &self.closed_partitions
    }

    /// Times that puts had to wait because all files of the commit log were full and none was checkpointed.
    pub fn log_waits(&self) -> u64 {
        self.pool.waits()
    }

    /// Why the commit log failed, if it did: every put is refused until a restart.
    pub fn log_failure(&self) -> Option<&Arc<str>> {
        self.shared.log_poison.get()
    }

    /// Whether a thread that stores messages has ended by a fault of its own: every put is refused until a restart.
    pub fn committer_failed(&self) -> bool {
        self.committer.has_failed()
    }

    /// How many files the commit log has.
    pub fn log_files(&self) -> LogFileCounts {
        self.pool.counts()
    }

    /// How long the disks take.
    pub fn times(&self) -> &StoreTimes {
        &self.shared.times
    }

    /// The directories with partitions, and that of the commit log. Asks the file systems, which may take its time.
    pub fn data_paths(&self) -> Vec<DataPath> {
        let mut paths = self.free_space.paths();
        if !paths.contains(&self.options.data_log_path) {
            paths.push(self.options.data_log_path.clone());
        }
        let mut sizes: HashMap<&Path, u64> = HashMap::new();
        let partitions = self.topics.all();
        for partition in &partitions {
            let path = partition.dir().parent().unwrap_or(partition.dir());
            *sizes.entry(path).or_default() += partition.size_bytes();
        }
        let look = |path: PathBuf| DataPath {
            bytes: sizes.get(&*path).copied().unwrap_or_default(),
            free_bytes: self.shared.fs.free_space(&path).ok(),
            path,
        };
        paths.into_iter().map(look).collect()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// What was done at the start with what the last broker left in its commit log.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.recovery
    }

    /// Closes partitions `start` to `end` of a topic for put and get, both included, whether they exist or not; whoever
    /// waits for messages of them is woken.
    ///
    /// # Errors
    /// When `start` is negative or beyond `end`.
    pub fn close_partitions(&self, topic: &TopicName, start: i32, end: i32) -> Result<(), InvalidPartitionRange> {
        self.closed_partitions.close(topic, start, end)?;
        let is_closed = |partition: &&Arc<PartitionLog>| {
            partition.topic() == topic && (start..=end).contains(&partition.index().get())
        };
        self.topics.all().iter().filter(is_closed).for_each(|partition| partition.wake_waiters());
        Ok(())
    }

    /// Opens all partitions of a topic; whether any was closed.
    pub fn open_partitions(&self, topic: &str) -> bool {
        self.closed_partitions.open(topic)
    }

    /// What an operator must know.
    pub fn health(&self) -> Health {
        let partitions = self.topics.all();
        let failed = |partition: &PartitionLog, reason: Arc<str>| FailedPartition {
            topic: partition.topic().clone(),
            index: partition.index(),
            reason,
        };
        let poisoned = |p: &Arc<PartitionLog>| p.own_poison().map(|reason| failed(p, Arc::clone(reason)));
        let full = |p: &Arc<PartitionLog>| {
            let reason = || format!("no space left on {}", p.dir().display()).into();
            p.is_full().then(|| failed(p, reason()))
        };
        Health {
            commit_log_failure: self.shared.log_poison.get().cloned(),
            committer_failed: self.committer_failed(),
            commit_log_full: self.pool.full(),
            commit_log_waits: self.pool.waits(),
            poisoned: partitions.iter().filter_map(poisoned).collect(),
            full: partitions.iter().filter_map(full).collect(),
            journal_warning: self.journal_warning.clone(),
            ids_warning: self.ids.failure(),
            low_space: self.free_space.low(),
        }
    }

    /// `<dataLogPath>/transactions`, which is locked until [`close`](Self::close).
    pub fn transactions_dir(&self) -> &Path {
        &self.transactions
    }

    /// Stops gracefully: answers everything that was handed in, then makes it durable and frees the directories. Later
    /// appends fail with `Closed MessageStore.`; reads go on. Must not be called from the receiver of a result.
    ///
    /// # Errors
    /// [`StoreError::NotDurable`] when messages of poisoned partitions are not in their segments,
    /// [`StoreError::LogFailed`] when the commit log had failed. In both cases the log is kept.
    pub fn close(&self) -> Result<(), StoreError> {
        {
            // Whoever is adding a partition or a data path finishes first; the locks are not kept, for a receiver may wait for
            // them.
            let _adding = lock(&self.adding);
            let _locks = lock(&self.locks);
            if self.closed.swap(true, Ordering::AcqRel) {
                return Ok(());
            }
        }
        self.end_threads();
        self.log.flush();
        let mut partitions = self.topics.all();
        partitions.sort_by(|a, b| a.name().cmp(b.name()));
        let lost = |p: &&Arc<PartitionLog>| {
            let not_filed = p.make_checkpoint().is_err();
            not_filed && p.checkpointed.load(Ordering::Acquire) < p.written.load(Ordering::Acquire)
        };
        let lost: Vec<&str> = partitions.iter().filter(lost).map(|p| &**p.name()).collect();
        self.log.syncs.log_times();
        self.ids.settle();
        if lost.is_empty() && !self.log.syncs.failed() {
            // Everything is in the segments now.
            self.record_clean_stop(&partitions);
        }
        *lock(&self.locks) = LockedDirs::default();
        info!(partitions = partitions.len(), "message store closed");
        match self.shared.log_poison.get() {
            _ if !lost.is_empty() => Err(StoreError::NotDurable(lost.join(", "))),
            Some(reason) => Err(StoreError::LogFailed(Arc::clone(reason))),
            None => Ok(()),
        }
    }

    /// Spares the next start reading segments.
    fn record_clean_stop(&self, partitions: &[Arc<PartitionLog>]) {
        let (fs, dir) = (&*self.shared.fs, &self.transactions);
        let written = remove_files(fs, dir).map_err(|error| error.to_string()).and_then(|_| {
            let next_file_number = self.pool.next_number();
            clean_stop::write(fs, dir, partitions, self.ids.last(), next_file_number).map_err(|error| error.to_string())
        });
        if let Err(error) = written {
            warn!(%error, dir = %dir.display(), "could not record the clean stop: the next start takes longer");
        }
    }

    fn end_threads(&self) {
        self.committer.close();
        self.flusher.close();
        self.shared.tails.close();
        self.pool.close();
        for thread in lock(&self.threads).drain(..) {
            // The last owner of a store may be the receiver of a result, on a committer's thread.
            if thread.thread().id() != thread::current().id() && thread.join().is_err() {
                warn!("a thread of the message store panicked");
            }
        }
        self.shared.tails.clear();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if !self.closed.swap(true, Ordering::AcqRel) {
            self.end_threads();
        }
    }
}

/// Loads all partitions in the data paths and returns the largest message id found.
fn load(
    shared: &Arc<Shared>,
    options: &StoreOptions,
    topics: &Topics,
    data_paths: &[PathBuf],
    hints: &LoadHints,
) -> Result<Option<MessageId>, StoreError> {
    let found = find_partitions(&*shared.fs, data_paths, &topics.all())?;
    let mut loaded = Loaded::default();
    loaded.open(shared, &options.topic_settings, inspect_all(&*shared.fs, &found, hints)?)?;
    data_paths.iter().try_for_each(|path| sync_data_path(&*shared.fs, path))?;
    let largest_id = loaded.largest_id;
    loaded.serve(topics).map_err(|refused| refused.source)?;
    Ok(largest_id)
}

pub(super) fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    let unusable = |source| StoreError::Io { action: "resolve", path: path.to_path_buf(), source };
    std::path::absolute(path).map_err(unusable)
}
