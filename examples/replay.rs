//! Reads a partition again from an offset, without disturbing any group.
//!
//! An offset at which no message begins stands for the beginning of its segment.
//!
//! `cargo run --example replay -- 127.0.0.1:2181 test 0-0 0`

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;

use metaq::client::{ClientConfig, ConsumerConfig, MessageSessionFactory, SeekTo};
use metaq::id::{Offset, Partition, TopicName, TopicPartition};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let zookeeper = arguments.next().unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let topic = TopicName::new(arguments.next().unwrap_or_else(|| "test".to_owned()))?;
    let partition: Partition = arguments.next().unwrap_or_else(|| "0-0".to_owned()).parse()?;
    let offset: i64 = arguments.next().unwrap_or_else(|| "0".to_owned()).parse()?;

    let factory = MessageSessionFactory::connect(ClientConfig::zookeeper(&zookeeper)?).await?;
    let consumer = factory.create_consumer(ConsumerConfig::new("replay")?)?;
    let mut messages = consumer.subscribe_stream(&topic, 1 << 20)?;
    // Chosen by hand: nothing is claimed in the group and no offset is stored.
    let partition = TopicPartition { topic, partition };
    consumer.assign(std::slice::from_ref(&partition)).await?;
    consumer.seek(&partition, SeekTo::Offset(Offset::new(offset))).await?;

    // Up to where the partition ends now.
    let Some(end) = consumer.end_offset(&partition).await? else {
        return Err(format!("there is nothing of {partition}").into());
    };
    let mut next = Offset::new(offset);
    while next < end {
        let Some(message) = messages.next().await else { break };
        println!("{}: {}", message.offset, String::from_utf8_lossy(&message.payload));
        next = message.next_offset;
        message.ack();
    }
    factory.shutdown().await?;
    Ok(())
}
