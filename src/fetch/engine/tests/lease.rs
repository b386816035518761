//! A process that may have stood still beyond its session.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, advance};

use super::broker::Broker;
use super::listener::{Act, Listener};
use super::rig::{Rig, options, rig_with};
use crate::fetch::engine::deliveries::{Delivered, deliver};
use crate::fetch::testing::partition;
use crate::fetch::{Batch, FetchError, FetchOptions, ReceivedMessage, Released};
use crate::id::{MessageId, Offset};
use crate::zk::Lease;

const LENGTH: Duration = Duration::from_secs(20);

fn leased(plan: impl Fn(&ReceivedMessage) -> Act + Send + Sync + 'static) -> (Rig, Lease) {
    let lease = Lease::new();
    let options = FetchOptions { lease: Some(lease.clone()), ..options() };
    let rig = rig_with(Broker::new(false), plan, options);
    rig.listener.looks.store(true, Ordering::SeqCst);
    (rig, lease)
}

#[tokio::test(start_paused = true)]
async fn nothing_is_delivered_before_the_session_is_confirmed_and_everything_at_once_afterwards() {
    let (rig, lease) = leased(|_| Act::Handle);
    rig.broker.put(0, 1, 10);
    rig.add([0], 1024).await;
    rig.pass(60_000).await;
    assert_eq!(rig.listener.given(), []);
    let confirmed = Instant::now();
    lease.renew(confirmed, LENGTH);
    rig.listener.until(|listener| listener.handled(0) == [1]).await;
    assert!(confirmed.elapsed() < Duration::from_millis(2), "{:?}", confirmed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_batch_waits_when_the_process_has_stood_still_and_follows_without_a_repetition() {
    let (rig, lease) = leased(|m| if m.id.get() == 2 { Act::Gate } else { Act::Handle });
    for id in 1..=4 {
        rig.broker.put(0, id, 10);
    }
    lease.renew(Instant::now(), LENGTH);
    rig.add([0], 1024).await;
    rig.listener.until(|listener| listener.given().len() == 2).await;
    // In the middle of the second message: no timer and no news comes before the listener goes on.
    rig.listener.gate.notify_waiters();
    advance(LENGTH).await;
    rig.pass(60_000).await;
    assert_eq!(rig.listener.handled(0), [1, 2]);
    assert_eq!(rig.position(0).await.as_deref(), Some("2-60"));
    lease.renew(Instant::now(), LENGTH);
    rig.listener.until(|listener| listener.handled(0) == [1, 2, 3, 4]).await;
    assert_eq!(rig.listener.given().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_committed_before_the_session_is_confirmed() {
    let (rig, lease) = leased(|_| Act::Handle);
    rig.broker.put(0, 1, 10);
    lease.renew(Instant::now(), LENGTH);
    rig.add([0], 1024).await;
    rig.listener.until(|listener| listener.handled(0) == [1]).await;
    advance(LENGTH).await;
    rig.pass(60_000).await;
    assert_eq!(rig.storage.commits(), []);
    assert!(matches!(rig.engine.commit().await, Err(FetchError::Fenced)));
    lease.renew(Instant::now(), LENGTH);
    rig.until(|rig| rig.storage.offset(0) == Some(30)).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_with_nothing_to_commit_waits_for_no_session() {
    let (rig, lease) = leased(|_| Act::Handle);
    rig.broker.put(0, 1, 10);
    lease.renew(Instant::now(), LENGTH);
    rig.add([0], 1024).await;
    rig.listener.until(|listener| listener.handled(0) == [1]).await;
    rig.engine.commit().await.unwrap();
    lease.end();
    let start = Instant::now();
    assert_eq!(rig.release([0]).await, Released::default());
    assert_eq!(rig.engine.stop().await, Released::default());
    assert!(start.elapsed() < Duration::from_millis(2), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_was_assigned_in_a_session_is_not_delivered_in_the_next_one() {
    let (rig, lease) = leased(|m| if m.id.get() == 1 { Act::Gate } else { Act::Handle });
    for id in 1..=3 {
        rig.broker.put(0, id, 10);
    }
    lease.renew(Instant::now(), LENGTH);
    rig.add([0], 1024).await;
    rig.listener.until(|listener| listener.given().len() == 1).await;
    // The engine has not heard yet that the partition is lost.
    lease.end();
    lease.renew(Instant::now(), LENGTH);
    rig.listener.gate.notify_waiters();
    rig.pass(1000).await;
    assert_eq!(rig.listener.given().len(), 1);
    rig.lose([0]).await;
    rig.add([0], 1024).await;
    rig.listener.gate.notify_one();
    rig.listener.until(|listener| listener.given().iter().map(|given| given.id).eq([1, 1, 2, 3])).await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_comes_back_while_it_leaves_is_of_the_session_in_which_it_came_back() {
    let (rig, lease) = leased(|m| if m.id.get() == 1 { Act::Gate } else { Act::Handle });
    rig.broker.put(0, 1, 10);
    rig.broker.put(0, 2, 10);
    lease.renew(Instant::now(), LENGTH);
    rig.add([0], 1024).await;
    rig.listener.until(|listener| listener.given().len() == 1).await;
    let (_, ()) = tokio::join!(rig.release([0]), async {
        rig.pass(10).await;
        lease.end();
        lease.renew(Instant::now(), LENGTH);
        rig.add([0], 1024).await;
        rig.listener.gate.notify_waiters();
    });
    rig.listener.until(|listener| listener.handled(0).contains(&2)).await;
}

#[tokio::test(start_paused = true)]
async fn no_message_is_put_away_when_the_process_stood_still_before_that_began() {
    let lease = Lease::new();
    lease.renew(Instant::now(), LENGTH);
    let message = ReceivedMessage {
        from: partition(0),
        offset: Offset::ZERO,
        next_offset: Offset::new(30),
        id: MessageId::new(1),
        attribute: None,
        payload: bytes::Bytes::new(),
        redeliveries: 0,
    };
    let batch = Arc::new(Batch::new(vec![message], Some(lease.term())));
    let listener = Arc::new(Listener::new(|_| Act::Handle));
    let put_away = || deliver(listener.clone(), Arc::clone(&batch), Some("bad".to_owned()));
    advance(LENGTH).await;
    assert!(matches!(put_away().await, Delivered::Stopped));
    assert_eq!(listener.rejected(), []);
    lease.renew(Instant::now(), LENGTH);
    assert!(matches!(put_away().await, Delivered::Rejected { place: 0, .. }));
}
