//! Releasing, losing, stopping.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::common::guard::lock;
use crate::fetch::{FetchError, PartitionStatus, Released};

use super::broker::Broker;
use super::listener::Act;
use super::rig::{Rig, all, of, options, rig, rig_with};

/// Partition 0 has a listener that waits at its second message, partition 1 goes on.
async fn busy() -> Rig {
    let rig = rig_with(Broker::new(true), |m| if m.id.get() == 2 { Act::Gate } else { Act::Handle }, options());
    for (index, id) in [(0, 1), (0, 2), (0, 3), (1, 4)] {
        rig.broker.put(index, id, 10);
    }
    rig.add([0, 1], 1024).await;
    rig.listener.until(|listener| listener.given().iter().any(|given| given.id == 2)).await;
    rig
}

#[tokio::test(start_paused = true)]
async fn a_release_waits_for_the_listener_and_commits_what_it_has_handled() {
    let rig = busy().await;
    let start = Instant::now();
    let opened = async {
        rig.pass(3000).await;
        assert_eq!(rig.engine.state(&of(0)).await.map(|state| state.status), Some(PartitionStatus::Leaving));
        rig.listener.gate.notify_waiters();
    };
    let (released, ()) = tokio::join!(rig.release([0]), opened);
    assert_eq!(released, Released::default());
    assert_eq!(start.elapsed(), Duration::from_secs(3));
    assert_eq!(rig.storage.stored(0), Some("3-90".to_owned()));
    assert_eq!(rig.storage.released_partitions(), [0]);
    assert_eq!(rig.engine.assigned().await, [of(1)]);
    rig.broker.put(0, 5, 10);
    rig.broker.put(1, 6, 10);
    rig.until(|rig| rig.listener.handled(1) == [4, 6]).await;
    rig.pass(60_000).await;
    assert_eq!(rig.listener.handled(0), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_does_not_end_is_cancelled_and_what_it_has_handled_is_committed() {
    let rig = busy().await;
    let start = Instant::now();
    let released = rig.release([0]).await;
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    assert_eq!(released.cancelled.iter().map(|of| of.partition.index.get()).collect::<Vec<_>>(), [0]);
    assert_eq!((rig.listener.running(), rig.storage.stored(0)), (0, Some("1-30".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn idle_and_fetched_partitions_are_released_at_once() {
    let rig = rig_with(Broker::new(true), |_| Act::Gate, options());
    for index in 0..6 {
        rig.broker.put(index, 1, 10);
    }
    rig.add(0..10, 1024).await;
    rig.until(|rig| rig.listener.running() == 4).await;
    rig.pass(1).await;
    let start = Instant::now();
    rig.release(4..10).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(rig.engine.assigned().await, all(0..4));
}

#[tokio::test(start_paused = true)]
async fn a_release_tells_what_was_not_committed() {
    let rig = busy().await;
    rig.storage.fails.store(true, Ordering::SeqCst);
    let released = rig.release([1]).await;
    assert_eq!(released.not_committed.len(), 1);
    assert_eq!(rig.engine.assigned().await, [of(0)]);
}

#[tokio::test(start_paused = true)]
async fn behind_the_fence_a_release_waits_for_its_end_but_not_for_ever() {
    let rig = busy().await;
    rig.engine.fence(true);
    let unfenced = async {
        rig.pass(4000).await;
        rig.engine.fence(false);
    };
    let start = Instant::now();
    let (released, ()) = tokio::join!(rig.release([1]), unfenced);
    assert_eq!((released, start.elapsed().as_secs()), (Released::default(), 4));
    assert_eq!(rig.storage.offset(1), Some(30));
    rig.engine.fence(true);
    let released = rig.release([0]).await;
    assert_eq!((released.cancelled.len(), released.not_committed.len()), (1, 1));
    assert_eq!(rig.storage.offset(0), None);
    assert_eq!(rig.engine.assigned().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_lost_partition_is_cancelled_and_not_committed() {
    let rig = busy().await;
    rig.lose([0]).await;
    rig.until(|rig| rig.listener.running() == 0).await;
    rig.pass(60_000).await;
    assert_eq!((rig.storage.offset(0), rig.storage.offset(1)), (None, Some(30)));
    assert_eq!(rig.engine.assigned().await, [of(1)]);
    assert_eq!(rig.storage.released_partitions(), [0]);
}

#[tokio::test(start_paused = true)]
async fn a_partition_lost_during_a_release_does_not_hold_it_up() {
    let rig = busy().await;
    let lost = async {
        rig.pass(1000).await;
        rig.lose([0]).await;
    };
    let start = Instant::now();
    let (released, ()) = tokio::join!(rig.release([0]), lost);
    assert_eq!(released, Released::default());
    assert_eq!((start.elapsed().as_secs(), rig.storage.offset(0)), (1, None));
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_comes_back_begins_at_what_was_committed_last() {
    let rig = busy().await;
    *lock(&rig.storage.latency) = Duration::from_secs(2);
    // It is lost while its offset is on its way, and comes back before that has arrived.
    let committed = rig.engine.commit();
    let back = async {
        rig.pass(1000).await;
        assert!(rig.storage.is_committing());
        rig.lose([0]).await;
        rig.add([0], 1024).await;
    };
    let (committed, ()) = tokio::join!(committed, back);
    committed.unwrap();
    rig.listener.gate.notify_one();
    rig.until(|rig| rig.listener.handled(0).ends_with(&[2, 3])).await;
    assert_eq!(rig.listener.handled(0), [1, 2, 3], "the first message is not delivered again");
}

#[tokio::test(start_paused = true)]
async fn a_partition_added_while_it_leaves_comes_back_when_it_has_left() {
    let rig = busy().await;
    let back = async {
        rig.pass(1000).await;
        rig.add([0], 1024).await;
        rig.listener.gate.notify_waiters();
    };
    let (released, ()) = tokio::join!(rig.release([0]), back);
    assert_eq!(released, Released::default());
    rig.broker.put(0, 9, 10);
    rig.until(|rig| rig.listener.handled(0) == [1, 2, 3, 9]).await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_released_twice_and_comes_back_stays() {
    let rig = busy().await;
    *lock(&rig.storage.latency) = Duration::from_secs(2);
    let back = async {
        rig.pass(1000).await;
        rig.add([0], 1024).await;
        rig.listener.gate.notify_waiters();
    };
    let (first, second, ()) = tokio::join!(rig.release([0]), rig.release([0]), back);
    assert_eq!((first, second), (Released::default(), Released::default()));
    assert_eq!(rig.engine.assigned().await, all([0, 1]));
    rig.broker.put(0, 9, 10);
    rig.until(|rig| rig.listener.handled(0) == [1, 2, 3, 9]).await;
}

#[tokio::test(start_paused = true)]
async fn what_stays_is_not_interrupted_when_a_partition_is_added_again() {
    let rig = busy().await;
    rig.add([0, 1], 1024).await;
    rig.pass(1000).await;
    assert_eq!((rig.listener.running(), rig.storage.loads.load(Ordering::SeqCst)), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_stop_drains_and_commits_everything_and_then_nothing_works_any_more() {
    let rig = busy().await;
    let opened = async {
        rig.pass(1000).await;
        rig.listener.gate.notify_waiters();
    };
    let (released, ()) = tokio::join!(rig.engine.stop(), opened);
    assert_eq!(released, Released::default());
    assert_eq!((rig.storage.offset(0), rig.storage.offset(1)), (Some(90), Some(30)));
    assert!(matches!(rig.engine.commit().await, Err(FetchError::Stopped)));
    assert!(matches!(rig.engine.add(&all([7]), 1024), Err(FetchError::Stopped)));
    assert_eq!(rig.engine.stop().await, Released::default());
    assert_eq!(rig.engine.states().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_under_way_is_finished_by_a_stop() {
    let rig = busy().await;
    let opened = async {
        rig.pass(1000).await;
        rig.listener.gate.notify_waiters();
    };
    let (released, stopped, ()) = tokio::join!(rig.release([0]), rig.engine.stop(), opened);
    assert_eq!((released, stopped), (Released::default(), Released::default()));
    assert_eq!((rig.storage.offset(0), rig.storage.offset(1)), (Some(90), Some(30)));
}

#[tokio::test(start_paused = true)]
async fn a_release_during_a_stop_is_answered() {
    let rig = busy().await;
    let (stopped, released) = tokio::join!(rig.engine.stop(), rig.release([0]));
    assert_eq!((stopped.cancelled.len(), released.not_committed.len()), (1, 0));
    assert_eq!((rig.storage.offset(0), rig.storage.offset(1)), (Some(30), Some(30)));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_engine_cancels_its_listeners_and_commits_nothing() {
    let rig = busy().await;
    let Rig { broker, listener, storage, engine, .. } = rig;
    drop(engine);
    listener.until(|listener| listener.running() == 0).await;
    let gets = broker.seen().len();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((broker.seen().len(), storage.commits()), (gets, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_nobody_waits_for_goes_on() {
    let rig = busy().await;
    let Rig { listener, storage, engine, .. } = rig;
    let short = tokio::time::timeout(Duration::from_secs(1), engine.stop()).await;
    assert!(short.is_err());
    drop(engine);
    listener.until(|listener| listener.running() == 0).await;
    while storage.offset(0).is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!((storage.offset(0), storage.offset(1)), (Some(30), Some(30)));
}

#[tokio::test(start_paused = true)]
async fn a_size_of_nothing_is_refused() {
    let rig = rig();
    assert!(matches!(rig.engine.add(&all([0]), 0), Err(FetchError::Size(0))));
}
