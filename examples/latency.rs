//! How long a message takes from `send` to the listener of a group, one at a time on an idle topic.
//!
//! `cargo run --release --example latency -- 127.0.0.1:2181 test 1000`

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;
use std::time::{Duration, Instant};

use metaq::client::{ClientConfig, ClientEvent, ConsumerConfig, Message, MessageSessionFactory, ReceivedMessage};
use metaq::id::TopicName;
use tokio::sync::mpsc;

/// Pause between two messages, so that the topic is idle when each is sent.
const PAUSE: Duration = Duration::from_millis(5);

/// Longest wait for a message.
const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let zookeeper = arguments.next().unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let topic = TopicName::new(arguments.next().unwrap_or_else(|| "test".to_owned()))?;
    let count: usize = arguments.next().unwrap_or_else(|| "1000".to_owned()).parse()?;

    let factory = MessageSessionFactory::connect(ClientConfig::zookeeper(&zookeeper)?).await?;
    let producer = factory.create_producer()?;
    producer.publish(&topic).await?;
    // So that each partition has an end.
    for _ in factory.partitions_for_topic(&topic).await? {
        producer.send(Message::new(topic.clone(), "first")).await?;
    }

    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let consumer = factory.create_consumer(ConsumerConfig::new("latency")?.consume_from_max_offset())?;
    consumer.subscribe(&topic, 1 << 20, move |message: ReceivedMessage| {
        // Nobody waits for those of an earlier run.
        let _ = arrived.send((message.id, Instant::now()));
        async {}
    })?;
    let mut events = factory.events();
    consumer.complete_subscribe().await?;
    // A new group begins at the end of each partition, and does not see what is sent before it has asked for that.
    while !matches!(events.recv().await?, ClientEvent::Rebalanced { .. }) {}
    for partition in consumer.assigned() {
        while consumer.position(&partition).await?.is_none() {
            tokio::time::sleep(PAUSE).await;
        }
    }

    let mut latencies = Vec::with_capacity(count);
    for number in 0..count {
        tokio::time::sleep(PAUSE).await;
        let begun = Instant::now();
        let sent = producer.send(Message::new(topic.clone(), format!("message {number}"))).await?;
        loop {
            let arrival = tokio::time::timeout(PATIENCE, arrivals.recv()).await?;
            let Some((id, at)) = arrival else { return Err("the consumer has ended".into()) };
            if id == sent.id {
                latencies.push(at - begun);
                break;
            }
        }
    }
    latencies.sort_unstable();
    let percentile =
        |percent: usize| latencies.get((count * percent / 100).min(count - 1)).copied().unwrap_or_default();
    println!("p50 {:?}, p99 {:?}, longest {:?}", percentile(50), percentile(99), percentile(100));
    factory.shutdown().await?;
    Ok(())
}
