//! Brokers that come, go and move while messages are sent.

use std::net::SocketAddr;
use std::time::Duration;

use metaq::broker::{Broker, BrokerOptions};
use metaq::client::{
    ClientConfig, ClientError, ClientEvent, Fault, FixedSelector, Message, MessageSessionFactory, Outcome,
    ProducerConfig, Retries,
};
use metaq::id::BrokerUrl;
use metaq::message::Records;
use tokio_util::sync::CancellationToken;

use crate::common::in_process::{Setup, config};
use crate::common::raw::Raw;
use crate::common::scripted::{Asked, METAQ, ScriptedBroker};
use crate::common::{eventually, wait_until};
use crate::rig::{Tree, event, message, soon, topic};

fn changed(event: &ClientEvent, list: &str) -> bool {
    let ClientEvent::PartitionsChanged { topic, partitions } = event else { return false };
    let texts: Vec<_> = partitions.iter().map(ToString::to_string).collect();
    topic.as_str() == "test" && texts.join(" ") == list
}

/// Sends to whichever broker is next, answers there, and tells the partition that was asked.
macro_rules! exchange {
    ($producer:expr, $text:expr, $($broker:expr),+) => {{
        let sending = $producer.start_send(message($text)).await.unwrap();
        let asked: Asked = tokio::select! { $(asked = $broker.next() => asked),+ };
        asked.stored(1, 0);
        (soon("a result", sending).await.unwrap().place().unwrap().to_string(), asked)
    }};
}

async fn closed(asked: &Asked) {
    eventually("the connection is closed", || async {
        if asked.is_closed() { Ok(()) } else { Err("it is open".to_owned()) }
    })
    .await;
}

/// An address where nobody listens.
fn nobody() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn partitions_take_turns_by_the_numbers_of_brokers_and_partitions() {
    let tree = Tree::start().await;
    let (mut two, mut ten) = (ScriptedBroker::start(METAQ).await, ScriptedBroker::start(METAQ).await);
    tree.register(10, ten.address(), 1).await;
    tree.register(2, two.address(), 2).await;
    // Slaves are never sent to.
    tree.set("topics-pub/test/2-s0", r#"{"numParts":9,"broker":"2-s0"}"#).await;
    tree.set("ids/2/slave0", &format!("meta://{}", nobody())).await;
    let factory = tree.factory().await;
    let producer = factory.create_producer().unwrap();
    producer.publish(&topic("test")).await.unwrap();
    let mut places = Vec::new();
    for _ in 0..4 {
        places.push(exchange!(producer, "x", two, ten).0);
    }
    assert_eq!(places, ["2-1", "10-0", "2-0", "2-1"], "the second comes first");
    let listed = factory.partitions_for_topic(&topic("test")).await.unwrap();
    assert_eq!(listed.iter().map(ToString::to_string).collect::<Vec<_>>(), ["2-0", "2-1", "10-0"]);
    assert_eq!(factory.partitions_for_topic(&topic("absent")).await.unwrap(), []);
    factory.shutdown().await.unwrap();
    assert!(factory.partitions_for_topic(&topic("test")).await.is_err());
}

#[tokio::test]
async fn a_topic_can_be_published_before_any_broker_offers_it() {
    let tree = Tree::start().await;
    let factory = tree.factory().await;
    let mut events = factory.events();
    let producer = factory.create_producer().unwrap();
    let unpublished = producer.send(message("x")).await.unwrap_err();
    assert!(tree.observer().exists("/meta/brokers/topics-pub/test").await.unwrap().is_none());
    producer.publish(&topic("test")).await.unwrap();
    assert!(tree.observer().exists("/meta/brokers/topics-pub/test").await.unwrap().is_some());
    let without_brokers = producer.send(message("x")).await.unwrap_err();
    for error in [unpublished, without_brokers] {
        let start = "There is no aviable partition for topic test,maybe you don't publish it at first?";
        assert!(error.to_string().starts_with(start), "{error}");
        assert_eq!((error.fault(), error.outcome()), (Fault::Broker, Outcome::NotDone));
    }
    let mut broker = ScriptedBroker::start(METAQ).await;
    tree.register(0, broker.address(), 1).await;
    event(&mut events, |event| changed(event, "0-0")).await;
    exchange!(producer, "x", broker);
}

#[tokio::test]
async fn a_change_leaves_the_other_brokers_connections_and_what_is_under_way_alone() {
    let tree = Tree::start().await;
    let (mut stays, mut goes) = (ScriptedBroker::start(METAQ).await, ScriptedBroker::start(METAQ).await);
    tree.register(0, stays.address(), 1).await;
    tree.register(1, goes.address(), 1).await;
    let factory = tree.factory().await;
    let mut events = factory.events();
    let producer = factory.create_producer().unwrap();
    producer.publish(&topic("test")).await.unwrap();
    let to_going = producer.start_send(message("to the one that goes")).await.unwrap();
    let to_staying = producer.start_send(message("to the one that stays")).await.unwrap();
    let (at_going, at_staying) = (goes.next().await, stays.next().await);

    tree.unregister(1).await;
    event(&mut events, |event| changed(event, "0-0")).await;
    let mut comes = ScriptedBroker::start(METAQ).await;
    tree.register(2, comes.address(), 1).await;
    event(&mut events, |event| changed(event, "0-0 2-0")).await;

    // Both answers still count; then the connection that leads nowhere is closed.
    at_going.stored(1, 0);
    at_staying.stored(2, 0);
    assert_eq!(soon("a result", to_going).await.unwrap().place().unwrap().to_string(), "1-0");
    assert_eq!(soon("a result", to_staying).await.unwrap().place().unwrap().to_string(), "0-0");
    let mut connections = Vec::new();
    for _ in 0..4 {
        let (place, asked) = exchange!(producer, "x", stays, comes);
        connections.push((place, asked.connection));
    }
    connections.sort();
    let at = |place: &str| (place.to_owned(), 1);
    assert_eq!(connections, [at("0-0"), at("0-0"), at("2-0"), at("2-0")], "one connection each");
    closed(&at_going).await;
    assert!(!at_staying.is_closed());
    factory.shutdown().await.unwrap();
    closed(&at_staying).await;
}

#[tokio::test]
async fn a_master_that_moves_is_followed() {
    let tree = Tree::start().await;
    let (mut old, mut new) = (ScriptedBroker::start(METAQ).await, ScriptedBroker::start(METAQ).await);
    tree.register(0, old.address(), 1).await;
    let factory = tree.factory().await;
    let mut events = factory.events();
    let producer = factory.create_producer().unwrap();
    producer.publish(&topic("test")).await.unwrap();
    let (_, at_old) = exchange!(producer, "x", old);
    tree.unregister(0).await;
    event(&mut events, |event| changed(event, "")).await;
    tree.register(0, new.address(), 1).await;
    event(&mut events, |event| changed(event, "0-0")).await;
    exchange!(producer, "y", new);
    closed(&at_old).await;
}

#[tokio::test]
async fn a_master_that_moves_unseen_is_found_when_its_connection_breaks() {
    let tree = Tree::start().await;
    let mut old = ScriptedBroker::start(METAQ).await;
    tree.register(0, old.address(), 1).await;
    let factory = tree.factory().await;
    let producer = factory.create_producer_with(ProducerConfig::default().wait_for_broker(true)).unwrap();
    producer.publish(&topic("test")).await.unwrap();
    let (_, asked) = exchange!(producer, "x", old);
    let mut new = ScriptedBroker::start(METAQ).await;
    tree.remove("ids/0/master").await;
    tree.set("ids/0/master", &format!("meta://{}", new.address())).await;
    drop(old);
    asked.close();
    let sending = producer.start_send_with_timeout(message("y"), Duration::from_secs(20)).await.unwrap();
    match soon("a request", async {
        tokio::select! { asked = new.next() => Some(asked), _ = sending => None }
    })
    .await
    {
        Some(asked) => asked.stored(1, 0),
        // It was on its way when the connection broke; the next one finds the way.
        None => _ = exchange!(producer, "z", new),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_end_of_a_session_topics_are_watched_again_and_connections_stay() {
    let mut tree = Tree::start().await;
    let mut broker = ScriptedBroker::start(METAQ).await;
    tree.register(0, broker.address(), 1).await;
    let factory = tree.factory().await;
    let mut events = factory.events();
    let producer = factory.create_producer().unwrap();
    producer.publish(&topic("test")).await.unwrap();
    tree.close().await;
    event(&mut events, |event| *event == ClientEvent::SessionDisconnected).await;
    // Messages do not need ZooKeeper.
    exchange!(producer, "while it is away", broker);
    event(&mut events, |event| *event == ClientEvent::SessionExpired).await;
    tree.open().await;
    event(&mut events, |event| *event == ClientEvent::SessionConnected).await;
    tree.remove("topics-pub/test/0-m").await;
    tree.offer(0, 2).await;
    event(&mut events, |event| changed(event, "0-0 0-1")).await;
    let mut places = Vec::new();
    for _ in 0..2 {
        let (place, asked) = exchange!(producer, "x", broker);
        assert_eq!(asked.connection, 1);
        places.push(place);
    }
    places.sort();
    assert_eq!(places, ["0-0", "0-1"]);
}

#[tokio::test]
async fn the_default_topic_lends_its_partitions_to_the_whole_factory() {
    let tree = Tree::start().await;
    let mut broker = ScriptedBroker::start(METAQ).await;
    tree.register(0, broker.address(), 1).await;
    let factory = tree.factory().await;
    let (one, other) = (factory.create_producer().unwrap(), factory.create_producer().unwrap());
    // That it is published already makes no difference.
    one.publish(&topic("test")).await.unwrap();
    one.set_default_topic(&topic("test")).await.unwrap();
    other.set_default_topic(&topic("test")).await.unwrap();
    let error = other.set_default_topic(&topic("second")).await.unwrap_err();
    assert_eq!(error.to_string(), "Default topic has been setup already:test");
    one.shutdown().await.unwrap();
    let sending = other.start_send(Message::new(topic("unpublished"), "x")).await.unwrap();
    let asked = broker.next().await;
    assert_eq!((&*asked.put().topic, asked.put().partition.get()), ("unpublished", 0));
    asked.stored(1, 0);
    soon("a result", sending).await.unwrap();
}

#[tokio::test]
async fn what_one_broker_cannot_take_another_one_gets_if_that_is_wanted() {
    let tree = Tree::start().await;
    let mut alive = ScriptedBroker::start(METAQ).await;
    tree.register(0, nobody(), 2).await;
    tree.register(1, alive.address(), 1).await;
    let factory = tree.factory().await;
    let retrying = factory.create_producer_with(ProducerConfig::default().retries(Retries::of_unsent(1))).unwrap();
    retrying.publish(&topic("test")).await.unwrap();
    for _ in 0..6 {
        assert_eq!(exchange!(retrying, "x", alive).0, "1-0");
    }
    let plain = factory.create_producer().unwrap();
    let error = plain.send(message("to 0-1")).await.unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }), "{error}");
}

#[tokio::test]
async fn a_publish_that_fails_can_be_tried_again() {
    let tree = Tree::start().await;
    let address = nobody();
    tree.register(0, address, 1).await;
    let factory = tree.factory().await;
    let producer = factory.create_producer().unwrap();
    let error = producer.publish(&topic("test")).await.unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }), "{error}");
    let mut broker = ScriptedBroker::on(address, METAQ).await;
    producer.publish(&topic("test")).await.unwrap();
    exchange!(producer, "x", broker);
}

#[tokio::test]
async fn messages_can_wait_for_a_broker_that_offers_their_topic() {
    let tree = Tree::start().await;
    let factory = tree.factory().await;
    let producer = factory.create_producer_with(ProducerConfig::default().wait_for_broker(true)).unwrap();
    producer.publish(&topic("test")).await.unwrap();
    let error = producer.send_with_timeout(message("x"), Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(error, ClientError::NoPartition { .. }), "{error}");
    let waiting = producer.start_send_with_timeout(message("y"), Duration::MAX);
    tokio::pin!(waiting);
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut waiting).await.is_err());
    let mut broker = ScriptedBroker::start(METAQ).await;
    tree.register(0, broker.address(), 1).await;
    let sending = soon("a partition", waiting).await.unwrap();
    let asked = broker.next().await;
    assert_eq!(asked.text(), "y");
    asked.stored(1, 0);
    soon("a result", sending).await.unwrap();
}

#[tokio::test]
async fn a_broker_without_an_address_is_told_as_the_reference_does() {
    let tree = Tree::start().await;
    let factory = tree.factory().await;
    let config = ProducerConfig::default().selector(FixedSelector("7-3".parse().unwrap()));
    let producer = factory.create_producer_with(config).unwrap();
    producer.publish(&topic("test")).await.unwrap();
    let error = producer.send(message("x")).await.unwrap_err().to_string();
    let start =
        "There is no aviable server right now for topic test and partition 7-3,maybe you don't publish it at first?";
    assert!(error.starts_with(start), "{error}");
}

#[tokio::test]
async fn published_addresses_can_be_mapped() {
    let tree = Tree::start().await;
    let mut broker = ScriptedBroker::start(METAQ).await;
    tree.set("ids/0/master", "meta://inside.example:8123").await;
    tree.offer(0, 1).await;
    let port = broker.address().port();
    let config = tree.config().address_mapping(move |published| {
        assert_eq!(published.host(), "inside.example");
        BrokerUrl::new("127.0.0.1", port)
    });
    let factory = MessageSessionFactory::connect(config).await.unwrap();
    let producer = factory.create_producer().unwrap();
    producer.publish(&topic("test")).await.unwrap();
    exchange!(producer, "x", broker);
}

#[tokio::test]
async fn damaged_nodes_are_skipped() {
    let tree = Tree::start().await;
    let mut broker = ScriptedBroker::start(METAQ).await;
    tree.register(0, broker.address(), 1).await;
    for (path, data) in [
        ("topics-pub/test/1-m", "nonsense"),
        ("topics-pub/test/no-number", "{}"),
        ("ids/0/slave", "meta://h:1"),
        ("ids/0/slave1", " "),
        ("ids/0/slave2", "nonsense"),
        ("ids/0/master_config_checksum", "0"),
    ] {
        tree.set(path, data).await;
    }
    let factory = tree.factory().await;
    let producer = factory.create_producer().unwrap();
    producer.publish(&topic("test")).await.unwrap();
    assert_eq!(exchange!(producer, "x", broker).0, "0-0");
}

#[tokio::test]
async fn a_zookeeper_that_cannot_be_reached_refuses_the_factory_within_its_time() {
    let config = ClientConfig::zookeeper(&nobody().to_string()).unwrap();
    let config = config.zk_connection_timeout(Duration::from_millis(200));
    let error = MessageSessionFactory::connect(config).await.unwrap_err();
    assert!(error.to_string().starts_with("unable to connect to zookeeper server within timeout: 200 ms"), "{error}");
    assert_eq!(error.fault(), Fault::Coordinator);
}

/// The real broker: it stops as brokers do and comes back on another port, while messages are sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_answered_is_lost_when_a_broker_restarts_elsewhere() {
    let tree = Tree::start().await;
    let dir = tempfile::tempdir().unwrap();
    let start = || async {
        let mut config = config(&dir, &Setup::default());
        config.zookeeper.enable = true;
        config.zookeeper.connect = tree.connect_string();
        config.zookeeper.sync_time_ms = 100;
        let broker = Broker::start(config, BrokerOptions::default()).await.unwrap();
        broker.registered().await.unwrap();
        broker
    };
    let mut broker = start().await;
    let factory = tree.factory().await;
    let config = ProducerConfig::default().wait_for_broker(true).retries(Retries::of_unsent(1000).and_refused());
    let producer = factory.create_producer_with(config).unwrap();
    producer.publish(&topic("test")).await.unwrap();
    let sender = producer.clone();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let sending = tokio::spawn(async move {
        let (mut stored, mut unknown) = (Vec::new(), 0);
        for number in 0.. {
            if stopped.is_cancelled() {
                break;
            }
            match sender.send_with_timeout(message(&format!("{number};")), Duration::from_secs(30)).await {
                Ok(sent) => stored.push((number, sent)),
                Err(error) if error.outcome() == Outcome::Unknown => unknown += 1,
                Err(error) => panic!("{error}"),
            }
        }
        (stored, unknown)
    });
    for _ in 0..2 {
        let address = broker.address();
        tokio::time::sleep(Duration::from_millis(200)).await;
        broker.stop(CancellationToken::new()).await.unwrap();
        broker = start().await;
        assert_ne!(broker.address(), address);
        let producer = producer.clone();
        eventually("messages are stored again", || {
            let producer = producer.clone();
            async move { producer.send(message("probe;")).await.map_err(|error| error.to_string()) }
        })
        .await;
    }
    stop.cancel();
    let (stored, unknown) = soon("the sender", sending).await.unwrap();
    assert!(stored.len() > 10, "{} stored, {unknown} unknown", stored.len());
    let mut client = Raw::connect(broker.address()).await;
    for (number, sent) in &stored {
        let data = client.get("test", sent.partition.get(), sent.offset.get()).await.unwrap();
        let record = Records::new(data, 1 << 20).next().unwrap().unwrap();
        assert_eq!((record.header.id, &record.body[..]), (sent.id, format!("{number};").as_bytes()));
    }
    factory.shutdown().await.unwrap();
    broker.stop(CancellationToken::new()).await.unwrap();
    wait_until("the tree is open to the end", || tree.is_open());
}
