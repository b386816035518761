//! A member of a consumer group. Start it several times: the members share the partitions.
//!
//! `cargo run --example consumer_group -- 127.0.0.1:2181 test my-group`

use std::error::Error;

use metaq::client::{ClientConfig, ConsumerConfig, MessageSessionFactory, ReceivedMessage};
use metaq::id::TopicName;
use tokio::signal::ctrl_c;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let zookeeper = arguments.next().unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let topic = TopicName::new(arguments.next().unwrap_or_else(|| "test".to_owned()))?;
    let group = arguments.next().unwrap_or_else(|| "my-group".to_owned());

    let factory = MessageSessionFactory::connect(ClientConfig::zookeeper(&zookeeper)?).await?;
    let consumer = factory.create_consumer(ConsumerConfig::new(group)?)?;
    consumer.subscribe(&topic, 1 << 20, |message: ReceivedMessage| async move {
        let text = String::from_utf8_lossy(&message.payload);
        println!("{} at {}: {text}", message.from, message.offset);
        // An error here would bring the message again after a pause.
        Ok::<_, std::io::Error>(())
    })?;
    consumer.complete_subscribe().await?;

    ctrl_c().await?;
    // Listeners end, offsets are stored, the partitions go to the others at once.
    factory.shutdown().await?;
    Ok(())
}
