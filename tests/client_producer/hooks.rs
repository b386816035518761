//! Code of the application that panics where others wait.

use std::sync::Arc;

use metaq::client::{
    ClientError, ClientMetrics, Message, MessageSessionFactory, PartitionSelector, ProducerConfig, Retries,
};
use metaq::id::{Partition, TopicName};
use metaq::protocol::Status;

use crate::common::scripted::{METAQ, ScriptedBroker};
use crate::rig::{Tree, message, soon, topic};

/// Takes the first of two, and panics where it has no choice.
#[derive(Debug)]
struct Picky;

impl PartitionSelector for Picky {
    fn select(&self, _: &TopicName, partitions: &[Partition], message: &Message) -> Option<Partition> {
        assert!(partitions.len() > 1 && message.payload() != "bad", "no choice");
        partitions.first().copied()
    }
}

#[tokio::test]
async fn a_selector_that_panics_fails_its_message_and_none_of_the_others() {
    let mut broker = ScriptedBroker::start(METAQ).await;
    let tree = Tree::start().await;
    tree.register(0, broker.address(), 2).await;
    let factory = tree.factory().await;
    let config = ProducerConfig::default().selector(Picky).retries(Retries::of_unsent(3).and_refused());
    let producer = factory.create_producer_with(config).unwrap();
    producer.publish(&topic("test")).await.unwrap();
    let refused = producer.start_send(message("refused")).await.unwrap();
    let waiting = producer.start_send(message("waiting")).await.unwrap();
    let (first, second) = (broker.next().await, broker.next().await);
    first.answer(Status::FORBIDDEN, "not now");
    let error = soon("an error", refused).await.unwrap_err();
    assert!(matches!(error, ClientError::Refused { .. }), "the error of the attempt, not {error}");
    second.stored(1, 0);
    soon("a result", waiting).await.unwrap();
    let error = producer.send(message("bad")).await.unwrap_err();
    assert!(matches!(&error, ClientError::Selector { panic, .. } if panic == "no choice"), "{error}");
    let sending = producer.start_send(message("good")).await.unwrap();
    broker.next().await.stored(2, 30);
    soon("a result", sending).await.unwrap();
}

/// Panics whatever it is told.
#[derive(Debug)]
struct Explosive;

impl ClientMetrics for Explosive {
    fn sent(&self, _: &TopicName, _: Option<Partition>, _: usize, _: std::time::Duration) {
        panic!("no bread");
    }

    fn send_failed(&self, _: &TopicName, _: &ClientError) {
        panic!("no butter");
    }
}

#[tokio::test]
async fn metrics_and_an_address_mapping_that_panic_stop_no_message() {
    let mut broker = ScriptedBroker::start(METAQ).await;
    let tree = Tree::start().await;
    tree.register(0, broker.address(), 1).await;
    let config = tree.config().metrics(Arc::new(Explosive)).address_mapping(|_| panic!("no map"));
    let producer = MessageSessionFactory::connect(config).await.unwrap().create_producer().unwrap();
    producer.publish(&topic("test")).await.unwrap();
    let sends = [producer.start_send(message("a")).await.unwrap(), producer.start_send(message("b")).await.unwrap()];
    broker.next().await.stored(1, 0);
    broker.next().await.answer(Status::BAD_REQUEST, "no");
    let [sent, refused] = sends;
    soon("a result", sent).await.unwrap();
    let error = soon("an error", refused).await.unwrap_err();
    assert!(matches!(error, ClientError::Refused { .. }), "{error}");
    let sending = producer.start_send(message("c")).await.unwrap();
    broker.next().await.stored(2, 30);
    soon("a result", sending).await.unwrap();
}

#[test]
fn a_message_whose_runtime_ends_is_not_reported_as_unsent() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (sending, _asked) = runtime.block_on(async {
        let mut broker = ScriptedBroker::start(METAQ).await;
        let producer = crate::rig::direct_producer(broker.address(), ProducerConfig::default()).await;
        let sending = producer.start_send(message("x")).await.unwrap();
        (sending, broker.next().await)
    });
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = other.block_on(soon("an error", sending)).unwrap_err();
    assert_eq!(error.outcome(), metaq::client::Outcome::Unknown, "{error}");
}
