//! How consumers end: by wish, with their factory, without a word, and while nothing can be reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metaq::client::{ClientConfig, ClientEvent, Fault, Message, MessageSessionFactory, ReceivedMessage};
use metaq::id::Offset;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::common::DEADLINE;
use crate::common::broker::{BrokerHome, MetaqBroker};
use crate::common::local::LocalBroker;
use crate::common::zookeeper::free_port;
use crate::rig::{MAX_SIZE, Record, Rig, config, consume, send, t, texts, topic, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_stores_the_offsets_and_leaves_no_node_and_calls_of_it_share_their_end() {
    let rig = Rig::start(3).await;
    let record = Record::default();
    let consumer = rig.consume(config("g"), record.listener()).await;
    rig.owns(&consumer, 3).await;
    assert_eq!((rig.tree.members("g").await.len(), rig.tree.owners("g").await.len()), (1, 3));
    rig.send(1, texts("m", 5)).await;
    record.wait(5).await;
    let ends = (0..8).map(|_| {
        let consumer = consumer.clone();
        tokio::spawn(async move { consumer.shutdown().await })
    });
    for end in ends.collect::<Vec<_>>() {
        end.await.unwrap().unwrap();
    }
    assert!(rig.tree.members("g").await.is_empty() && rig.tree.owners("g").await.is_empty());
    assert_eq!(rig.tree.offset("g", 1).await, Some(Offset::new(110)));
    consumer.shutdown().await.unwrap();
    // Others of the factory go on.
    let again = rig.consume(config("g"), record.listener()).await;
    rig.send(1, ["new"]).await;
    record.wait_for("new").await;
    again.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_waits_for_the_message_in_hand_and_no_other_begins() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 3)).await;
    let (record, gate) = (Record::default(), Arc::new(Semaphore::new(0)));
    let listener = record.gated(&gate);
    let consumer = rig.consume(config("g").drain_timeout(DEADLINE), listener).await;
    record.wait(1).await;
    let mut end = tokio::spawn({
        let consumer = consumer.clone();
        async move { consumer.shutdown().await }
    });
    assert!(timeout(Duration::from_millis(300), &mut end).await.is_err(), "it does not wait");
    gate.add_permits(100);
    end.await.unwrap().unwrap();
    assert_eq!(record.texts(), ["m0"]);
    assert_eq!(rig.tree.offset("g", 0).await, Some(Offset::new(22)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_factory_ends_consumers_before_the_producers_their_listeners_send_with() {
    let rig = Rig::of(LocalBroker::start(&[("t", 1), ("u", 1)]).await).await;
    // The producer is older than the consumer.
    let producer = rig.factory.create_producer().unwrap();
    producer.publish(&topic("u")).await.unwrap();
    let (failed, record) = (Arc::new(AtomicBool::new(false)), Record::default());
    let listener = {
        let (failed, record, producer) = (Arc::clone(&failed), record.clone(), producer.clone());
        move |message: ReceivedMessage| {
            let (failed, record, producer) = (Arc::clone(&failed), record.clone(), producer.clone());
            async move {
                record.note(&message);
                tokio::time::sleep(Duration::from_millis(1)).await;
                let sent = producer.send(Message::new(topic("u"), message.payload)).await;
                failed.fetch_or(sent.is_err(), Ordering::SeqCst);
                sent
            }
        }
    };
    let listener = move |message: ReceivedMessage| {
        let handling = listener(message);
        async move { handling.await.map(|_| ()) }
    };
    rig.send(0, texts("m", 500)).await;
    let _consumer = rig.consume(config("g").drain_timeout(DEADLINE), listener).await;
    record.wait(20).await;
    rig.factory.shutdown().await.unwrap();
    rig.factory.shutdown().await.unwrap();
    assert!(!failed.load(Ordering::SeqCst), "a listener could not send");
    assert!(rig.tree.members("g").await.is_empty() && rig.tree.owners("g").await.is_empty());
    assert!(producer.send(Message::new(topic("u"), "late")).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_everything_does_not_block_and_the_nodes_go_with_the_session() {
    let rig = Rig::start(2).await;
    let factory = rig.broker.factory().await;
    let record = Record::default();
    let consumer = consume(&factory, config("g"), record.listener()).await;
    rig.owns(&consumer, 2).await;
    rig.send(0, texts("m", 1)).await;
    record.wait(1).await;
    // Whoever still has a handle keeps it alive.
    drop(factory);
    rig.send(0, ["again"]).await;
    record.wait(2).await;
    tokio::task::block_in_place(|| drop(consumer));
    rig.tree.wait_until_empty("g").await;
    rig.send(0, ["unread"]).await;
    let next = Record::default();
    let second = rig.consume(config("g").duplicate_suppression(None), next.listener()).await;
    next.wait_for("unread").await;
    assert_eq!(record.texts(), ["m0", "again"]);
    second.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_never_began_ends_at_once() {
    let rig = Rig::start(1).await;
    let consumer = rig.consumer(config("g"));
    consumer.subscribe(&topic("t"), MAX_SIZE, Record::default().listener()).unwrap();
    let mut unread = rig.consumer(config("h")).subscribe_stream(&topic("t"), MAX_SIZE).unwrap();
    consumer.shutdown().await.unwrap();
    rig.factory.shutdown().await.unwrap();
    assert!(timeout(DEADLINE, unread.next()).await.expect("the stream does not end").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_at_the_same_time_as_the_start_leaves_nothing_behind() {
    let rig = Rig::start(2).await;
    for round in 0..40 {
        let consumer = rig.consumer(config("g"));
        consumer.subscribe(&topic("t"), MAX_SIZE, Record::default().listener()).unwrap();
        let start = tokio::spawn({
            let consumer = consumer.clone();
            async move { consumer.complete_subscribe().await }
        });
        for _ in 0..round % 8 {
            tokio::task::yield_now().await;
        }
        if round % 3 == 0 {
            tokio::time::sleep(Duration::from_millis(round / 3)).await;
        }
        timeout(DEADLINE, consumer.shutdown()).await.expect("the end hangs").unwrap();
        let started = timeout(DEADLINE, start).await.expect("the start hangs").unwrap();
        if let Err(error) = started {
            let text = error.to_string();
            assert!(text.contains("has been shutdown") || text.contains("was shut down before"), "{text}");
        }
        assert!(consumer.assigned().is_empty());
        assert_eq!(consumer.commit().await.unwrap_err().to_string(), "Consumer has been shutdown");
        assert!(rig.tree.members("g").await.is_empty() && rig.tree.owners("g").await.is_empty(), "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_start_goes_on_and_can_be_shut_down() {
    let rig = Rig::start(1).await;
    let record = Record::default();
    let consumer = rig.consumer(config("g"));
    consumer.subscribe(&topic("t"), MAX_SIZE, record.listener()).unwrap();
    tokio::select! {
        biased;
        _ = consumer.complete_subscribe() => {}
        () = std::future::ready(()) => {}
    }
    rig.send(0, ["m"]).await;
    record.wait(1).await;
    // An abandoned end goes on as well.
    tokio::select! {
        biased;
        _ = consumer.shutdown() => {}
        () = std::future::ready(()) => {}
    }
    rig.tree.wait_until_empty("g").await;
    until("it has ended", || consumer.assigned().is_empty()).await;
    timeout(DEADLINE, consumer.shutdown()).await.expect("the end hangs").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_start_that_fails_is_told_and_shut_down() {
    let rig = Rig::start(1).await;
    let first = rig.consume(config("g").consumer_id("same"), Record::default().listener()).await;
    let other = rig.broker.factory().await;
    let mut events = other.events();
    let consumer = other.create_consumer(config("g").consumer_id("same")).unwrap();
    consumer.subscribe(&topic("t"), MAX_SIZE, Record::default().listener()).unwrap();
    tokio::select! {
        biased;
        _ = consumer.complete_subscribe() => {}
        () = std::future::ready(()) => {}
    }
    let failed = async {
        loop {
            if let ClientEvent::JoinFailed { group, error } = events.recv().await.unwrap() {
                return (group.to_string(), error);
            }
        }
    };
    let (group, error) = timeout(DEADLINE, failed).await.expect("nobody tells");
    assert!(group == "g" && error.contains("consumer id g_same is in use by another consumer"), "{group}: {error}");
    assert_eq!(consumer.commit().await.unwrap_err().to_string(), "Consumer has been shutdown");
    first.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_broker_and_zookeeper_a_shutdown_ends_within_bounds_and_says_what_may_come_again() {
    let zookeeper = format!("127.0.0.1:{}", free_port());
    let home = BrokerHome::new(0, &zookeeper, "/meta", "", &[("t", "numPartitions=2")]);
    let start = || tokio::task::block_in_place(|| MetaqBroker::start_local(&home));
    let connect = async || {
        let config = ClientConfig::zookeeper(&zookeeper).unwrap().zk_session_timeout(Duration::from_secs(2));
        MessageSessionFactory::connect(config).await.unwrap()
    };
    let broker = start();
    let (factory, record) = (connect().await, Record::default());
    let settings = config("g").drain_timeout(Duration::from_millis(500));
    let consumer = consume(&factory, settings, record.listener()).await;
    send(&factory, 0, texts("m", 3).into_iter().map(|text| Message::new(topic("t"), text))).await;
    record.wait(3).await;
    broker.kill();
    let error = timeout(DEADLINE, consumer.shutdown()).await.expect("waits for what is away").unwrap_err();
    assert!(error.to_string().contains("1 offsets could not be stored"), "{error}");
    assert_eq!(error.fault(), Fault::Coordinator);
    timeout(DEADLINE, factory.shutdown()).await.expect("waits for what is away").unwrap();
    // Nothing is lost by it.
    let _broker = start();
    let (factory, next) = (connect().await, Record::default());
    let second = consume(&factory, config("g").duplicate_suppression(None), next.listener()).await;
    next.wait(3).await;
    assert_eq!(next.texts(), texts("m", 3));
    second.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_goes_on_after_its_broker_and_zookeeper_were_away() {
    let rig = Rig::start(2).await;
    let record = Record::default();
    let settings = config("g").commit_offset_period(Duration::from_millis(50)).duplicate_suppression(None);
    let consumer = rig.consume(settings, record.listener()).await;
    rig.send(0, texts("before", 3)).await;
    record.wait(3).await;
    consumer.commit().await.unwrap();
    let broker = rig.broker.stop().await.start().await;
    let sender = broker.factory().await;
    send(&sender, 0, [Message::new(topic("t"), "after")]).await;
    record.wait_for("after").await;
    assert_eq!(record.texts(), ["before0", "before1", "before2", "after"]);
    until("everything is owned again", || consumer.assigned().len() == 2).await;
    let _position = consumer.position(&t(0)).await.unwrap();
    consumer.shutdown().await.unwrap();
}
