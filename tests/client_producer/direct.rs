//! One broker by its address, ours.

use std::time::Duration;

use metaq::client::{ClientConfig, ClientError, ConfigError, Message, MessageSessionFactory, Outcome, ProducerConfig};
use metaq::id::{BrokerUrl, PartitionIndex};
use metaq::message::Records;
use metaq::protocol::Status;

use crate::common::in_process::TestBroker;
use crate::rig::{direct, message, topic};

#[tokio::test]
async fn what_is_sent_is_stored_where_the_result_says() {
    let broker = TestBroker::start().await;
    let factory = direct(broker.address()).await;
    let producer = factory.create_producer().unwrap();
    producer.publish(&topic("test")).await.unwrap();
    for (payload, attribute) in [("hello", None), ("", None), ("with", Some("attr")), ("", Some(""))] {
        let message = attribute.iter().fold(message(payload), |message, &text| message.with_attribute(text));
        let sent = producer.send(message).await.unwrap();
        assert_eq!((sent.broker, sent.place()), (None, None), "it is known by its address only");
        let data = broker.connect().await.get("test", sent.partition.get(), sent.offset.get()).await.unwrap();
        let record = Records::new(data, 1 << 20).next().unwrap().unwrap();
        let body = record.decode_body().unwrap();
        assert_eq!(record.header.id, sent.id);
        assert_eq!((body.attribute.as_deref(), &body.payload[..]), (attribute, payload.as_bytes()));
    }
    factory.shutdown().await.unwrap();
}

#[tokio::test]
async fn the_partition_of_one_broker_can_be_given() {
    let broker = TestBroker::start().await;
    let factory = direct(broker.address()).await;
    let config = ProducerConfig::default().server_partition(PartitionIndex::new(1));
    let producer = factory.create_producer_with(config).unwrap();
    for _ in 0..5 {
        let sent = producer.send(message("x")).await.unwrap();
        assert_eq!(sent.partition, PartitionIndex::new(1));
        assert!(sent.to_string().starts_with("partition=-1-1 offset="), "{sent}");
    }
}

#[tokio::test]
async fn wrong_input_is_told_before_anything_is_sent() {
    let broker = TestBroker::start().await;
    let factory = direct(broker.address()).await;
    let producer = factory.create_producer().unwrap();
    let to = |name: &str, payload: Vec<u8>| Message::new(topic(name), payload);
    for (message, text) in [
        (to(" ", Vec::new()), "Blank topic"),
        (to("two words", Vec::new()), "the topic \"two words\" cannot be sent"),
        (to("test", vec![0; (2 << 20) + 1]), "the message has 2097153 bytes with its attribute, and at most 2097152"),
    ] {
        let error = producer.send(message.clone()).await.unwrap_err();
        assert!(error.to_string().starts_with(text), "{error}");
        assert_eq!((error.outcome(), error.is_retryable()), (Outcome::NotDone, false));
        assert!(producer.start_send(message).await.is_err());
    }
    assert_eq!(producer.publish(&topic(" ")).await.unwrap_err().to_string(), "Blank topic");
    let error = producer.send_with_timeout(message("x"), Duration::ZERO).await.unwrap_err();
    assert!(error.to_string().starts_with("Send message timeout in 0 mills"), "{error}");
    assert_eq!(error.outcome(), Outcome::NotDone);
    assert!(!broker.connect().await.ask("stats test 1\r\n").await.contains("messages"), "nothing was sent");
    // The largest that is taken, and a time-out that no clock can express.
    let whole = producer.send_with_timeout(to("test", vec![7; 2 << 20]), Duration::MAX);
    whole.await.unwrap();
    for config in [ProducerConfig::default().in_flight_messages(0), ProducerConfig::default().in_flight_bytes(0)] {
        let error = factory.create_producer_with(config).unwrap_err();
        assert!(matches!(error, ClientError::Config(ConfigError::OutOfRange { .. })), "{error}");
    }
}

#[tokio::test]
async fn a_refusal_is_an_error_with_the_broker_s_status_and_text() {
    let broker = TestBroker::start().await;
    let factory = direct(broker.address()).await;
    let config = ProducerConfig::default().server_partition(PartitionIndex::new(0));
    let producer = factory.create_producer_with(config).unwrap();
    let error = producer.send(Message::new(topic("nope"), "x")).await.unwrap_err();
    let ClientError::Refused { status, text } = &error else { panic!("{error}") };
    assert_eq!(*status, Status::ERROR);
    assert!(text.ends_with("Detail:The server do not accept topic nope"), "{text}");
    producer.send(message("the connection is still good")).await.unwrap();
}

#[tokio::test]
async fn what_was_shut_down_says_so() {
    let broker = TestBroker::start().await;
    let factory = direct(broker.address()).await;
    let producer = factory.create_producer().unwrap();
    let other = factory.create_producer().unwrap();
    assert_ne!(producer.session_id(), other.session_id());
    assert!(producer.session_id().ends_with("-1") && !producer.session_id().contains(':'));
    producer.shutdown().await.unwrap();
    producer.shutdown().await.unwrap();
    for error in [
        producer.send(message("x")).await.unwrap_err(),
        producer.start_send(message("x")).await.unwrap_err(),
        producer.publish(&topic("test")).await.unwrap_err(),
        producer.set_default_topic(&topic("test")).await.unwrap_err(),
    ] {
        assert_eq!(error.to_string(), "Producer has been shutdown");
    }
    other.send(message("x")).await.unwrap();
    factory.clone().shutdown().await.unwrap();
    factory.shutdown().await.unwrap();
    assert_eq!(other.send(message("x")).await.unwrap_err().to_string(), "Producer has been shutdown");
    assert_eq!(factory.create_producer().unwrap_err().to_string(), "Message session factory has been shutdown");
}

#[tokio::test]
async fn a_shutdown_waits_for_the_results_of_what_was_sent() {
    let broker = TestBroker::start().await;
    let factory = direct(broker.address()).await;
    let producer = factory.create_producer().unwrap();
    let mut handles = Vec::new();
    for number in 0..500 {
        handles.push(producer.start_send(message(&number.to_string())).await.unwrap());
    }
    factory.shutdown().await.unwrap();
    for handle in handles {
        handle.await.unwrap();
    }
}

#[tokio::test]
async fn a_producer_outlives_the_factory_that_is_dropped() {
    let broker = TestBroker::start().await;
    let producer = direct(broker.address()).await.create_producer().unwrap();
    producer.send(message("x")).await.unwrap();
}

#[tokio::test]
async fn one_broker_has_statistics_and_no_list_of_partitions() {
    let broker = TestBroker::start().await;
    let factory = direct(broker.address()).await;
    let error = factory.partitions_for_topic(&topic("test")).await.unwrap_err().to_string();
    assert!(error.starts_with("Could not talk with zookeeper to get partitions list"), "{error}");
    let url = BrokerUrl::new("127.0.0.1", broker.address().port());
    let all = factory.stats("").await.unwrap();
    assert_eq!(all.keys().collect::<Vec<_>>(), [&url.authority()]);
    let stats = factory.stats_of(&url, "").await.unwrap().unwrap();
    assert_eq!(stats.get("END"), Some("NO VALUE"));
    assert!(stats.get("pid").is_some(), "{stats:?}");
    assert_eq!(factory.stats_of(&BrokerUrl::new("127.0.0.1", 1), "").await.unwrap(), None);
}

#[tokio::test]
async fn nobody_at_the_address_refuses_the_factory() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = ClientConfig::server(&format!("meta://{free}")).unwrap();
    let error = MessageSessionFactory::connect(config).await.unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }), "{error}");
}
