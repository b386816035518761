//! Listeners: every message, in order, one at a time for each partition.

use std::sync::Arc;
use std::time::Duration;

use metaq::client::{Action, Message, ReceivedMessage};
use tokio::sync::Semaphore;

use crate::common::local::LocalBroker;
use crate::rig::{Crowd, MAX_SIZE, Record, Rig, config, send, texts, topic, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_gets_every_message_in_the_order_of_its_partition() {
    let rig = Rig::start(3).await;
    rig.send(0, texts("a", 200)).await;
    let record = Record::default();
    let consumer = rig.consume(config("g"), record.listener()).await;
    // Some are there before, others come while it reads.
    rig.send(1, texts("b", 200)).await;
    rig.send(2, texts("c", 200)).await;
    record.wait(600).await;
    for (partition, prefix) in [(0, "a"), (1, "b"), (2, "c")] {
        assert_eq!(record.texts_of(partition), texts(prefix, 200));
    }
    let first = record.all().into_iter().find(|message| message.payload == "a0").unwrap();
    assert_eq!((first.from.to_string().as_str(), first.offset.get(), first.redeliveries), ("t 0-0", 0, 0));
    assert_eq!(first.next_offset.get(), 22);
    consumer.shutdown().await.unwrap();
    assert_eq!(record.len(), 600);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_are_handled_at_the_same_time_but_no_more_than_there_are_runners() {
    let rig = Rig::start(5).await;
    for partition in 0..5 {
        rig.send(partition, texts("m", 2)).await;
    }
    let (crowd, gate, record) = (Crowd::default(), Arc::new(Semaphore::new(0)), Record::default());
    let inside = Arc::new((0..5).map(|_| Crowd::default()).collect::<Vec<_>>());
    let listener = {
        let (crowd, gate, record, inside) = (crowd.clone(), Arc::clone(&gate), record.clone(), Arc::clone(&inside));
        move |message: ReceivedMessage| {
            let (crowd, gate, record, inside) = (crowd.clone(), Arc::clone(&gate), record.clone(), Arc::clone(&inside));
            async move {
                let of = usize::try_from(message.from.partition.index.get()).unwrap();
                crowd.enter();
                inside[of].enter();
                gate.acquire().await.unwrap().forget();
                record.note(&message);
                inside[of].leave();
                crowd.leave();
            }
        }
    };
    let consumer = rig.consume(config("g").fetch_runner_count(3), listener).await;
    until("three partitions at work", || crowd.now() == 3).await;
    gate.add_permits(10);
    record.wait(10).await;
    assert_eq!(crowd.most(), 3);
    assert_eq!(inside.iter().map(Crowd::most).collect::<Vec<_>>(), [1; 5]);
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payloads_and_attributes_arrive_as_they_were_also_the_empty_ones() {
    let rig = Rig::start(1).await;
    let message = |payload: &'static [u8]| Message::new(topic("t"), payload);
    let bytes: Vec<u8> = (0..=255).collect();
    send(
        &rig.factory,
        0,
        [
            message(b""),
            message(b"").with_attribute(""),
            message(b"").with_attribute("only"),
            message(b"\0\xff").with_attribute("ünï"),
            Message::new(topic("t"), bytes.clone()),
            message(b"last"),
        ],
    )
    .await;
    let record = Record::default();
    let consumer = rig.consume(config("g"), record.listener()).await;
    let all = record.wait(6).await;
    let got: Vec<_> = all.iter().map(|message| (message.attribute.as_deref(), &message.payload[..])).collect();
    let expected: [(Option<&str>, &[u8]); 6] =
        [(None, b""), (Some(""), b""), (Some("only"), b""), (Some("ünï"), b"\0\xff"), (None, &bytes), (None, b"last")];
    assert_eq!(got, expected);
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_larger_than_what_is_asked_for_arrive_between_small_ones() {
    let rig = Rig::start(1).await;
    let large = "x".repeat(100_000);
    rig.send(0, ["small", large.as_str(), "small again", large.as_str(), "end"]).await;
    let record = Record::default();
    let consumer = rig.consumer(config("g"));
    consumer.subscribe(&topic("t"), 1000, record.listener()).unwrap();
    consumer.complete_subscribe().await.unwrap();
    record.wait(5).await;
    assert!(record.texts() == ["small", &large, "small again", &large, "end"]);
    assert!(record.all().iter().all(|message| message.redeliveries == 0));
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_consumer_reads_many_topics_each_with_its_listener() {
    let rig = Rig::of(LocalBroker::start(&[("t", 1), ("u", 2), ("v", 1)]).await).await;
    let consumer = rig.consumer(config("g"));
    let records = ["t", "u"].map(|name| {
        let record = Record::default();
        consumer.subscribe(&topic(name), MAX_SIZE, record.listener()).unwrap();
        record
    });
    consumer.complete_subscribe().await.unwrap();
    for name in ["t", "u", "v"] {
        send(&rig.factory, 0, [Message::new(topic(name), name)]).await;
    }
    for (record, name) in records.iter().zip(["t", "u"]) {
        record.wait(1).await;
        assert_eq!(record.texts(), [name]);
    }
    rig.owns(&consumer, 3).await;
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_partitions_are_read_by_few_runners() {
    let rig = Rig::start(100).await;
    for partition in 0..100 {
        rig.send(partition, texts("m", 3)).await;
    }
    let record = Record::default();
    let consumer = rig.consume(config("g").fetch_runner_count(1), record.listener()).await;
    record.wait(300).await;
    for partition in 0..100 {
        assert_eq!(record.texts_of(partition), texts("m", 3), "partition {partition}");
    }
    // New ones come on time although all hundred gets wait at the broker.
    rig.send(63, ["late"]).await;
    record.wait_for("late").await;
    consumer.shutdown().await.unwrap();
    for partition in [0, 63, 99] {
        assert!(rig.tree.offset("g", partition).await.is_some(), "partition {partition}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_listener_of_one_partition_does_not_hold_up_the_others() {
    let rig = Rig::start(2).await;
    let record = Record::default();
    let gate = Arc::new(Semaphore::new(0));
    let listener = {
        let (record, gate) = (record.clone(), Arc::clone(&gate));
        move |message: ReceivedMessage| {
            let (record, gate) = (record.clone(), Arc::clone(&gate));
            async move {
                if message.from.partition.index.get() == 0 {
                    gate.acquire().await.unwrap().forget();
                }
                record.note(&message);
                Action::Ack
            }
        }
    };
    let consumer = rig.consume(config("g").drain_timeout(Duration::from_secs(20)), listener).await;
    rig.send(0, ["slow"]).await;
    rig.send(1, texts("quick", 50)).await;
    record.wait(50).await;
    assert_eq!(record.texts(), texts("quick", 50));
    gate.add_permits(1);
    record.wait_for("slow").await;
    consumer.shutdown().await.unwrap();
}
