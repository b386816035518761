//! Messages as a stream, each answered when it is handled.
//!
//! `cargo run --example stream -- 127.0.0.1:2181 test my-group`

use std::error::Error;

use metaq::client::{ClientConfig, ConsumerConfig, MessageSessionFactory};
use metaq::id::TopicName;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let zookeeper = arguments.next().unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let topic = TopicName::new(arguments.next().unwrap_or_else(|| "test".to_owned()))?;
    let group = arguments.next().unwrap_or_else(|| "my-group".to_owned());

    let factory = MessageSessionFactory::connect(ClientConfig::zookeeper(&zookeeper)?).await?;
    let consumer = factory.create_consumer(ConsumerConfig::new(group)?)?;
    let mut messages = consumer.subscribe_stream(&topic, 1 << 20)?;
    consumer.complete_subscribe().await?;

    while let Some(message) = messages.next().await {
        match std::str::from_utf8(&message.payload) {
            Ok("stop") => {
                message.ack();
                break;
            }
            Ok(text) => {
                println!("{}: {text}", message.from);
                message.ack();
            }
            Err(_) => message.reject("the payload is no text"),
        }
    }
    factory.shutdown().await?;
    Ok(())
}
