//! Messages that cannot be handled: some may succeed later, some never will. The latter go to a topic of their own, which
//! a broker has to offer: until they are stored there, their partition waits.
//!
//! `cargo run --example poison_messages -- 127.0.0.1:2181 test dead-letters my-group`

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;
use std::time::Duration;

use metaq::client::{
    Action, ClientConfig, ClientEvent, ConsumerConfig, DeadLetterTopic, MessageSessionFactory, ReceivedMessage,
};
use metaq::id::TopicName;
use tokio::signal::ctrl_c;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let zookeeper = arguments.next().unwrap_or_else(|| "127.0.0.1:2181".to_owned());
    let topic = TopicName::new(arguments.next().unwrap_or_else(|| "test".to_owned()))?;
    let dead_letters = TopicName::new(arguments.next().unwrap_or_else(|| "dead-letters".to_owned()))?;
    let group = arguments.next().unwrap_or_else(|| "my-group".to_owned());

    let factory = MessageSessionFactory::connect(ClientConfig::zookeeper(&zookeeper)?).await?;
    let config = ConsumerConfig::new(group)?
        // After so many failures in a row a message is rejected, too.
        .max_fetch_retries(3)
        .max_delay_fetch_time(Duration::from_secs(2))
        .reject_handler(DeadLetterTopic::new(factory.create_producer()?, dead_letters));
    let consumer = factory.create_consumer(config)?;
    consumer.subscribe(&topic, 1 << 20, |message: ReceivedMessage| async move {
        match std::str::from_utf8(&message.payload) {
            Err(_) => Action::Reject("the payload is no text".to_owned()),
            Ok("later") if message.redeliveries < 2 => Action::Retry("not yet".to_owned()),
            Ok(text) => {
                println!("{}: {text}", message.from);
                Action::Ack
            }
        }
    })?;
    consumer.complete_subscribe().await?;

    let mut events = factory.events();
    loop {
        tokio::select! {
            end = ctrl_c() => break end?,
            event = events.recv() => if let Ok(ClientEvent::MessageRejected { from, offset, reason, .. }) = event {
                println!("{from} at {offset} rejected: {reason}");
            },
        }
    }
    factory.shutdown().await?;
    Ok(())
}
