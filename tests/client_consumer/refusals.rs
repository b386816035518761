//! What a consumer refuses, with the reference's texts (05 §1, §2).

use std::time::Duration;

use metaq::client::{
    ClientConfig, ClientError, ConsumerConfig, Fault, Message, MessageSessionFactory, SubscribeOptions,
};

use crate::common::local::LocalBroker;
use crate::rig::{MAX_SIZE, Record, Rig, config, in_topic, t, texts, topic};

#[test]
fn names_of_groups_are_checked() {
    for (group, text) in [
        ("", "Blank group"),
        ("  ", "Blank group"),
        ("a b", "Group name has invalid character  "),
        ("a/b", "Group name has invalid character /"),
        ("a.b", "Group name has invalid character ."),
        ("a:b", "Group name has invalid character :"),
    ] {
        assert_eq!(ConsumerConfig::new(group).unwrap_err().to_string(), text);
    }
    assert_eq!(ConsumerConfig::new("a-b_c@d|e{f}ü").unwrap().group().as_str(), "a-b_c@d|e{f}ü");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_and_subscriptions_are_checked() {
    let rig = Rig::start(1).await;
    let refused = |config: ConsumerConfig| {
        let error = rig.factory.create_consumer(config).unwrap_err();
        assert_eq!((error.fault(), error.is_retryable()), (Fault::Caller, false), "{error}");
        error.to_string()
    };
    assert!(refused(config("g").fetch_runner_count(0)).starts_with("Invalid fetchRunnerCount:0"));
    assert!(refused(config("g").fetch_timeout(Duration::ZERO)).starts_with("Invalid fetchTimeoutInMills:0"));
    assert!(refused(config("g").storage_timeout(Duration::ZERO)).starts_with("the storage time-out"));
    for id in ["", " ", "a/b", "a\nb"] {
        assert!(refused(config("g").consumer_id(id)).starts_with("consumerId "), "{id:?}");
    }

    let consumer = rig.consumer(config("g"));
    let ignore = || Record::default().listener();
    let text = |result: Result<(), ClientError>| result.unwrap_err().to_string();
    assert_eq!(text(consumer.complete_subscribe().await), "the consumer subscribes to nothing: call subscribe first");
    for size in [0, -1] {
        assert!(text(consumer.subscribe(&topic("t"), size, ignore())).starts_with("maxSize <=0"));
    }
    assert_eq!(text(consumer.subscribe(&topic("  "), MAX_SIZE, ignore())), "Blank topic");
    consumer.subscribe(&topic("t"), MAX_SIZE, ignore()).unwrap();
    assert_eq!(text(consumer.subscribe(&topic("t"), MAX_SIZE, ignore())), "Topic=t has been subscribered");
    assert_eq!(consumer.subscribe_stream(&topic("t"), 1).unwrap_err().to_string(), "Topic=t has been subscribered");
    let second = rig.consumer(config("g"));
    let error = text(second.subscribe_with(&topic("t"), SubscribeOptions::new(1), ignore()));
    assert!(error.starts_with("Topic=t has been subscribered by group g"), "{error}");
    // Another topic, or another group, is another thing.
    second.subscribe(&topic("u"), MAX_SIZE, ignore()).unwrap();
    rig.consumer(config("h")).subscribe(&topic("t"), MAX_SIZE, ignore()).unwrap();

    for result in [
        consumer.pause(&[t(0)]).await,
        consumer.commit().await,
        consumer.position(&t(0)).await.map(|_| ()),
        consumer.lag(&t(0)).await.map(|_| ()),
    ] {
        assert_eq!(text(result), "the consumer reads nothing yet: call complete_subscribe or assign first");
    }
    assert!(consumer.assigned().is_empty());
    consumer.complete_subscribe().await.unwrap();
    assert!(text(consumer.complete_subscribe().await).starts_with("Consumer has been already registed"));
    assert!(
        text(consumer.subscribe(&topic("v"), MAX_SIZE, ignore())).starts_with("Consumer has been already registed")
    );
    consumer.shutdown().await.unwrap();
    for result in [
        consumer.subscribe(&topic("v"), MAX_SIZE, ignore()),
        consumer.complete_subscribe().await,
        consumer.assign(&[t(0)]).await,
        consumer.resume(&[t(0)]).await,
        consumer.commit().await,
        consumer.nearest_offset(&t(0), metaq::id::Offset::ZERO).await.map(|_| ()),
    ] {
        assert_eq!(text(result), "Consumer has been shutdown");
    }
    // What it subscribed to is free again.
    second.subscribe(&topic("t"), MAX_SIZE, ignore()).unwrap();
    rig.factory.shutdown().await.unwrap();
    assert!(matches!(rig.factory.create_consumer(config("g")), Err(ClientError::Shutdown(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_another_session_uses_is_refused_and_the_other_goes_on() {
    let rig = Rig::start(1).await;
    let record = Record::default();
    let first = rig.consume(config("g").consumer_id("same"), record.listener()).await;
    assert_eq!((first.consumer_id(), rig.tree.members("g").await), ("g_same", vec!["g_same".to_owned()]));
    let other = rig.broker.factory().await;
    let second = other.create_consumer(config("g").consumer_id("same")).unwrap();
    second.subscribe(&topic("t"), MAX_SIZE, Record::default().listener()).unwrap();
    let error = second.complete_subscribe().await.unwrap_err();
    assert!(error.to_string().contains("consumer id g_same is in use by another consumer"), "{error}");
    assert_eq!(second.complete_subscribe().await.unwrap_err().to_string(), "Consumer has been shutdown");
    rig.send(0, ["still here"]).await;
    record.wait(1).await;
    assert_eq!(rig.tree.members("g").await, ["g_same"]);
    first.shutdown().await.unwrap();
    // Free now.
    let record = Record::default();
    let third = crate::rig::consume(&other, config("g").consumer_id("same"), record.listener()).await;
    rig.send(0, ["new"]).await;
    record.wait_for("new").await;
    third.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_consumers_of_one_factory_cannot_have_the_same_id_in_a_group() {
    let rig = Rig::of(LocalBroker::start(&[("t", 1), ("u", 1)]).await).await;
    let first = rig.consume(config("g").consumer_id("same"), Record::default().listener()).await;
    // The subscriptions do not collide, the nodes would.
    let second = rig.consumer(config("g").consumer_id("same"));
    second.subscribe(&topic("u"), MAX_SIZE, Record::default().listener()).unwrap();
    let error = second.complete_subscribe().await.unwrap_err().to_string();
    assert!(error.contains("consumer id g_same is in use"), "{error}");
    assert_eq!(rig.tree.members("g").await, ["g_same"]);
    rig.owns(&first, 1).await;
    first.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_nobody_offers_is_joined_and_read_once_somebody_does() {
    let rig = Rig::of(LocalBroker::start(&[("t", 1), ("born-*", 1)]).await).await;
    let record = Record::default();
    let consumer = rig.consumer(config("g"));
    for name in ["born-later", "never", "t"] {
        consumer.subscribe(&topic(name), MAX_SIZE, record.listener()).unwrap();
    }
    consumer.complete_subscribe().await.unwrap();
    rig.send(0, texts("m", 2)).await;
    record.wait(2).await;
    assert_eq!(consumer.assigned(), [t(0)]);
    // The first message makes the topic.
    let direct = MessageSessionFactory::connect(ClientConfig::server(&rig.broker.address()).unwrap()).await.unwrap();
    let producer = direct.create_producer().unwrap();
    producer.send(Message::new(topic("born-later"), "first")).await.unwrap();
    record.wait_for("first").await;
    assert_eq!(consumer.assigned(), [in_topic("born-later", 0), t(0)]);
    direct.shutdown().await.unwrap();
    consumer.shutdown().await.unwrap();
}
