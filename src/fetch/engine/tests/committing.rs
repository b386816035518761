//! Offsets (05 §11).

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::guard::lock;
use crate::fetch::{FetchError, FetchEvent};

use super::broker::{Answer, Broker};
use super::listener::Act;
use super::rig::{of, options, rig, rig_with};

#[tokio::test(start_paused = true)]
async fn only_what_has_changed_is_committed_every_five_seconds() {
    let rig = rig();
    rig.broker.put(0, 1, 10);
    rig.add([0, 1], 1024).await;
    rig.pass(4999).await;
    assert_eq!(rig.storage.commits(), []);
    rig.pass(10_000).await;
    assert_eq!(rig.storage.commits(), [(5000, 0, 30)]);
    rig.broker.put(1, 2, 10);
    rig.pass(10_000).await;
    assert_eq!(rig.storage.commits(), [(5000, 0, 30), (20_000, 1, 30)]);
    assert_eq!(rig.storage.stored(0), Some("1-30".to_owned()));
    assert_eq!(rig.engine.committed(&of(0)).await, rig.engine.position(&of(0)).await);
}

#[tokio::test(start_paused = true)]
async fn what_a_running_listener_has_handled_is_committed_as_well() {
    let rig = rig_with(Broker::new(false), |m| if m.id.get() == 3 { Act::Gate } else { Act::Handle }, options());
    for id in 1..=3 {
        rig.broker.put(0, id, 10);
    }
    rig.add([0], 1024).await;
    rig.pass(5001).await;
    assert_eq!(rig.storage.commits(), [(5000, 0, 60)]);
    assert_eq!(rig.position(0).await.as_deref(), Some("2-60"));
}

#[tokio::test(start_paused = true)]
async fn a_failed_message_is_not_passed_by_the_offset_or_its_id() {
    let rig = rig_with(Broker::new(false), |m| if m.id.get() == 2 { Act::Retry } else { Act::Handle }, options());
    rig.broker.put(0, 1, 10);
    rig.broker.put(0, 2, 10);
    rig.add([0], 1024).await;
    rig.pass(5001).await;
    assert_eq!(rig.storage.stored(0), Some("1-30".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_moved_offset_is_committed_although_nothing_was_delivered() {
    let rig = rig();
    rig.broker.script(0, [Answer::Moved(4096)]);
    rig.broker.always(0, Some(Answer::Nothing));
    rig.add([0], 1024).await;
    rig.pass(5001).await;
    assert_eq!(rig.storage.stored(0), Some("-1-4096".to_owned()));
    assert_eq!(rig.broker.times(0)[..2], [0, 500], "the first get there waits one step");
    assert_eq!(rig.broker.seen()[1].offset, 4096);
}

#[tokio::test(start_paused = true)]
async fn a_failed_commit_is_repeated_with_the_next_one_and_told() {
    let rig = rig();
    rig.broker.put(0, 1, 10);
    rig.storage.fails.store(true, Ordering::SeqCst);
    rig.add([0], 1024).await;
    rig.pass(1000).await;
    let error = rig.engine.commit().await.unwrap_err();
    assert!(matches!(&error, FetchError::NotCommitted { failed: 1, .. }), "{error}");
    assert!(error.to_string().contains("test 0-0: the storage is away"), "{error}");
    rig.pass(10_000).await;
    assert_eq!(rig.storage.commits(), []);
    rig.storage.fails.store(false, Ordering::SeqCst);
    rig.pass(5000).await;
    assert_eq!(rig.storage.commits(), [(15_000, 0, 30)]);
    assert_eq!(rig.events.count(|event| matches!(event, FetchEvent::CommitFailed { .. })), 3);
}

#[tokio::test(start_paused = true)]
async fn a_partition_of_another_member_is_given_up_and_the_others_are_not() {
    let rig = rig_with(Broker::new(false), |m| if m.id.get() == 2 { Act::Gate } else { Act::Handle }, options());
    for (index, id) in [(0, 1), (0, 2), (1, 3)] {
        rig.broker.put(index, id, 10);
    }
    *lock(&rig.storage.foreign) = Some(0);
    rig.add([0, 1], 1024).await;
    rig.pass(5001).await;
    assert_eq!(rig.listener.running(), 0, "its listener is cancelled");
    assert_eq!(rig.engine.assigned().await, [of(1)]);
    assert_eq!(rig.events.count(|event| matches!(event, FetchEvent::NotOwner { of } if **of == self::of(0))), 1);
    assert_eq!(rig.storage.offset(1), Some(30));
    let gets = rig.broker.times(0).len();
    rig.pass(60_000).await;
    assert_eq!(rig.broker.times(0).len(), gets);
}

#[tokio::test(start_paused = true)]
async fn commits_follow_each_other() {
    let rig = rig();
    *lock(&rig.storage.latency) = Duration::from_secs(7);
    for index in 0..3 {
        rig.broker.put(index, 1, 10);
    }
    rig.add(0..3, 1024).await;
    rig.pass(100).await;
    // The storage itself sees to it that there is one at a time.
    let (first, second, left) = tokio::join!(rig.engine.commit(), rig.engine.commit(), rig.release([0]));
    assert!(first.is_ok() && second.is_ok() && left.not_committed.is_empty());
    assert_eq!(rig.storage.commits().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn behind_the_fence_nothing_begins_and_what_was_handled_is_committed_afterwards() {
    let rig = rig_with(Broker::new(false), |m| if m.id.get() == 2 { Act::Gate } else { Act::Handle }, options());
    for (index, id) in [(0, 1), (0, 2)] {
        rig.broker.put(index, id, 10);
    }
    rig.add([0, 1], 1024).await;
    rig.listener.until(|listener| listener.given().len() == 2).await;
    rig.engine.fence(true);
    rig.broker.put(0, 3, 10);
    rig.broker.put(1, 4, 10);
    rig.listener.gate.notify_waiters();
    rig.pass(60_000).await;
    assert_eq!(rig.listener.given().len(), 2);
    assert_eq!(rig.storage.commits(), []);
    assert_eq!(rig.position(0).await.as_deref(), Some("2-60"));
    assert!(matches!(rig.engine.commit().await, Err(FetchError::Fenced)));
    rig.engine.fence(false);
    rig.until(|rig| rig.listener.handled(0) == [1, 2, 3] && rig.listener.handled(1) == [4]).await;
    rig.until(|rig| rig.storage.offset(0) == Some(90)).await;
}
