//! Listeners that take several messages at a time.

use std::sync::{Arc, Mutex};

use metaq::client::{
    Action, BatchListener, BoxFuture, Consumer, ConsumerConfig, MessageBatch, ReceivedMessage, SubscribeOptions,
};
use metaq::id::{GroupName, Offset};

use crate::common::eventually;
use crate::rig::{MAX_SIZE, Rig, config, t, text_of, texts, topic, until};

/// Texts and redeliveries of each batch that came.
type Batches = Arc<Mutex<Vec<Vec<(String, u32)>>>>;

/// Notes each batch and answers as it is told; the function gets the number of the call and the batch.
struct Scripted<F> {
    batches: Batches,
    answer: F,
}

impl<F: Fn(usize, &MessageBatch<'_>) -> Action + Send + Sync + 'static> BatchListener for Scripted<F> {
    fn on_batch<'a>(&'a self, batch: &'a MessageBatch<'a>) -> BoxFuture<'a, Action> {
        let messages = batch.messages().iter().map(|message| (text_of(message), message.redeliveries)).collect();
        let call = {
            let mut batches = self.batches.lock().unwrap();
            batches.push(messages);
            batches.len() - 1
        };
        let action = (self.answer)(call, batch);
        Box::pin(async move { action })
    }
}

async fn consume(
    rig: &Rig,
    config: ConsumerConfig,
    options: SubscribeOptions,
    answer: impl Fn(usize, &MessageBatch<'_>) -> Action + Send + Sync + 'static,
) -> (Consumer, Batches) {
    let batches = Batches::default();
    let consumer = rig.consumer(config);
    let listener = Scripted { batches: Arc::clone(&batches), answer };
    consumer.subscribe_batches(&topic("t"), options, listener).unwrap();
    consumer.complete_subscribe().await.unwrap();
    (consumer, batches)
}

fn plain() -> SubscribeOptions {
    SubscribeOptions::new(MAX_SIZE)
}

fn first_time(texts: &[String]) -> Vec<(String, u32)> {
    texts.iter().map(|text| (text.clone(), 0)).collect()
}

async fn reaches(consumer: &Consumer, offset: i64) {
    eventually("the position", async || match consumer.position(&t(0)).await.unwrap() {
        Some(position) if position == Offset::new(offset) => Ok(()),
        other => Err(format!("{other:?}, not {offset}")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_the_broker_is_one_batch_and_its_ack_is_for_all_of_it() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 10)).await;
    let (consumer, batches) = consume(&rig, config("g"), plain(), |_, _| Action::Ack).await;
    reaches(&consumer, 220).await;
    assert_eq!(*batches.lock().unwrap(), [first_time(&texts("m", 10))]);
    consumer.shutdown().await.unwrap();
    assert_eq!(rig.tree.offset("g", 0).await, Some(Offset::new(220)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_told_as_handled_does_not_come_again_whatever_the_answer() {
    let rig = Rig::start(1).await;
    let all = texts("m", 6);
    rig.send(0, all.clone()).await;
    let (consumer, batches) = consume(&rig, config("g"), plain(), |call, batch| match call {
        0 => {
            batch.handled(2);
            // A smaller number takes nothing back.
            batch.handled(1);
            Action::Retry("not the third".to_owned())
        }
        1 => {
            batch.handled(1);
            Action::Reject("not the fourth".to_owned())
        }
        _ => Action::Ack,
    })
    .await;
    reaches(&consumer, 132).await;
    let mut second = first_time(&all[2..]);
    second[0].1 = 1;
    assert_eq!(*batches.lock().unwrap(), [first_time(&all), second, first_time(&all[4..])]);
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_there_are_counts_as_all() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 3)).await;
    let (consumer, batches) = consume(&rig, config("g"), plain(), |_, batch| {
        batch.handled(usize::MAX);
        Action::Retry("but all of it is handled".to_owned())
    })
    .await;
    reaches(&consumer, 66).await;
    assert_eq!(batches.lock().unwrap().len(), 1);
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_hold_only_what_the_filter_accepts_and_progress_passes_the_rest() {
    let rig = Rig::start(1).await;
    rig.send(0, ["no", "yes 1", "no", "yes 2", "no", "yes 3", "no"]).await;
    let options = plain().filter(|_: &GroupName, message: &ReceivedMessage| text_of(message).starts_with("yes"));
    let (consumer, batches) = consume(&rig, config("g"), options, |call, batch| match call {
        0 => {
            batch.handled(1);
            Action::Retry("not the second".to_owned())
        }
        _ => Action::Ack,
    })
    .await;
    reaches(&consumer, 4 * 22 + 3 * 25).await;
    let texts: Vec<Vec<String>> =
        batches.lock().unwrap().iter().map(|batch| batch.iter().map(|(text, _)| text.clone()).collect()).collect();
    assert_eq!(texts, [vec!["yes 1", "yes 2", "yes 3"], vec!["yes 2", "yes 3"]]);
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_without_an_accepted_message_is_passed_without_a_call() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("no", 5)).await;
    let options = plain().filter(|_: &GroupName, message: &ReceivedMessage| text_of(message).starts_with("yes"));
    let (consumer, batches) = consume(&rig, config("g"), options, |_, _| Action::Ack).await;
    reaches(&consumer, 5 * 23).await;
    assert!(batches.lock().unwrap().is_empty());
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_fails_too_often_loses_its_first_message_only() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 3)).await;
    let (consumer, batches) = consume(&rig, config("g").max_fetch_retries(1), plain(), |_, batch| {
        if text_of(&batch.messages()[0]) == "m0" { Action::Retry("bad".to_owned()) } else { Action::Ack }
    })
    .await;
    reaches(&consumer, 66).await;
    let sizes: Vec<_> = batches.lock().unwrap().iter().map(Vec::len).collect();
    assert_eq!(sizes, [3, 3, 2]);
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_a_batch_listener_is_an_error_and_what_it_had_handled_stays_so() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 3)).await;
    let mut events = rig.factory.events();
    // The panic is in the call, before there is a future.
    let (consumer, batches) = consume(&rig, config("g"), plain(), |call, batch| {
        if call == 0 {
            batch.handled(1);
            panic!("no bread");
        }
        Action::Ack
    })
    .await;
    until("the rest comes", || batches.lock().is_ok_and(|batches| batches.len() == 2)).await;
    reaches(&consumer, 66).await;
    assert_eq!(batches.lock().unwrap()[1], [("m1".to_owned(), 1), ("m2".to_owned(), 0)]);
    let reason = loop {
        if let metaq::client::ClientEvent::ListenerFailed { reason, .. } = events.recv().await.unwrap() {
            break reason;
        }
    };
    assert_eq!(reason, "the listener panicked: no bread");
    consumer.shutdown().await.unwrap();
}
