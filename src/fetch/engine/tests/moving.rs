//! Seeking, pausing, and where a partition stands.

use std::sync::atomic::Ordering;

use crate::fetch::{FetchError, FetchEvent, FetchOptions, SeekTo};
use crate::id::Offset;

use super::broker::{Answer, Broker};
use super::listener::Act;
use super::rig::{all, of, options, rig, rig_with};

#[tokio::test(start_paused = true)]
async fn a_seek_backwards_delivers_again_from_there_and_is_committed() {
    let rig = rig();
    for id in 1..=4 {
        rig.broker.put(0, id, 10);
    }
    rig.add([0], 1024).await;
    rig.until(|rig| rig.listener.handled(0).len() == 4).await;
    rig.engine.commit().await.unwrap();
    rig.engine.pause(&all([0])).await.unwrap();
    rig.engine.seek(&of(0), SeekTo::Offset(Offset::new(60))).await.unwrap();
    rig.engine.commit().await.unwrap();
    assert_eq!(rig.storage.stored(0), Some("-1-60".to_owned()));
    rig.engine.resume(&all([0])).await.unwrap();
    rig.until(|rig| rig.listener.handled(0) == [1, 2, 3, 4, 3, 4]).await;
}

#[tokio::test(start_paused = true)]
async fn a_seek_during_a_delivery_counts_and_what_the_listener_still_handles_does_not() {
    let gated = |m: &crate::fetch::ReceivedMessage| matches!(m.id.get(), 2 | 3);
    let rig = rig_with(Broker::new(true), move |m| if gated(m) { Act::Gate } else { Act::Handle }, options());
    for id in 1..=5 {
        rig.broker.put(0, id, 10);
    }
    rig.add([0], 1024).await;
    rig.listener.until(|listener| listener.given().len() == 2).await;
    rig.engine.seek(&of(0), SeekTo::Offset(Offset::new(120))).await.unwrap();
    rig.listener.gate.notify_waiters();
    rig.listener.until(|listener| listener.given().len() == 3).await;
    rig.engine.commit().await.unwrap();
    assert_eq!(rig.storage.stored(0), Some("-1-120".to_owned()));
    assert_eq!(rig.position(0).await.as_deref(), Some("-1-120"));
    rig.listener.gate.notify_waiters();
    rig.until(|rig| rig.listener.handled(0) == [1, 2, 3, 4, 5, 5]).await;
    rig.engine.commit().await.unwrap();
    assert_eq!(rig.storage.stored(0), Some("5-150".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_seek_drops_what_waits_for_a_listener() {
    let rig = rig_with(Broker::new(true), |_| Act::Gate, options());
    for index in 0..5 {
        rig.broker.put(index, 1, 10);
        rig.broker.put(index, 2, 10);
    }
    rig.add(0..5, 1024).await;
    rig.until(|rig| rig.listener.running() == 4).await;
    rig.pass(1).await;
    rig.engine.seek(&of(4), SeekTo::Offset(Offset::new(30))).await.unwrap();
    rig.pass(1).await;
    while rig.listener.handled(4).is_empty() {
        rig.listener.gate.notify_waiters();
        rig.pass(1).await;
    }
    assert_eq!(rig.listener.handled(4), [2]);
}

#[tokio::test(start_paused = true)]
async fn a_seek_before_the_stored_offset_is_known_is_not_forgotten() {
    let rig = rig();
    rig.broker.put(0, 1, 10);
    rig.broker.put(0, 2, 10);
    rig.storage.bad_loads.store(3, Ordering::SeqCst);
    rig.add([0], 1024).await;
    rig.pass(10).await;
    rig.engine.seek(&of(0), SeekTo::Offset(Offset::new(30))).await.unwrap();
    rig.until(|rig| rig.listener.handled(0) == [2]).await;
    assert_eq!(rig.storage.loads.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn every_seek_tells_where_the_group_stood() {
    let rig = rig_with(Broker::new(true), |_| Act::Handle, FetchOptions { start: SeekTo::Latest, ..options() });
    rig.broker.always(0, Some(Answer::Nothing));
    rig.broker.put(0, 1, 10);
    rig.add([0], 1024).await;
    rig.pass(10).await;
    let told = |from: i64| {
        let from = Offset::new(from);
        rig.events.count(|event| matches!(event, FetchEvent::Sought { from: told, .. } if *told == from))
    };
    rig.engine.seek(&of(0), SeekTo::Earliest).await.unwrap();
    assert_eq!(told(0), 1, "the end was not known");
    rig.broker.always(0, None);
    rig.until(|rig| rig.listener.handled(0) == [1]).await;
    rig.engine.seek(&of(0), SeekTo::Earliest).await.unwrap();
    assert_eq!((told(0), told(30)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_seek_to_the_end_skips_what_is_there_and_commits_where_the_end_was() {
    let rig = rig();
    rig.broker.put(0, 1, 10);
    rig.broker.always(0, Some(Answer::Nothing));
    rig.add([0], 1024).await;
    rig.pass(100).await;
    rig.engine.seek(&of(0), SeekTo::Latest).await.unwrap();
    rig.engine.commit().await.unwrap();
    assert_eq!(rig.storage.stored(0), None, "the largest offset is never stored");
    rig.broker.always(0, None);
    rig.until(|rig| rig.storage.offset(0) == Some(30)).await;
    rig.broker.put(0, 2, 10);
    rig.until(|rig| rig.listener.handled(0) == [2]).await;
}

#[tokio::test(start_paused = true)]
async fn a_seek_ends_what_is_stuck() {
    let rig = rig();
    rig.broker.put(0, 1, 10);
    let bad = rig.broker.put(0, 2, 10);
    let good = rig.broker.put(0, 3, 10);
    rig.broker.damage(0, usize::try_from(bad).unwrap() + 25);
    rig.add([0], 1024).await;
    rig.pass(20_000).await;
    rig.engine.seek(&of(0), SeekTo::Offset(Offset::new(good))).await.unwrap();
    rig.until(|rig| rig.listener.handled(0).ends_with(&[3])).await;
    assert_eq!(rig.engine.state(&of(0)).await.unwrap().stuck, None);
}

#[tokio::test(start_paused = true)]
async fn seeks_that_make_no_sense_are_refused() {
    let rig = rig();
    rig.add([0], 1024).await;
    let negative = rig.engine.seek(&of(0), SeekTo::Offset(Offset::new(-1))).await;
    assert!(matches!(negative, Err(FetchError::Negative(_))));
    let foreign = rig.engine.seek(&of(1), SeekTo::Earliest).await;
    assert!(matches!(foreign, Err(FetchError::NotAssigned(partition)) if partition == of(1)));
}

#[tokio::test(start_paused = true)]
async fn a_paused_partition_rests_until_it_is_resumed_and_others_go_on() {
    let rig = rig();
    rig.add([0, 1], 1024).await;
    rig.pass(100).await;
    rig.engine.pause(&all([0, 7])).await.unwrap();
    rig.broker.put(0, 1, 10);
    rig.broker.put(1, 2, 10);
    rig.pass(60_000).await;
    assert_eq!((rig.broker.times(0).len(), rig.listener.handled(1)), (1, vec![2]));
    rig.engine.resume(&all([0])).await.unwrap();
    rig.pass(1).await;
    assert_eq!(rig.listener.handled(0), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_running_listener_ends_its_batch_when_its_partition_is_paused() {
    let rig = rig_with(Broker::new(true), |m| if m.id.get() == 1 { Act::Gate } else { Act::Handle }, options());
    rig.broker.put(0, 1, 10);
    rig.broker.put(0, 2, 10);
    rig.add([0], 1024).await;
    rig.until(|rig| rig.listener.running() == 1).await;
    rig.engine.pause(&all([0])).await.unwrap();
    rig.broker.put(0, 3, 10);
    rig.listener.gate.notify_waiters();
    rig.pass(60_000).await;
    assert_eq!(rig.listener.handled(0), [1, 2]);
    rig.engine.resume(&all([0])).await.unwrap();
    rig.until(|rig| rig.listener.handled(0) == [1, 2, 3]).await;
}

#[tokio::test(start_paused = true)]
async fn lag_is_what_lies_between_the_position_and_the_end() {
    let rig = rig_with(Broker::new(true), |m| if m.id.get() == 2 { Act::Gate } else { Act::Handle }, options());
    for id in 1..=3 {
        rig.broker.put(0, id, 10);
    }
    rig.add([0], 1024).await;
    rig.listener.until(|listener| listener.given().len() == 2).await;
    assert_eq!(rig.engine.lag(&of(0)).await.unwrap(), Some(60));
    rig.broker.always(0, Some(Answer::Nothing));
    assert_eq!(rig.engine.lag(&of(0)).await.unwrap(), None);
    rig.broker.always(0, Some(Answer::Failure));
    assert!(matches!(rig.engine.lag(&of(0)).await, Err(FetchError::Source(_))));
    assert!(matches!(rig.engine.lag(&of(1)).await, Err(FetchError::NotAssigned(_))));
}
