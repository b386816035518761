//! Brokers that answer what none should, hooks that panic, and settings that no clock can express.

use std::sync::Arc;
use std::time::Duration;

use metaq::client::{ClientConfig, ClientError, ClientMetrics, Fault, MessageSessionFactory};
use metaq::id::{GroupName, Offset, Partition, TopicName, TopicPartition};
use metaq::protocol::Status;

use crate::common::scripted::{JAVA, ScriptedBroker};
use crate::rig::{MAX_SIZE, Record, Rig, config, t, texts, topic};

#[tokio::test]
async fn answers_that_no_get_can_have_are_errors_of_a_bounded_length() {
    let mut broker = ScriptedBroker::start(JAVA).await;
    let client = ClientConfig::server(&broker.address().to_string()).unwrap();
    let factory = MessageSessionFactory::connect(client).await.unwrap();
    let consumer = factory.create_consumer(config("g")).unwrap();
    for (status, text) in [
        (Status::MOVED, "-7".to_owned()),
        (Status::MOVED, "x".repeat(1 << 20)),
        (Status::SUCCESS, String::new()),
        (Status::SUCCESS, "y".repeat(1 << 20)),
        (Status::ERROR, "z".repeat(1 << 20)),
    ] {
        let (topic, partition) = (topic("t"), t(0).partition);
        let get = consumer.get(&topic, partition, Offset::new(5), MAX_SIZE);
        let answer = async { broker.next().await.answer(status, &text) };
        let error = tokio::join!(get, answer).0.unwrap_err();
        assert_eq!(error.fault(), Fault::Broker, "{error}");
        match status {
            Status::ERROR => assert!(matches!(error, ClientError::Refused { .. }), "{error}"),
            _ => assert!(matches!(error, ClientError::Unexpected { .. }), "{error}"),
        }
        let length = error.to_string().len();
        assert!(length < 2048, "{length} bytes of error");
    }
    let nearest = async { consumer.nearest_offset(&t(0), Offset::new(5)).await };
    let answer = async { broker.next().await.answer(Status::SUCCESS, "-1") };
    let error = tokio::join!(nearest, answer).0.unwrap_err();
    assert!(matches!(error, ClientError::Unexpected { .. }), "{error}");
}

/// Panics whatever it is told.
#[derive(Debug)]
struct Explosive;

impl ClientMetrics for Explosive {
    fn sent(&self, _: &TopicName, _: Option<Partition>, _: usize, _: Duration) {
        panic!("sent");
    }

    fn received(&self, _: &TopicPartition, _: usize, _: usize) {
        panic!("received");
    }

    fn committed(&self, _: &GroupName, _: &TopicPartition, _: Offset) {
        panic!("committed");
    }

    fn rebalanced(&self, _: &GroupName, _: usize) {
        panic!("rebalanced");
    }

    fn lag(&self, _: &TopicPartition, _: u64) {
        panic!("lag");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_that_panic_and_the_longest_times_do_not_stop_a_consumer() {
    let rig = Rig::start(2).await;
    rig.send(0, texts("m", 3)).await;
    let client = rig.broker.client_config().metrics(Arc::new(Explosive));
    let client = client.zk_session_timeout(Duration::MAX).zk_connection_timeout(Duration::MAX);
    let client = client.zk_sync_time(Duration::MAX).reconnect_backoff(Duration::MAX);
    let client = client.connect_timeout(Duration::MAX).request_timeout(Duration::MAX);
    let factory = MessageSessionFactory::connect(client).await.unwrap();
    let settings = config("g").fetch_timeout(Duration::MAX).max_delay_fetch_time(Duration::MAX);
    let settings = settings.commit_offset_period(Duration::MAX).drain_timeout(Duration::MAX);
    let record = Record::default();
    let consumer = crate::rig::consume(&factory, settings, record.listener()).await;
    record.wait(3).await;
    consumer.commit().await.unwrap();
    assert_eq!(consumer.lag(&t(0)).await.unwrap(), Some(0));
    rig.send(0, ["new"]).await;
    record.wait_for("new").await;
    factory.shutdown().await.unwrap();
    assert_eq!(rig.tree.offset("g", 0).await, record.all().last().map(|message| message.next_offset));
}
