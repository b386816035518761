//! Messages that are not handled at once: delivered again, rejected, put away (05 §12, §13).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use metaq::client::{
    Action, BoxFuture, ClientEvent, DeadLetterTopic, DropRejected, LogRejected, Message, ReceivedMessage, RejectError,
    RejectHandler, SeekTo,
};
use metaq::id::Offset;

use crate::common::local::LocalBroker;
use crate::rig::{MAX_SIZE, Record, Rig, config, send, t, text_of, texts, topic, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_retries_and_panics_bring_the_message_again_and_nothing_overtakes_it() {
    let rig = Rig::start(1).await;
    rig.send(0, ["a", "error", "b", "retry", "c", "panic", "d", "early panic", "e"]).await;
    let record = Record::default();
    let listener = {
        let record = record.clone();
        move |message: ReceivedMessage| {
            let record = record.clone();
            record.note(&message);
            let (text, fails) = (text_of(&message), message.redeliveries < 2);
            assert!(!(fails && text == "early panic"), "no bread");
            async move {
                match text.as_str() {
                    "error" if fails => Err("no butter"),
                    "retry" if fails => Ok(Action::Retry("no milk".to_owned())),
                    "panic" if fails => panic!("no salt"),
                    _ => Ok(Action::Ack),
                }
            }
        }
    };
    let consumer = rig.consume(config("g"), listener).await;
    record.wait_for("e").await;
    let seen: Vec<_> = record.all().iter().map(|message| (text_of(message), message.redeliveries)).collect();
    let mut expected = Vec::new();
    for text in ["a", "error", "b", "retry", "c", "panic", "d", "early panic", "e"] {
        let times = if text.len() > 1 { 3 } else { 1 };
        expected.extend((0..times).map(|redeliveries| (text.to_owned(), redeliveries)));
    }
    assert_eq!(seen, expected);
    consumer.shutdown().await.unwrap();
}

/// Keeps what is rejected, after it has failed so often.
#[derive(Debug, Clone, Default)]
struct Keep {
    record: Record,
    reasons: Arc<std::sync::Mutex<Vec<String>>>,
    failures: Arc<AtomicUsize>,
    panics: bool,
}

impl RejectHandler for Keep {
    fn reject<'a>(&'a self, message: &'a ReceivedMessage, reason: &'a str) -> BoxFuture<'a, Result<(), RejectError>> {
        self.record.note(message);
        let fails = self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        assert!(!(fails && self.panics), "the handler panics");
        Box::pin(async move {
            if fails {
                return Err("no room".into());
            }
            self.reasons.lock().unwrap().push(reason.to_owned());
            Ok(())
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_delivered_once_more_than_its_retries_then_rejected() {
    for retries in [0, 1, 5] {
        let rig = Rig::start(1).await;
        rig.send(0, ["bad", "good"]).await;
        let (record, keep) = (Record::default(), Keep::default());
        let listener = record.answering(|message| match text_of(message).as_str() {
            "bad" => Action::Retry("it is bad".to_owned()),
            _ => Action::Ack,
        });
        let config = config("g").max_fetch_retries(retries).reject_handler(keep.clone());
        let consumer = rig.consume(config, listener).await;
        record.wait_for("good").await;
        let times = usize::try_from(retries).unwrap() + 1;
        assert_eq!(record.texts(), [vec!["bad"; times], vec!["good"]].concat());
        assert_eq!(keep.record.texts(), ["bad"]);
        assert_eq!(*keep.reasons.lock().unwrap(), [format!("it was delivered {times} times without success")]);
        consumer.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejected_message_is_put_away_at_once_and_the_offset_moves_past_it() {
    let rig = Rig::start(1).await;
    rig.send(0, ["good", "bad", "worse"]).await;
    let (record, keep) = (Record::default(), Keep::default());
    let listener = record.answering(|message| match text_of(message).as_str() {
        "good" => Action::Ack,
        text => Action::Reject(format!("{text} indeed")),
    });
    let consumer = rig.consume(config("g").reject_handler(keep.clone()), listener).await;
    until("both are put away", || keep.record.len() == 2).await;
    assert_eq!(record.texts(), ["good", "bad", "worse"]);
    consumer.shutdown().await.unwrap();
    assert_eq!(*keep.reasons.lock().unwrap(), ["bad indeed", "worse indeed"]);
    assert_eq!(rig.tree.offset("g", 0).await, Some(Offset::new(20 * 3 + 12)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_fails_or_panics_is_offered_the_message_again_and_nothing_overtakes_it() {
    for panics in [false, true] {
        let rig = Rig::start(1).await;
        rig.send(0, ["bad", "good"]).await;
        let keep = Keep { failures: Arc::new(AtomicUsize::new(3)), panics, ..Keep::default() };
        let (record, rejected) = (Record::default(), keep.record.clone());
        let mut events = rig.factory.events();
        let listener = record.answering(move |message| match text_of(message).as_str() {
            "bad" => Action::Reject("bad".to_owned()),
            _ => {
                assert_eq!(rejected.len(), 4, "overtaken");
                Action::Ack
            }
        });
        let consumer = rig.consume(config("g").reject_handler(keep.clone()), listener).await;
        record.wait_for("good").await;
        // The listener has given its verdict: it is not asked again.
        assert_eq!(record.texts(), ["bad", "good"]);
        assert_eq!(*keep.reasons.lock().unwrap(), ["bad"]);
        consumer.shutdown().await.unwrap();
        // One event for the message, not one for each attempt.
        let mut told = Vec::new();
        while let Ok(event) = events.try_recv() {
            if let ClientEvent::RejectFailed { from, offset, error } = event {
                told.push((from, offset, error));
            }
        }
        let error = if panics { "the handler for rejected messages panicked: the handler panics" } else { "no room" };
        assert_eq!(told, [(t(0), Offset::ZERO, error.to_owned())]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_be_put_away_before_the_end_comes_to_the_next_member() {
    let rig = Rig::start(1).await;
    rig.send(0, ["good", "bad"]).await;
    let keep = Keep { failures: Arc::new(AtomicUsize::new(usize::MAX)), ..Keep::default() };
    let record = Record::default();
    let listener = record.answering(|message| match text_of(message).as_str() {
        "bad" => Action::Reject("bad".to_owned()),
        _ => Action::Ack,
    });
    let consumer = rig.consume(config("g").reject_handler(keep.clone()), listener).await;
    until("attempts to put it away", || keep.record.len() >= 2).await;
    consumer.shutdown().await.unwrap();
    assert_eq!(rig.tree.offset("g", 0).await, Some(Offset::new(24)));
    let next = Record::default();
    let consumer = rig.consume(config("g"), next.listener()).await;
    next.wait(1).await;
    assert_eq!(next.texts(), ["bad"]);
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejected_messages_can_be_dropped() {
    let rig = Rig::start(1).await;
    rig.send(0, ["bad", "good"]).await;
    let handlers: [fn(metaq::client::ConsumerConfig) -> metaq::client::ConsumerConfig; 2] =
        [|config| config.reject_handler(LogRejected), |config| config.reject_handler(DropRejected)];
    for (group, with_handler) in ["log", "drop"].into_iter().zip(handlers) {
        let record = Record::default();
        let listener = record.answering(|message| match text_of(message).as_str() {
            "bad" => Action::Reject("bad".to_owned()),
            _ => Action::Ack,
        });
        let consumer = rig.consume(with_handler(config(group)), listener).await;
        record.wait_for("good").await;
        // It is still there for whoever goes back.
        consumer.seek(&t(0), SeekTo::Earliest).await.unwrap();
        record.wait(4).await;
        assert_eq!(record.texts(), ["bad", "good", "bad", "good"]);
        consumer.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dead_letter_topic_gets_payload_and_attribute_as_they_were() {
    let rig = Rig::of(LocalBroker::start(&[("t", 1), ("dead", 1)]).await).await;
    let bad = |payload: &'static [u8]| Message::new(topic("t"), payload);
    send(&rig.factory, 0, [bad(b"one\0\xff").with_attribute("bad"), bad(b"").with_attribute(""), bad(b"two")]).await;
    let letters = DeadLetterTopic::new(rig.factory.create_producer().unwrap(), topic("dead"));
    let record = Record::default();
    let listener = record.answering(|_| Action::Reject("bad".to_owned()));
    let _consumer = rig.consume(config("g").reject_handler(letters), listener).await;

    let dead = Record::default();
    let reader = rig.consumer(config("dead"));
    reader.subscribe(&topic("dead"), MAX_SIZE, dead.listener()).unwrap();
    reader.complete_subscribe().await.unwrap();
    dead.wait(3).await;
    let got: Vec<_> = dead
        .all()
        .iter()
        .map(|message| (message.attribute.as_deref().map(str::to_owned), message.payload.to_vec()))
        .collect();
    let expected =
        [(Some("bad".to_owned()), b"one\0\xff".to_vec()), (Some(String::new()), Vec::new()), (None, b"two".to_vec())];
    assert_eq!(got, expected);
    assert_eq!(record.len(), 3);
    // The factory ends consumers before producers, so the handler can send to the last.
    rig.factory.shutdown().await.unwrap();
    assert_eq!(rig.tree.offset("g", 0).await, Some(Offset::new(60 + 5 + 7 + 4 + 3)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_letter_topic_that_nobody_offers_stops_the_partition_and_loses_nothing() {
    let rig = Rig::start(1).await;
    rig.send(0, ["bad", "good"]).await;
    let letters = DeadLetterTopic::new(rig.factory.create_producer().unwrap(), topic("nobody"));
    let record = Record::default();
    let listener = record.answering(|message| match text_of(message).as_str() {
        "bad" => Action::Reject("bad".to_owned()),
        _ => Action::Ack,
    });
    let consumer = rig.consume(config("g").reject_handler(letters), listener).await;
    record.wait(1).await;
    consumer.shutdown().await.unwrap();
    assert_eq!(record.texts(), ["bad"]);
    let next = Record::default();
    let consumer = rig.consume(config("g"), next.listener()).await;
    next.wait(2).await;
    assert_eq!(next.texts(), ["bad", "good"]);
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_in_a_batch_begins_the_count_of_retries_anew() {
    let rig = Rig::start(1).await;
    let all = texts("m", 8);
    rig.send(0, all.clone()).await;
    let (record, keep) = (Record::default(), Keep::default());
    // Each message fails as often as it may.
    let listener = record.answering(|message| match message.redeliveries {
        0..2 => Action::Retry("not yet".to_owned()),
        _ => Action::Ack,
    });
    let config = config("g").max_fetch_retries(2).reject_handler(keep.clone());
    let consumer = rig.consume(config, listener).await;
    record.wait(24).await;
    assert_eq!(
        record.texts(),
        all.iter().flat_map(|text| [text.clone(), text.clone(), text.clone()]).collect::<Vec<_>>()
    );
    assert_eq!(keep.record.len(), 0);
    consumer.shutdown().await.unwrap();
}
