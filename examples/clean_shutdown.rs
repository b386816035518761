//! A service that leaves cleanly on TERM or INT: what is being handled is finished, nothing is delivered twice.
//!
//! `cargo run --example clean_shutdown -- 127.0.0.1:2181 test my-group`

use std::error::Error;
use std::time::Duration;

use metaq::client::{ClientConfig, ClientEvent, ConsumerConfig, MessageSessionFactory, ReceivedMessage};
use metaq::id::TopicName;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let zookeeper = arguments.next().unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let topic = TopicName::new(arguments.next().unwrap_or_else(|| "test".to_owned()))?;
    let group = arguments.next().unwrap_or_else(|| "my-group".to_owned());
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;

    let factory = MessageSessionFactory::connect(ClientConfig::zookeeper(&zookeeper)?).await?;
    // How long a listener may hold up the end.
    let config = ConsumerConfig::new(group)?.drain_timeout(Duration::from_secs(5));
    let consumer = factory.create_consumer(config)?;
    consumer.subscribe(&topic, 1 << 20, |message: ReceivedMessage| async move {
        println!("begin {}", message.offset);
        tokio::time::sleep(Duration::from_millis(500)).await;
        println!("end   {}", message.offset);
    })?;
    consumer.complete_subscribe().await?;

    let mut events = factory.events();
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            event = events.recv() => match event {
                Ok(ClientEvent::Rebalanced { .. }) => println!("reading {:?}", consumer.assigned()),
                Ok(event) => println!("{event:?}"),
                // Too slow to see all of them; the next ones come.
                Err(_) => {}
            },
        }
    }
    factory.shutdown().await?;
    println!("left");
    Ok(())
}
