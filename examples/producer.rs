//! Sends messages, one awaited and many in flight.
//!
//! `cargo run --example producer -- 127.0.0.1:2181 test`

use std::error::Error;

use metaq::client::{ClientConfig, Message, MessageSessionFactory};
use metaq::id::TopicName;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let zookeeper = arguments.next().unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let topic = TopicName::new(arguments.next().unwrap_or_else(|| "test".to_owned()))?;

    let factory = MessageSessionFactory::connect(ClientConfig::zookeeper(&zookeeper)?).await?;
    let producer = factory.create_producer()?;
    producer.publish(&topic).await?;

    // One at a time: the answer says where the message is stored.
    let sent = producer.send(Message::new(topic.clone(), "first")).await?;
    println!("stored in partition {} at offset {}", sent.partition, sent.offset);

    // Many in flight: each call waits only while the window is full.
    let mut handles = Vec::new();
    for number in 0..1_000 {
        handles.push(producer.start_send(Message::new(topic.clone(), format!("message {number}"))).await?);
    }
    for handle in handles {
        // An error whose outcome is unknown means that the message may be stored all the same.
        if let Err(error) = handle.await {
            eprintln!("{error} (stored: {:?})", error.outcome());
        }
    }
    factory.shutdown().await?;
    Ok(())
}
