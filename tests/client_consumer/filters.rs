//! Messages that the listener is not to see: filters and duplicate suppression (05 §12).

use std::sync::Arc;
use std::time::Duration;

use metaq::client::{Action, Consumer, MessageSessionFactory, ReceivedMessage, SeekTo, SubscribeOptions};
use metaq::id::{GroupName, Offset};
use tokio::sync::Semaphore;

use crate::common::eventually;
use crate::rig::{MAX_SIZE, NEVER, Record, Rig, config, consume, t, text_of, texts, topic};

fn even(_: &GroupName, message: &ReceivedMessage) -> bool {
    text_of(message).trim_start_matches(char::is_alphabetic).parse::<u32>().unwrap().is_multiple_of(2)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_filter_does_not_accept_counts_as_handled() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 10)).await;
    let record = Record::default();
    let consumer = rig.consumer(config("g"));
    let options = SubscribeOptions::new(MAX_SIZE).filter(even);
    consumer.subscribe_with(&topic("t"), options, record.listener()).unwrap();
    consumer.complete_subscribe().await.unwrap();
    record.wait(5).await;
    assert_eq!(record.texts(), ["m0", "m2", "m4", "m6", "m8"]);
    // The last one was not accepted, and yet the group is past it.
    eventually("the position", async || match consumer.position(&t(0)).await.unwrap() {
        Some(position) if position == Offset::new(220) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    consumer.shutdown().await.unwrap();
    assert_eq!(rig.tree.offset("g", 0).await, Some(Offset::new(220)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_that_panics_has_not_accepted() {
    let rig = Rig::start(1).await;
    rig.send(0, ["1", "not a number", "2", "4"]).await;
    let record = Record::default();
    let consumer = rig.consumer(config("g"));
    let options = SubscribeOptions::new(MAX_SIZE).filter(even);
    consumer.subscribe_with(&topic("t"), options, record.listener()).unwrap();
    consumer.complete_subscribe().await.unwrap();
    record.wait(2).await;
    consumer.shutdown().await.unwrap();
    assert_eq!(record.texts(), ["2", "4"]);
}

/// Handles everything and disappears without a word: nothing is committed.
async fn handle_and_vanish(factory: MessageSessionFactory, group: &str, count: usize) {
    let record = Record::default();
    let consumer = consume(&factory, config(group), record.listener()).await;
    record.wait(count).await;
    // The engine has taken notice of the last one.
    let end = record.all()[count - 1].next_offset;
    eventually("the position", async || match consumer.position(&t(0)).await.unwrap() {
        Some(position) if position == end => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    drop((consumer, factory));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_consumer_of_the_process_has_handled_is_not_delivered_to_the_next_of_its_group() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 5)).await;
    handle_and_vanish(rig.broker.factory().await, "suppressed", 5).await;
    assert_eq!(rig.tree.offset("suppressed", 0).await, None);
    let (same, other) = (Record::default(), Record::default());
    let second = rig.consume(config("suppressed"), same.listener()).await;
    let stranger = rig.consume(config("another"), other.listener()).await;
    rig.send(0, ["new"]).await;
    same.wait_for("new").await;
    other.wait_for("new").await;
    assert_eq!(same.texts(), ["new"]);
    assert_eq!(other.texts(), [texts("m", 5), vec!["new".to_owned()]].concat());
    second.shutdown().await.unwrap();
    stranger.shutdown().await.unwrap();
    assert_eq!(rig.tree.offset("suppressed", 0).await, Some(Offset::new(133)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_suppression_everything_after_the_last_commit_comes_again() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 5)).await;
    handle_and_vanish(rig.broker.factory().await, "repeated", 5).await;
    let record = Record::default();
    let second = rig.consume(config("repeated").duplicate_suppression(None), record.listener()).await;
    record.wait(5).await;
    assert_eq!(record.texts(), texts("m", 5));
    second.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn going_back_delivers_again_what_was_seen() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 5)).await;
    let record = Record::default();
    let consumer = rig.consume(config("back"), record.listener()).await;
    record.wait(5).await;
    consumer.seek(&t(0), SeekTo::Earliest).await.unwrap();
    record.wait(10).await;
    assert_eq!(record.texts(), [texts("m", 5), texts("m", 5)].concat());
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn going_back_is_not_cut_short_when_the_partition_is_another_member_s_for_a_while() {
    let rig = Rig::start(2).await;
    rig.send(1, texts("m", 5)).await;
    let (record, gate) = (Record::default(), Arc::new(Semaphore::new(5)));
    let patience = Duration::from_millis(100);
    let member = |id: &str| config("handed").consumer_id(id).drain_timeout(patience);
    let first = rig.consume(member("a"), record.gated(&gate)).await;
    reaches_the_end(&first).await;
    first.seek(&t(1), SeekTo::Earliest).await.unwrap();
    gate.add_permits(2);
    record.wait(8).await;
    // The third message again waits, is cancelled, and stays with a member that handles nothing.
    let factory = rig.broker.factory().await;
    let held = Record::default();
    let other = member("b").duplicate_suppression(None);
    let second = consume(&factory, other, held.gated(&Arc::new(Semaphore::new(0)))).await;
    held.wait(1).await;
    assert_eq!(held.texts(), ["m2"]);
    let unclean = second.shutdown().await.unwrap_err();
    assert!(unclean.to_string().contains("1 listeners were cancelled"), "{unclean}");
    gate.add_permits(100);
    reaches_the_end(&first).await;
    first.shutdown().await.unwrap();
    let expected = ["m0", "m1", "m2", "m3", "m4", "m0", "m1", "m2", "m2", "m3", "m4"];
    assert_eq!(record.texts(), expected);
}

/// Waits until a consumer is behind the five messages of partition 1.
async fn reaches_the_end(consumer: &Consumer) {
    eventually("the end", async || match consumer.position(&t(1)).await.unwrap() {
        Some(position) if position == Offset::new(110) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn going_back_from_inside_a_listener_delivers_again_what_the_batch_had_handled() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 5)).await;
    let record = Record::default();
    let consumer = rig.consumer(config("inside"));
    let listener = {
        let (record, consumer) = (record.clone(), consumer.clone());
        move |message: ReceivedMessage| {
            let (record, consumer) = (record.clone(), consumer.clone());
            async move {
                record.note(&message);
                if record.len() == 5 {
                    consumer.seek(&t(0), SeekTo::Earliest).await.unwrap();
                }
                Action::Ack
            }
        }
    };
    consumer.subscribe(&topic("t"), MAX_SIZE, listener).unwrap();
    consumer.complete_subscribe().await.unwrap();
    record.wait(10).await;
    assert_eq!(record.texts(), [texts("m", 5), texts("m", 5)].concat());
    rig.factory.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_seen_is_hidden_and_what_fails_comes_again() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 3)).await;
    handle_and_vanish(rig.broker.factory().await, "failed", 3).await;
    let record = Record::default();
    let listener = record.answering(|message| match message.redeliveries {
        0 => Action::Retry("not yet".to_owned()),
        _ => Action::Ack,
    });
    let config = config("failed").commit_offset_period(NEVER).max_delay_fetch_time(Duration::from_millis(20));
    let consumer = rig.consume(config, listener).await;
    rig.send(0, ["new"]).await;
    record.wait(2).await;
    assert_eq!(record.texts(), ["new", "new"]);
    consumer.shutdown().await.unwrap();
}
