//! Brokers and storages that do what none should, and settings that no clock can express.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use tokio::time::sleep;

use crate::fetch::{
    CommitError, FetchEngine, FetchOptions, Fetched, Get, MessageSource, OffsetCommit, OffsetStorage, SourceError,
    StorageError,
};
use crate::id::{GroupName, Offset, TopicPartition};
use crate::zk::format::StoredOffset;

use super::broker::Broker;
use super::listener::{Act, Listener};
use super::rig::{all, of, options, rig_with};
use super::storage::Storage;

#[tokio::test(start_paused = true)]
async fn the_longest_times_are_as_good_as_never() {
    let options = FetchOptions {
        fetch_timeout: Duration::MAX,
        wait: Duration::MAX,
        max_delay: Duration::MAX,
        commit_period: Duration::MAX,
        drain_timeout: Duration::MAX,
        ..options()
    };
    let rig = rig_with(Broker::new(true), |_| Act::Handle, options);
    rig.broker.put(0, 1, 10);
    rig.broker.script(1, [super::broker::Answer::Failure]);
    rig.add([0, 1], 1024).await;
    rig.until(|rig| rig.listener.handled(0) == [1]).await;
    rig.pass(1).await;
    let released = rig.engine.stop().await;
    assert!(released.cancelled.is_empty() && released.not_committed.is_empty(), "{released:?}");
    assert_eq!(rig.storage.stored(0), Some("1-30".to_owned()));
}

/// Garbage everywhere, and always another offset at which it should be better.
#[derive(Debug, Default)]
struct Astray {
    gets: AtomicUsize,
    /// After so many gets it is silent, so that a test ends in any case.
    patience: usize,
}

impl MessageSource for Astray {
    fn get<'a>(&'a self, _: Get<'a>) -> BoxFuture<'a, Result<Fetched, SourceError>> {
        Box::pin(async move {
            if self.gets.fetch_add(1, Ordering::SeqCst) >= self.patience {
                return std::future::pending().await;
            }
            Ok(Fetched::Data(Bytes::from_static(&[0xff; 64])))
        })
    }

    fn nearest_offset<'a>(
        &'a self,
        _: &'a TopicPartition,
        offset: Offset,
    ) -> BoxFuture<'a, Result<Offset, SourceError>> {
        Box::pin(async move { Ok(Offset::new(offset.get() + 30)) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_leads_from_garbage_to_garbage_is_asked_at_a_bounded_rate_and_told_of() {
    let source = Arc::new(Astray { patience: 1000, ..Astray::default() });
    let listener = Arc::new(Listener::new(|_| Act::Handle));
    let group = GroupName::new("g").unwrap();
    let engine = FetchEngine::start(source.clone(), listener, Arc::new(Storage::new()), group, options());
    engine.add(&all([0]), 1024).unwrap();
    sleep(Duration::from_secs(60)).await;
    let gets = source.gets.load(Ordering::SeqCst);
    assert!(gets < 30, "{gets} gets in a minute");
    let stuck = engine.state(&of(0)).await.unwrap().stuck;
    assert!(stuck.as_deref().is_some_and(|reason| reason.contains("each offset that the broker named")), "{stuck:?}");
}

/// Forgets with a bang.
#[derive(Debug)]
struct Explosive;

impl OffsetStorage for Explosive {
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
        Box::pin(async move { commits.iter().map(|_| Ok(())).collect() })
    }

    fn released(&self, _: &GroupName, _: &TopicPartition) {
        panic!("no bread");
    }
}

#[tokio::test(start_paused = true)]
async fn a_storage_that_panics_when_it_is_to_forget_a_partition_does_not_end_the_others() {
    let (broker, listener) = (Arc::new(Broker::new(true)), Arc::new(Listener::new(|_| Act::Handle)));
    let group = GroupName::new("g").unwrap();
    let engine = FetchEngine::start(broker.clone(), listener.clone(), Arc::new(Explosive), group, options());
    engine.add(&all([0, 1]), 1024).unwrap();
    engine.release(&all([0])).await.unwrap();
    broker.put(1, 7, 10);
    listener.until(|listener| listener.handled(1) == [7]).await;
    assert_eq!(engine.assigned().await, all([1]));
}
