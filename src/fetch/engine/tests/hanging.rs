//! Storages that do not answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::time::Instant;

use crate::common::guard::lock;
use crate::fetch::{
    CommitError, FetchEngine, FetchError, FetchEvent, FetchOptions, OffsetCommit, OffsetStorage, PartitionStatus,
    Released, StorageError,
};
use crate::id::{GroupName, TopicPartition};
use crate::zk::format::StoredOffset;

use super::broker::Broker;
use super::listener::{Act, Listener};
use super::rig::{Rig, all, of, options, rig};

/// Two partitions with a handled message each, and a storage that does not answer so many calls.
async fn hanging(calls: usize) -> Rig {
    let rig = rig();
    rig.broker.put(0, 1, 10);
    rig.broker.put(1, 2, 10);
    rig.add([0, 1], 1024).await;
    rig.until(|rig| rig.listener.handled(0) == [1] && rig.listener.handled(1) == [2]).await;
    rig.storage.hangs.store(calls, Ordering::SeqCst);
    rig
}

/// What must end, whatever the storage does.
async fn ends<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3600), work).await.expect("it ends within an hour")
}

fn indexes(of: &[Arc<TopicPartition>]) -> Vec<i32> {
    of.iter().map(|of| of.partition.index.get()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_release_does_not_wait_for_a_storage_that_hangs_and_tells_what_was_not_committed() {
    let rig = hanging(usize::MAX).await;
    let start = Instant::now();
    let released = ends(rig.release([0])).await;
    assert_eq!((start.elapsed(), indexes(&released.not_committed)), (Duration::from_secs(30), vec![0]));
    assert_eq!(rig.engine.assigned().await, [of(1)]);
    assert_eq!(rig.storage.released_partitions(), [0]);
    // The storage comes back: what stayed is committed, the partition that left is not.
    rig.storage.hangs.store(0, Ordering::SeqCst);
    rig.until(|rig| rig.storage.offset(1) == Some(30)).await;
    assert_eq!(rig.storage.offset(0), None);
}

#[tokio::test(start_paused = true)]
async fn a_release_behind_a_commit_that_hangs_has_a_try_of_its_own() {
    let rig = hanging(1).await;
    let start = Instant::now();
    let (committed, released) = ends(async { tokio::join!(rig.engine.commit(), rig.release([0])) }).await;
    let error = committed.unwrap_err();
    assert!(matches!(&error, FetchError::NotCommitted { failed: 2, .. }), "{error}");
    let text = "the offset storage Storage did not answer within 30s: see why it hangs, or raise storage_timeout";
    assert!(error.to_string().ends_with(text), "{error}");
    assert_eq!((released, start.elapsed()), (Released::default(), Duration::from_secs(30)));
    assert_eq!((rig.storage.offset(0), rig.storage.is_committing()), (Some(30), false));
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_whatever_the_storage_does() {
    let rig = hanging(usize::MAX).await;
    let start = Instant::now();
    let released = ends(rig.engine.stop()).await;
    assert_eq!(start.elapsed(), Duration::from_secs(30));
    let mut not_committed = indexes(&released.not_committed);
    not_committed.sort_unstable();
    assert_eq!(not_committed, [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_load_without_an_answer_is_told_and_tried_again() {
    let rig = rig();
    rig.broker.put(0, 1, 10);
    rig.storage.hangs.store(1, Ordering::SeqCst);
    rig.add([0], 1024).await;
    rig.pass(29_999).await;
    assert_eq!(rig.storage.loads.load(Ordering::SeqCst), 1);
    rig.pass(2).await;
    let told =
        |event: &FetchEvent| matches!(event, FetchEvent::LoadFailed { error, .. } if error.contains("did not answer"));
    assert_eq!(rig.events.count(told), 1);
    assert_eq!(rig.engine.state(&of(0)).await.map(|state| state.status), Some(PartitionStatus::Loading));
    rig.storage.hangs.store(0, Ordering::SeqCst);
    rig.until(|rig| rig.listener.handled(0) == [1]).await;
    assert_eq!(rig.storage.loads.load(Ordering::SeqCst), 2);
    // No time-out of the load is left behind.
    rig.pass(120_000).await;
    assert_eq!(rig.events.count(|event| matches!(event, FetchEvent::LoadFailed { .. })), 1);
}

/// Blocks the thread of its first commit until it is told to go on.
#[derive(Debug)]
struct Blocking {
    go_on: Mutex<mpsc::Receiver<()>>,
    begun: AtomicUsize,
    stored: Mutex<Vec<i64>>,
}

impl OffsetStorage for Blocking {
    fn load<'a>(
        &'a self,
        _: &'a GroupName,
        _: &'a TopicPartition,
    ) -> BoxFuture<'a, Result<Option<StoredOffset>, StorageError>> {
        Box::pin(async { Ok(None) })
    }

    fn commit<'a>(
        &'a self,
        _: &'a GroupName,
        commits: &'a [OffsetCommit],
    ) -> BoxFuture<'a, Vec<Result<(), CommitError>>> {
        Box::pin(async move {
            self.begun.fetch_add(1, Ordering::SeqCst);
            // An error says that it need not wait any more.
            let _ = lock(&self.go_on).recv();
            lock(&self.stored).extend(commits.iter().map(|commit| commit.offset.offset.get()));
            commits.iter().map(|_| Ok(())).collect()
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_commit_begins_beside_one_that_blocks_its_thread() {
    let (open, go_on) = mpsc::channel();
    let storage = Arc::new(Blocking { go_on: Mutex::new(go_on), begun: AtomicUsize::new(0), stored: Mutex::default() });
    let (broker, listener) = (Arc::new(Broker::new(true)), Arc::new(Listener::new(|_| Act::Handle)));
    let group = GroupName::new("g").unwrap();
    let options = FetchOptions { storage_timeout: Duration::from_millis(100), ..options() };
    let engine = FetchEngine::start(broker.clone(), listener.clone(), storage.clone(), group, options);
    broker.put(0, 1, 10);
    broker.put(1, 2, 10);
    engine.add(&all([0, 1]), 1024).unwrap();
    listener.until(|listener| listener.handled(0) == [1] && listener.handled(1) == [2]).await;
    assert!(matches!(engine.commit().await, Err(FetchError::NotCommitted { .. })));
    assert!(matches!(engine.commit().await, Err(FetchError::NotCommitted { .. })));
    let released = ends(engine.release(&all([0]))).await.unwrap();
    assert_eq!(indexes(&released.not_committed), [0]);
    assert_eq!(storage.begun.load(Ordering::SeqCst), 1);
    drop(open);
    let deadline = Instant::now() + Duration::from_secs(60);
    while engine.commit().await.is_err() {
        assert!(Instant::now() < deadline, "offsets are stored again");
    }
    assert_eq!(lock(&storage.stored).last(), Some(&30));
}
