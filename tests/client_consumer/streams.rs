//! Messages as a stream.

use std::time::Duration;

use metaq::client::{Message, MessageStream, ReceivedMessage, SeekTo, SubscribeOptions};
use metaq::id::{GroupName, Offset};
use tokio::time::timeout;

use crate::common::DEADLINE;
use crate::common::local::LocalBroker;
use crate::rig::{MAX_SIZE, Record, Rig, config, send, t, text_of, texts, topic};

/// The next message, which has to come.
async fn next(stream: &mut MessageStream) -> metaq::client::Delivery {
    timeout(DEADLINE, stream.next()).await.expect("no message").expect("the stream has ended")
}

async fn stream_of(rig: &Rig, config: metaq::client::ConsumerConfig) -> (metaq::client::Consumer, MessageStream) {
    let consumer = rig.consumer(config);
    let stream = consumer.subscribe_stream(&topic("t"), MAX_SIZE).unwrap();
    consumer.complete_subscribe().await.unwrap();
    (consumer, stream)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_message_is_answered_before_the_next_of_its_partition_comes() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 3)).await;
    let (consumer, mut stream) = stream_of(&rig, config("g")).await;
    let first = next(&mut stream).await;
    assert_eq!((text_of(&first), text_of(first.message())), ("m0".to_owned(), "m0".to_owned()));
    assert!(timeout(Duration::from_millis(200), stream.next()).await.is_err(), "a second one without an answer");
    first.ack();
    next(&mut stream).await.ack();
    next(&mut stream).await.ack();
    consumer.shutdown().await.unwrap();
    assert_eq!(rig.tree.offset("g", 0).await, Some(Offset::new(66)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_is_answered_with_retry_or_reject_and_dropped_it_comes_again() {
    let rig = Rig::start(1).await;
    rig.send(0, ["a", "b", "c"]).await;
    let (consumer, mut stream) = stream_of(&rig, config("g")).await;
    next(&mut stream).await.retry("not yet");
    drop(next(&mut stream).await);
    let third = next(&mut stream).await;
    assert_eq!((text_of(&third).as_str(), third.redeliveries), ("a", 2));
    third.ack();
    next(&mut stream).await.reject("bad");
    let last = next(&mut stream).await;
    assert_eq!((text_of(&last).as_str(), last.redeliveries), ("c", 0));
    last.ack();
    consumer.shutdown().await.unwrap();
    assert_eq!(rig.tree.offset("g", 0).await, Some(Offset::new(63)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_stream_rejects_nothing_and_the_next_member_gets_what_was_not_answered() {
    let rig = Rig::start(2).await;
    for partition in 0..2 {
        rig.send(partition, texts("m", 3)).await;
    }
    // No retry at all: a message that counted as failed would be rejected.
    let (consumer, mut stream) = stream_of(&rig, config("g").max_fetch_retries(0)).await;
    let mut events = rig.factory.events();
    next(&mut stream).await.ack();
    let held = next(&mut stream).await;
    drop(stream);
    drop(held);
    consumer.shutdown().await.unwrap();
    let next_member = Record::default();
    let second = rig.consume(config("g").duplicate_suppression(None), next_member.listener()).await;
    next_member.wait(5).await;
    let mut all = next_member.texts();
    all.sort();
    assert_eq!(all, ["m0", "m1", "m1", "m2", "m2"]);
    second.shutdown().await.unwrap();
    while let Ok(event) = events.try_recv() {
        assert!(!matches!(event, metaq::client::ClientEvent::MessageRejected { .. }), "{event:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_stream_stands_still_and_the_shutdown_does_not_wait_for_it() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 3)).await;
    let (consumer, stream) = stream_of(&rig, config("g").drain_timeout(Duration::from_secs(600))).await;
    drop(stream);
    timeout(DEADLINE, consumer.shutdown()).await.expect("waits for a dropped stream").unwrap();
    assert_eq!(rig.tree.offset("g", 0).await.filter(|offset| *offset != Offset::ZERO), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_ends_when_the_consumer_is_shut_down() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 1)).await;
    let (consumer, mut stream) = stream_of(&rig, config("g")).await;
    next(&mut stream).await.ack();
    let reader = tokio::spawn(async move { stream.next().await.is_none() });
    consumer.shutdown().await.unwrap();
    assert!(timeout(DEADLINE, reader).await.expect("the stream does not end").unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_that_is_held_at_the_shutdown_may_still_be_answered_within_the_drain_time_out() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 2)).await;
    let (consumer, mut stream) = stream_of(&rig, config("g")).await;
    let held = next(&mut stream).await;
    let ending = tokio::spawn({
        let consumer = consumer.clone();
        async move { consumer.shutdown().await }
    });
    held.ack();
    timeout(DEADLINE, ending).await.expect("waits").unwrap().unwrap();
    assert_eq!(rig.tree.offset("g", 0).await, Some(Offset::new(22)));
    // The second one was never taken: it is withdrawn.
    assert!(stream.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_that_is_never_answered_comes_to_the_next_member() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 2)).await;
    let (consumer, mut stream) = stream_of(&rig, config("g").drain_timeout(Duration::from_millis(100))).await;
    let held = next(&mut stream).await;
    let error = consumer.shutdown().await.unwrap_err().to_string();
    assert!(error.contains("1 listeners were cancelled"), "{error}");
    held.ack();
    let record = Record::default();
    let second = rig.consume(config("g"), record.listener()).await;
    record.wait(2).await;
    assert_eq!(record.texts(), texts("m", 2));
    second.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_nobody_reads_takes_one_runner_for_each_partition_and_no_more() {
    let rig = Rig::of(LocalBroker::start(&[("t", 8), ("u", 1)]).await).await;
    for partition in 0..8 {
        rig.send(partition, texts("m", 2)).await;
    }
    let consumer = rig.consumer(config("g").fetch_runner_count(9).drain_timeout(Duration::from_secs(600)));
    let unread = consumer.subscribe_stream(&topic("t"), MAX_SIZE).unwrap();
    let record = Record::default();
    consumer.subscribe(&topic("u"), MAX_SIZE, record.listener()).unwrap();
    consumer.complete_subscribe().await.unwrap();
    rig.owns(&consumer, 9).await;
    send(&rig.factory, 0, texts("u", 5).into_iter().map(|text| Message::new(topic("u"), text))).await;
    record.wait_for("u4").await;
    // What was not taken out of the stream is not waited for, and not lost.
    timeout(DEADLINE, consumer.shutdown()).await.expect("waits for a stream that nobody reads").unwrap();
    drop(unread);
    let next_member = Record::default();
    let second = rig.consume(config("g").duplicate_suppression(None), next_member.listener()).await;
    next_member.wait(16).await;
    second.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_can_be_filtered_and_read_through_the_trait() {
    use futures_core::Stream as _;
    let rig = Rig::start(1).await;
    rig.send(0, ["no", "yes"]).await;
    let consumer = rig.consumer(config("g"));
    let options =
        SubscribeOptions::new(MAX_SIZE).filter(|_: &GroupName, message: &ReceivedMessage| text_of(message) == "yes");
    let stream = consumer.subscribe_stream_with(&topic("t"), options).unwrap();
    consumer.complete_subscribe().await.unwrap();
    let mut stream = Box::pin(stream);
    let first = std::future::poll_fn(|cx| stream.as_mut().poll_next(cx));
    let first = timeout(DEADLINE, first).await.expect("no message").unwrap();
    assert_eq!(text_of(&first), "yes");
    first.ack();
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_the_next_message_can_be_given_up_without_losing_one() {
    let rig = Rig::start(1).await;
    let (consumer, mut stream) = stream_of(&rig, config("g")).await;
    for round in 0..20 {
        tokio::select! {
            biased;
            _ = stream.next() => panic!("nothing was sent"),
            () = tokio::task::yield_now() => {}
        }
        rig.send(0, [format!("m{round}")]).await;
        let delivery = next(&mut stream).await;
        assert_eq!(text_of(&delivery), format!("m{round}"));
        delivery.ack();
    }
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_in_the_stream_is_withdrawn_by_a_pause_and_a_seek() {
    let rig = Rig::start(1).await;
    let sent = rig.send(0, texts("m", 3)).await;
    let (consumer, mut stream) = stream_of(&rig, config("g").max_fetch_retries(0)).await;
    next(&mut stream).await.ack();
    consumer.pause(&[t(0)]).await.unwrap();
    consumer.seek(&t(0), SeekTo::Offset(sent[2].offset)).await.unwrap();
    consumer.resume(&[t(0)]).await.unwrap();
    let third = next(&mut stream).await;
    assert_eq!((text_of(&third).as_str(), third.redeliveries), ("m2", 0));
    third.ack();
    consumer.shutdown().await.unwrap();
}
