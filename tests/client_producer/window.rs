//! How many messages are under way, and in which order they go.

use std::time::Duration;

use metaq::client::{ClientConfig, Message, MessageSessionFactory, ProducerConfig, SendHandle};

use crate::common::scripted::{Asked, JAVA, METAQ, ScriptedBroker};
use crate::rig::{direct_producer, message, soon, topic};

#[tokio::test]
async fn a_broker_that_keeps_the_order_gets_many_at_a_time_in_the_order_of_the_calls() {
    let mut broker = ScriptedBroker::start(METAQ).await;
    let producer = direct_producer(broker.address(), ProducerConfig::default()).await;
    let mut handles = Vec::new();
    for number in 0..100 {
        handles.push(producer.start_send(message(&number.to_string())).await.unwrap());
    }
    let mut asked = Vec::new();
    for number in 0..100 {
        let put = broker.next().await;
        assert_eq!(put.text(), number.to_string());
        asked.push(put);
    }
    asked.iter().zip(0..).for_each(|(put, number)| put.stored(number, number * 30));
    for (handle, number) in handles.into_iter().zip(0..) {
        let sent = soon("a result", handle).await.unwrap();
        assert_eq!((sent.id.get(), sent.offset.get()), (number, number * 30));
    }
}

/// Such a broker may store what it has at the same time in any order (01 §13.1).
#[tokio::test]
async fn a_broker_on_the_jvm_gets_the_next_message_of_a_partition_when_the_last_one_is_answered() {
    let mut broker = ScriptedBroker::start(JAVA).await;
    let producer = direct_producer(broker.address(), ProducerConfig::default()).await;
    let mut handles = Vec::new();
    for number in 0..5 {
        handles.push(producer.start_send(message(&number.to_string())).await.unwrap());
    }
    for (number, handle) in (0..5).zip(handles) {
        let put = broker.next().await;
        assert_eq!(put.text(), number.to_string());
        // Whatever the producer would send now is here before the answer to this.
        producer_is_idle(&broker).await;
        put.stored(number, 0);
        soon("a result", handle).await.unwrap();
    }
}

async fn producer_is_idle(broker: &ScriptedBroker) {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(!broker.is_asked(), "one message at a time");
}

#[tokio::test]
async fn beyond_the_window_sending_waits_for_an_answer() {
    let mut broker = ScriptedBroker::start(METAQ).await;
    let producer = direct_producer(broker.address(), ProducerConfig::default().in_flight_messages(2)).await;
    let first = producer.start_send(message("a")).await.unwrap();
    let _second = producer.start_send(message("b")).await.unwrap();
    let third = producer.start_send(message("c"));
    tokio::pin!(third);
    let early = tokio::time::timeout(Duration::from_millis(100), &mut third).await;
    assert!(early.is_err(), "two are under way");
    let error = producer.send_with_timeout(message("d"), Duration::from_millis(50)).await.unwrap_err().to_string();
    assert_eq!(error, "Send message timeout in 50 mills, it was not sent: too many messages were in flight");
    broker.next().await.stored(1, 0);
    soon("the first", first).await.unwrap();
    let third: SendHandle = soon("a place", third).await.unwrap();
    let _b: Asked = broker.next().await;
    let c = broker.next().await;
    assert_eq!(c.text(), "c");
    c.stored(3, 0);
    drop(third);
}

#[tokio::test]
async fn bytes_in_flight_are_limited_and_a_larger_message_goes_alone() {
    let mut broker = ScriptedBroker::start(METAQ).await;
    let producer = direct_producer(broker.address(), ProducerConfig::default().in_flight_bytes(100)).await;
    let large = producer.start_send(message(&"x".repeat(1000))).await.unwrap();
    let small = producer.start_send(message("y"));
    tokio::pin!(small);
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut small).await.is_err());
    broker.next().await.stored(1, 0);
    soon("the large one", large).await.unwrap();
    drop(soon("a place", small).await.unwrap());
    assert_eq!(broker.next().await.text(), "y");
}

#[tokio::test]
async fn a_flush_waits_for_everything_that_was_handed_over_before() {
    let mut broker = ScriptedBroker::start(METAQ).await;
    let producer = direct_producer(broker.address(), ProducerConfig::default()).await;
    for text in ["a", "b"] {
        // Nobody waits for these results, and the messages are sent all the same.
        drop(producer.start_send(message(text)).await.unwrap());
    }
    let flush = producer.flush();
    tokio::pin!(flush);
    let (a, b) = (broker.next().await, broker.next().await);
    assert_eq!((a.text(), b.text()), ("a".to_owned(), "b".to_owned()));
    b.stored(2, 30);
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut flush).await.is_err(), "one is not answered");
    a.stored(1, 0);
    soon("the flush", flush).await;
}

/// Each place that messages go to has a task, and topics may be many.
#[tokio::test]
async fn nothing_stays_of_topics_that_nobody_sends_to_any_more() {
    let mut broker = ScriptedBroker::start(METAQ).await;
    let config = ClientConfig::server(&broker.address().to_string()).unwrap().heartbeat(None);
    let factory = MessageSessionFactory::connect(config).await.unwrap();
    let producer = factory.create_producer().unwrap();
    let mut id = 0;
    let mut send = async |topics: std::ops::Range<i32>| {
        for number in topics {
            let message = Message::new(topic(&format!("t{number}")), "x");
            let sending = producer.start_send(message).await.unwrap();
            id += 1;
            broker.next().await.stored(id, 0);
            soon("a result", sending).await.unwrap();
        }
    };
    send(0..1).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    send(0..100).await;
    assert!(tasks() > before + 50, "{} tasks, there were {before}", tasks());
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(120)).await;
    tokio::time::resume();
    assert!(tasks() <= before, "{} tasks, there were {before}", tasks());
    send(99..101).await;
}
