//! Offsets in memory, with the faults that a test wants.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::time::{Instant, sleep};

use crate::common::guard::lock;
use crate::fetch::{CommitError, OffsetCommit, OffsetStorage, StorageError};
use crate::id::{GroupName, TopicPartition};
use crate::zk::format::StoredOffset;

#[derive(Debug)]
pub(super) struct Storage {
    start: Instant,
    stored: Mutex<HashMap<i32, StoredOffset>>,
    /// Time in milliseconds, partition, offset.
    commits: Mutex<Vec<(u128, i32, i64)>>,
    /// Loads that fail.
    pub(super) bad_loads: AtomicUsize,
    pub(super) loads: AtomicUsize,
    pub(super) fails: AtomicBool,
    /// The partition that another member owns.
    pub(super) foreign: Mutex<Option<i32>>,
    pub(super) latency: Mutex<Duration>,
    /// Calls that never end.
    pub(super) hangs: AtomicUsize,
    /// Whether calls panic.
    pub(super) panics: AtomicBool,
    committing: AtomicUsize,
    released: Mutex<Vec<i32>>,
}

impl Storage {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
            stored: Mutex::default(),
            commits: Mutex::default(),
            bad_loads: AtomicUsize::new(0),
            loads: AtomicUsize::new(0),
            fails: AtomicBool::new(false),
            foreign: Mutex::default(),
            latency: Mutex::default(),
            hangs: AtomicUsize::new(0),
            panics: AtomicBool::new(false),
            committing: AtomicUsize::new(0),
            released: Mutex::default(),
        }
    }

    pub(super) fn store(&self, index: i32, text: &str) {
        lock(&self.stored).insert(index, StoredOffset::parse(text.as_bytes()).unwrap());
    }

    /// What is stored, as in ZooKeeper.
    pub(super) fn stored(&self, index: i32) -> Option<String> {
        lock(&self.stored).get(&index).map(StoredOffset::to_string)
    }

    /// The offset that is stored.
    pub(super) fn offset(&self, index: i32) -> Option<i64> {
        lock(&self.stored).get(&index).map(|stored| stored.offset.get())
    }

    pub(super) fn commits(&self) -> Vec<(u128, i32, i64)> {
        lock(&self.commits).clone()
    }

    pub(super) fn released_partitions(&self) -> Vec<i32> {
        lock(&self.released).clone()
    }

    /// What a test wants of every call.
    async fn suffer(&self) {
        assert!(!self.panics.load(Ordering::SeqCst), "the storage's own fault");
        let left = self.hangs.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_ok() {
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn is_committing(&self) -> bool {
        self.committing.load(Ordering::SeqCst) > 0
    }
}

/// A commit that ends, also if it is broken off.
struct Committing<'a>(&'a AtomicUsize);

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl OffsetStorage for Storage {
    fn load<'a>(
        &'a self,
        _group: &'a GroupName,
        of: &'a TopicPartition,
    ) -> BoxFuture<'a, Result<Option<StoredOffset>, StorageError>> {
        Box::pin(async move {
            self.loads.fetch_add(1, Ordering::SeqCst);
            self.suffer().await;
            let left = self.bad_loads.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            if left.is_ok() {
                return Err("the storage is away".into());
            }
            Ok(lock(&self.stored).get(&of.partition.index.get()).copied())
        })
    }

    fn commit<'a>(
        &'a self,
        _group: &'a GroupName,
        commits: &'a [OffsetCommit],
    ) -> BoxFuture<'a, Vec<Result<(), CommitError>>> {
        Box::pin(async move {
            assert_eq!(self.committing.fetch_add(1, Ordering::SeqCst), 0, "one commit at a time");
            let _ended = Committing(&self.committing);
            self.suffer().await;
            let latency = *lock(&self.latency);
            sleep(latency).await;
            let at = self.start.elapsed().as_millis();
            let mut results = Vec::new();
            for commit in commits {
                let index = commit.of.partition.index.get();
                results.push(if *lock(&self.foreign) == Some(index) {
                    Err(CommitError::NotOwner)
                } else if self.fails.load(Ordering::SeqCst) {
                    Err(CommitError::Failed("the storage is away".into()))
                } else {
                    lock(&self.stored).insert(index, commit.offset);
                    lock(&self.commits).push((at, index, commit.offset.offset.get()));
                    Ok(())
                });
            }
            results
        })
    }

    fn released(&self, _group: &GroupName, of: &TopicPartition) {
        lock(&self.released).push(of.partition.index.get());
    }
}
