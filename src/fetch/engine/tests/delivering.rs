//! What becomes of messages (05 §12, §13).

use std::num::NonZeroUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::fetch::{FetchEvent, FetchOptions, PartitionStatus};

use super::broker::{Broker, record};
use super::listener::Act;
use super::rig::{of, options, rig, rig_with};

#[tokio::test(start_paused = true)]
async fn messages_of_a_partition_come_in_order_and_those_of_several_at_the_same_time() {
    let slowly = |_: &_| Act::Slowly(Duration::from_millis(10));
    let rig = rig_with(Broker::new(false), slowly, options());
    for id in 0..200 {
        rig.broker.put(i32::try_from(id % 10).unwrap(), id, 100);
    }
    rig.add(0..10, 1024).await;
    rig.until(|rig| (0..10).all(|index| rig.listener.handled(index) == rig.broker.ids(index))).await;
    assert_eq!(rig.listener.most(), 4, "as many as there are runners");
}

#[tokio::test(start_paused = true)]
async fn a_failing_message_is_delivered_six_times_and_then_rejected() {
    let rig = rig_with(Broker::new(false), |m| if m.id.get() == 1 { Act::Retry } else { Act::Handle }, options());
    rig.broker.put(0, 1, 10);
    rig.broker.put(0, 2, 10);
    rig.add([0], 1024).await;
    rig.until(|rig| rig.listener.handled(0) == [2]).await;
    let given: Vec<_> = rig.listener.given().iter().map(|given| (given.at, given.id, given.redeliveries)).collect();
    let expected = [(0, 1, 0), (500, 1, 1), (1500, 1, 2), (3000, 1, 3), (5000, 1, 4), (7500, 1, 5), (10_500, 2, 0)];
    assert_eq!(given, expected);
    assert_eq!(rig.listener.rejected(), [(0, 1, "it was delivered 6 times without success".to_owned())]);
    assert_eq!(rig.events.count(|event| matches!(event, FetchEvent::DeliveryFailed { .. })), 6);
    assert_eq!(rig.events.count(|event| matches!(event, FetchEvent::Rejected { .. })), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_handled_before_a_failure_is_not_delivered_again() {
    let rig = rig_with(
        Broker::new(false),
        |m| if m.id.get() == 3 && m.redeliveries < 2 { Act::Retry } else { Act::Handle },
        options(),
    );
    for id in 1..=4 {
        rig.broker.put(0, id, 10);
    }
    rig.add([0], 1024).await;
    rig.until(|rig| rig.listener.handled(0) == [1, 2, 3, 4]).await;
    let given: Vec<_> = rig.listener.given().iter().map(|given| (given.at, given.id)).collect();
    assert_eq!(given, [(0, 1), (0, 2), (0, 3), (0, 3), (500, 3), (500, 4)]);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_message_is_not_delivered_again_and_the_next_one_follows_at_once() {
    let rig = rig_with(Broker::new(false), |m| if m.id.get() == 2 { Act::Reject } else { Act::Handle }, options());
    for id in 1..=3 {
        rig.broker.put(0, id, 10);
    }
    rig.add([0], 1024).await;
    rig.until(|rig| rig.listener.handled(0) == [1, 3]).await;
    assert_eq!(rig.given_at(), [0, 0, 0]);
    assert_eq!(rig.listener.rejected(), [(0, 2, "never".to_owned())]);
    rig.engine.commit().await.unwrap();
    assert_eq!(rig.storage.stored(0), Some("3-90".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_rejected_message_without_room_is_offered_again_but_not_delivered() {
    let rig = rig_with(Broker::new(false), |m| if m.id.get() == 1 { Act::Reject } else { Act::Handle }, options());
    rig.broker.put(0, 1, 10);
    rig.broker.put(0, 2, 10);
    rig.listener.full.store(true, Ordering::SeqCst);
    rig.add([0], 1024).await;
    rig.pass(60_000).await;
    assert_eq!(rig.listener.given().len(), 1);
    assert_eq!(rig.position(0).await.as_deref(), Some("-1-0"));
    let failures = rig.events.count(|event| matches!(event, FetchEvent::RejectFailed { .. }));
    assert!((10..20).contains(&failures), "{failures} attempts within a minute");
    rig.listener.full.store(false, Ordering::SeqCst);
    rig.until(|rig| rig.listener.handled(0) == [2]).await;
    assert_eq!(rig.listener.rejected(), [(0, 1, "never".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_panics_gets_the_message_again_and_nobody_else_notices() {
    let rig = rig_with(
        Broker::new(false),
        |m| if m.id.get() == 2 && m.redeliveries == 0 { Act::Panic } else { Act::Handle },
        options(),
    );
    for (index, id) in [(0, 1), (0, 2), (1, 3)] {
        rig.broker.put(index, id, 10);
    }
    rig.add([0, 1], 1024).await;
    rig.until(|rig| rig.listener.handled(0) == [1, 2] && rig.listener.handled(1) == [3]).await;
    assert_eq!(rig.listener.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_attribute_is_broken_is_rejected_and_holds_nobody_up() {
    let rig = rig();
    let mut broken = record(2, Some("tag"), b"payload");
    // The length of the attribute, which the checksum covers.
    broken[20] = 0x7f;
    let sum = crate::message::checksum(&broken[20..]).to_be_bytes();
    broken[4..8].copy_from_slice(&sum);
    rig.broker.put(0, 1, 10);
    rig.broker.append(0, 2, &broken);
    rig.broker.put(0, 3, 10);
    rig.add([0], 1024).await;
    rig.until(|rig| rig.listener.handled(0) == [1, 3]).await;
    let rejected = rig.listener.rejected();
    assert!(rejected.len() == 1 && rejected[0].2.contains("attribute block"), "{rejected:?}");
}

#[tokio::test(start_paused = true)]
async fn a_damaged_message_is_told_and_tried_with_the_longest_pause_and_not_skipped() {
    let rig = rig();
    rig.broker.put(0, 1, 10);
    rig.broker.put(0, 2, 10);
    let bad = rig.broker.put(0, 3, 10);
    rig.broker.put(0, 4, 10);
    rig.broker.damage(0, usize::try_from(bad).unwrap() + 25);
    rig.add([0], 1024).await;
    rig.pass(60_000).await;
    // What is before it comes once more, from the offset that the broker named.
    assert_eq!(rig.listener.handled(0), [1, 2, 1, 2]);
    assert_eq!(rig.broker.nearest_asked(), [(0, bad)]);
    assert!(rig.broker.seen().len() < 20, "{} gets within a minute", rig.broker.seen().len());
    assert_eq!(rig.events.count(|event| matches!(event, FetchEvent::Stuck { .. })), 1);
    let state = rig.engine.state(&of(0)).await.unwrap();
    assert_eq!(state.status, PartitionStatus::Stuck);
    assert!(state.stuck.is_some_and(|reason| reason.contains("checksum")));
    rig.broker.damage(0, usize::try_from(bad).unwrap() + 25);
    rig.until(|rig| rig.listener.handled(0) == [1, 2, 1, 2, 3, 4]).await;
}

#[tokio::test(start_paused = true)]
async fn an_offset_inside_a_message_leads_to_the_nearest_one() {
    let rig = rig();
    for id in 1..=3 {
        rig.broker.put(0, id, 10);
    }
    rig.storage.store(0, "-1-7");
    rig.add([0], 1024).await;
    rig.until(|rig| rig.listener.handled(0) == [1, 2, 3]).await;
    assert_eq!(rig.broker.nearest_asked(), [(0, 7)]);
    assert_eq!(rig.events.count(|event| matches!(event, FetchEvent::Realigned { .. })), 1);
    assert_eq!(rig.events.count(|event| matches!(event, FetchEvent::Stuck { .. })), 0);
}

#[tokio::test(start_paused = true)]
async fn one_runner_serves_all_partitions_in_turn() {
    let options = FetchOptions { runners: NonZeroUsize::MIN, ..options() };
    let rig = rig_with(Broker::new(false), |_| Act::Slowly(Duration::from_millis(1)), options);
    for round in 0..5 {
        for index in 0..20 {
            rig.broker.put(index, i64::from(round * 20 + index), 500);
        }
    }
    // One message an answer.
    rig.add(0..20, 600).await;
    rig.until(|rig| (0..20).all(|index| rig.listener.handled(index).len() == 5)).await;
    let order: Vec<_> = rig.listener.given().iter().take(20).map(|given| given.index).collect();
    assert_eq!(order, (0..20).collect::<Vec<_>>());
    assert_eq!(rig.listener.most(), 1);
}
