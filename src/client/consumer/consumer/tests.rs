use std::time::Duration;

use tokio::time::sleep;

use super::*;
use crate::client::Fault;
use crate::client::config::ClientConfig;
use crate::client::consumer::running::Running;
use crate::client::consumer::testing::{assignment, topic_partition};
use crate::client::session::{Discovery, Session};
use crate::client::{Action, ClientEvent};
use crate::rebalance::simulated::{Client, Service};

#[tokio::test(start_paused = true)]
async fn a_consumer_that_has_ended_by_a_fault_says_so_at_every_call() {
    let url = "meta://127.0.0.1:1".parse().unwrap();
    let session = Session::start(ClientConfig::server("127.0.0.1:1").unwrap(), Discovery::Server(url));
    let config = ConsumerConfig::new("g").unwrap();
    let of = topic_partition("t 0-0");
    let assignment = assignment(&session, config.group(), &of.topic);
    let engine = Arc::clone(&assignment.engine);
    let running = Arc::new(Running::by_hand(assignment));
    let core = Core::at_work(Arc::clone(&session), config, Arc::clone(&running));
    let consumer = Consumer { core, _handle: SessionHandle::new(session) };
    let some = [of.clone()];
    running.read(&some);
    engine.fault();
    engine.ended().await.unwrap();
    let results = [
        consumer.commit().await,
        consumer.pause(&some).await,
        consumer.resume(&some).await,
        consumer.seek(&of, SeekTo::Earliest).await,
        consumer.position(&of).await.map(drop),
        consumer.committed(&of).await.map(drop),
        consumer.lag(&of).await.map(drop),
        consumer.assign(&some).await,
        consumer.shutdown().await,
    ];
    for result in results {
        let error = result.unwrap_err();
        assert!(matches!(error, ClientError::Consumer(ConsumerError::Panicked(_))), "{error}");
        assert_eq!((error.fault(), error.is_retryable()), (Fault::Library, false));
    }
    assert_eq!(consumer.assigned(), []);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_before_the_group_is_joined_is_no_failure_to_join() {
    // Nothing comes through to this service.
    let client = Client::connect(&Arc::new(Service::default()), Duration::from_secs(6), 1);
    client.kill();
    let discovery = Discovery::Coordinator(client);
    let session = Session::start(ClientConfig::zookeeper("127.0.0.1:1").unwrap(), discovery);
    let mut events = session.subscribe();
    let core = Core::new(Arc::clone(&session), ConsumerConfig::new("g").unwrap(), None).unwrap();
    let consumer = Consumer { core, _handle: SessionHandle::new(session) };
    let listener = |_: crate::fetch::ReceivedMessage| async { Action::Ack };
    consumer.subscribe(&"t".parse().unwrap(), 1024, listener).unwrap();
    let waits = consumer.clone();
    let start = tokio::spawn(async move { waits.complete_subscribe().await });
    sleep(Duration::from_millis(100)).await;
    start.abort();
    consumer.shutdown().await.unwrap();
    sleep(Duration::from_secs(60)).await;
    while let Ok(event) = events.try_recv() {
        assert!(!matches!(event, ClientEvent::JoinFailed { .. }), "{event:?}");
    }
}
