//! One broker by its address, without ZooKeeper (05 §3).

use std::time::Duration;

use metaq::client::{ClientConfig, Fetch, MessageSessionFactory, SeekTo};
use metaq::id::Offset;

use crate::common::DEADLINE;
use crate::common::local::LocalBroker;
use crate::common::scripted::{METAQ, ScriptedBroker};
use crate::rig::{MAX_SIZE, Record, Rig, config, t, texts, topic};

async fn direct(broker: &LocalBroker) -> MessageSessionFactory {
    MessageSessionFactory::connect(ClientConfig::server(&broker.address()).unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_configured_partition_is_read_from_the_one_broker() {
    let rig = Rig::start(2).await;
    rig.send(0, texts("zero", 2)).await;
    rig.send(1, texts("one", 2)).await;
    let factory = direct(&rig.broker).await;
    let record = Record::default();
    // Whatever broker the partition names, there is only this one.
    let config = config("g").partition("7-1".parse().unwrap()).offset(Offset::new(24));
    let consumer = factory.create_consumer(config).unwrap();
    consumer.subscribe(&topic("t"), MAX_SIZE, record.listener()).unwrap();
    consumer.complete_subscribe().await.unwrap();
    record.wait(1).await;
    rig.send(1, ["new"]).await;
    record.wait(2).await;
    assert_eq!(record.texts(), ["one1", "new"][..]);
    factory.shutdown().await.unwrap();
    assert!(rig.tree.groups().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_can_begin_at_the_end() {
    let rig = Rig::start(1).await;
    rig.send(0, ["old"]).await;
    let factory = direct(&rig.broker).await;
    let record = Record::default();
    let config = config("g").partition("0-0".parse().unwrap()).always_consume_from_max_offset();
    let consumer = crate::rig::consume(&factory, config, record.listener()).await;
    let of = consumer.assigned().remove(0);
    crate::common::eventually("the position", async || match consumer.position(&of).await.unwrap() {
        Some(position) if position == Offset::new(23) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    rig.send(0, ["new"]).await;
    record.wait(1).await;
    assert_eq!(record.texts(), ["new"]);
    consumer.seek(&of, SeekTo::Earliest).await.unwrap();
    record.wait(3).await;
    factory.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_partition_it_says_what_to_do_and_can_be_assigned_by_hand() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 2)).await;
    let factory = direct(&rig.broker).await;
    let consumer = factory.create_consumer(config("g")).unwrap();
    let record = Record::default();
    consumer.subscribe(&topic("t"), MAX_SIZE, record.listener()).unwrap();
    let error = consumer.complete_subscribe().await.unwrap_err().to_string();
    assert!(error.contains("ConsumerConfig::partition"), "{error}");
    consumer.assign(&[t(0)]).await.unwrap();
    record.wait(2).await;
    let Fetch::Messages(messages) = consumer.get(&topic("t"), t(0).partition, Offset::ZERO, 1000).await.unwrap() else {
        panic!("nothing")
    };
    assert_eq!(messages.len(), 2);
    consumer.shutdown().await.unwrap();
    factory.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_connection_on_which_no_get_is_answered_is_replaced() {
    let mut broker = ScriptedBroker::start(METAQ).await;
    let target = ClientConfig::server(&broker.address().to_string()).unwrap().reconnect_backoff(Duration::ZERO);
    let factory = MessageSessionFactory::connect(target).await.unwrap();
    let config = config("g").partition("0-0".parse().unwrap()).fetch_timeout(Duration::from_millis(400));
    crate::rig::consume(&factory, config, Record::default().listener()).await;
    let replaced = async { while broker.next().await.connection == 1 {} };
    tokio::time::timeout(DEADLINE, replaced).await.expect("it is asked on the first connection for ever");
    factory.shutdown().await.unwrap();
}
