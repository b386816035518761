//! Reading by hand (05 §14).

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use metaq::client::{ClientConfig, ClientError, ConsumerError, Fault, Fetch, MessageSessionFactory};
use metaq::id::Offset;

use crate::rig::{MAX_SIZE, Rig, config, in_topic, t, text_of, texts, topic};

fn messages(fetch: Fetch) -> Vec<String> {
    match fetch {
        Fetch::Messages(messages) => messages.iter().map(text_of).collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_get_brings_messages_nothing_or_where_to_go_and_needs_no_subscription() {
    let rig = Rig::start(2).await;
    let sent = rig.send(0, texts("m", 4)).await;
    let consumer = rig.consumer(config("g"));
    let get =
        async |partition, offset| consumer.get(&topic("t"), t(partition).partition, offset, MAX_SIZE).await.unwrap();
    assert_eq!(messages(get(0, Offset::ZERO).await), texts("m", 4));
    let Fetch::Messages(rest) = get(0, sent[2].offset).await else { panic!("nothing") };
    assert_eq!(
        rest.iter().map(|m| (m.offset, m.id)).collect::<Vec<_>>(),
        [(sent[2].offset, sent[2].id), (sent[3].offset, sent[3].id)]
    );
    assert_eq!((rest[1].next_offset, rest[0].redeliveries), (Offset::new(88), 0));
    assert_eq!(get(0, Offset::new(88)).await, Fetch::Nothing);
    // Beyond the end there is nothing yet (01 §8.3).
    assert_eq!(get(0, Offset::new(1_000)).await, Fetch::Nothing);
    assert_eq!(get(0, Offset::LATEST).await, Fetch::Moved(Offset::new(88)));
    assert!(rig.tree.groups().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_larger_than_the_size_is_no_message_and_the_size_is_checked() {
    let rig = Rig::start(1).await;
    rig.send(0, ["x".repeat(5000)]).await;
    let consumer = rig.consumer(config("g"));
    let get = async |size| consumer.get(&topic("t"), t(0).partition, Offset::ZERO, size).await;
    assert_eq!(get(100).await.unwrap(), Fetch::Messages(Vec::new()));
    assert_eq!(messages(get(6000).await.unwrap()).len(), 1);
    for size in [0, -1] {
        let error = get(size).await.unwrap_err();
        assert!(error.to_string().starts_with("maxSize <=0"), "{error}");
        assert_eq!(error.fault(), Fault::Caller);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_or_topic_that_is_not_there_is_an_error_or_nothing() {
    let rig = Rig::start(1).await;
    let consumer = rig.consumer(config("g"));
    let unknown = "9-0".parse().unwrap();
    let error = consumer.get(&topic("t"), unknown, Offset::ZERO, MAX_SIZE).await.unwrap_err();
    assert!(matches!(error, ClientError::Cluster(_)) && error.fault() == Fault::Broker, "{error}");
    // The broker has nothing of it.
    assert_eq!(
        consumer.get(&topic("u"), in_topic("u", 0).partition, Offset::ZERO, MAX_SIZE).await.unwrap(),
        Fetch::Nothing
    );
    consumer.shutdown().await.unwrap();
    let error = consumer.get(&topic("t"), t(0).partition, Offset::ZERO, MAX_SIZE).await.unwrap_err();
    assert_eq!(error.to_string(), "Consumer has been shutdown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_data_is_told_and_between_two_messages_begins_none() {
    let rig = Rig::start(1).await;
    let sent = rig.send(0, texts("m", 3)).await;
    let consumer = rig.consumer(config("g"));
    // A get from the middle of a message.
    let inside = sent[1].offset.checked_add(3).unwrap();
    let error = consumer.get(&topic("t"), t(0).partition, inside, MAX_SIZE).await.unwrap_err();
    assert!(matches!(error, ClientError::Consumer(ConsumerError::Damaged { .. })), "{error}");
    assert!(error.to_string().contains("ask the broker for the nearest offset"), "{error}");

    // What is on disk is read by now, so it lies in the segment: one byte of the second payload changes.
    let segment = rig.broker.data_path().join("t-0");
    let segment = std::fs::read_dir(segment).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment.into_iter().find(|path| path.extension().is_some_and(|e| e == "meta")).unwrap();
    let file = std::fs::File::options().write(true).open(segment).unwrap();
    file.write_all_at(b"!", u64::try_from(sent[1].offset.get()).unwrap() + 20).unwrap();
    let error = consumer.get(&topic("t"), t(0).partition, Offset::ZERO, MAX_SIZE).await.unwrap_err();
    assert!(matches!(error, ClientError::Consumer(ConsumerError::Damaged { .. })), "{error}");
    assert_eq!(messages(consumer.get(&topic("t"), t(0).partition, sent[2].offset, MAX_SIZE).await.unwrap()), ["m2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_without_patience_does_not_cost_others_their_connection() {
    // Takes connections and answers nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&accepted);
    let server = tokio::spawn(async move {
        let mut held = Vec::new();
        loop {
            held.push(silent.accept().await.unwrap());
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let factory = MessageSessionFactory::connect(ClientConfig::server(&address).unwrap()).await.unwrap();
    let consumer = factory.create_consumer(config("g")).unwrap();
    for _ in 0..3 {
        let (of, patience) = (t(0), Duration::from_millis(20));
        let get = consumer.get_with_timeout(&of.topic, of.partition, Offset::ZERO, MAX_SIZE, patience);
        let error = get.await.unwrap_err();
        assert!(matches!(error, ClientError::Unknown(_)) && error.fault() == Fault::Network, "{error}");
    }
    assert_eq!(accepted.load(Ordering::SeqCst), 1);
    factory.shutdown().await.unwrap();
    server.abort();
}
