//! Brokers that do not answer, go away or refuse.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metaq::client::{
    ClientConfig, ClientError, ClientMetrics, Fault, MessageSessionFactory, NoAnswer, Outcome, ProducerConfig, Retries,
};
use metaq::id::{Partition, TopicName};
use metaq::protocol::Status;

use crate::common::process::Process;
use crate::common::scripted::{METAQ, ScriptedBroker};
use crate::rig::{direct_producer, message, soon};

/// Long enough that a silent broker loses its connection.
const SHORT: Duration = Duration::from_millis(1000);

#[tokio::test]
async fn a_message_without_an_answer_is_unknown_and_the_next_one_goes_over_a_new_connection() {
    let mut broker = ScriptedBroker::start(METAQ).await;
    let producer = direct_producer(broker.address(), ProducerConfig::default()).await;
    let error = producer.send_with_timeout(message("lost"), SHORT).await.unwrap_err();
    assert!(matches!(error, ClientError::Unknown(NoAnswer::SendTimeout { .. })), "{error}");
    assert!(error.to_string().starts_with("Send message timeout in 1000 mills: no answer from"), "{error}");
    assert_eq!((error.outcome(), error.fault()), (Outcome::Unknown, Fault::Network));
    let lost = broker.next().await;
    let sending = producer.start_send(message("next")).await.unwrap();
    let next = broker.next().await;
    assert_eq!((lost.connection, next.connection), (1, 2));
    next.stored(1, 0);
    soon("a result", sending).await.unwrap();
}

#[tokio::test]
async fn an_impatient_message_does_not_take_the_connection_from_the_others() {
    let mut broker = ScriptedBroker::start(METAQ).await;
    let producer = direct_producer(broker.address(), ProducerConfig::default()).await;
    let error = producer.send_with_timeout(message("lost"), Duration::from_millis(100)).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    let lost = broker.next().await;
    let sending = producer.start_send(message("next")).await.unwrap();
    let next = broker.next().await;
    assert_eq!((lost.connection, next.connection), (1, 1));
    next.stored(1, 0);
    soon("a result", sending).await.unwrap();
}

/// Otherwise a later message could be stored before one that the broker still has before it.
#[tokio::test]
async fn messages_change_to_another_connection_only_when_the_old_one_owes_no_answer() {
    let mut broker = ScriptedBroker::start(METAQ).await;
    let producer = direct_producer(broker.address(), ProducerConfig::default()).await;
    let silent = producer.start_send_with_timeout(message("a"), SHORT).await.unwrap();
    let slow = producer.start_send(message("b")).await.unwrap();
    let (_a, b) = (broker.next().await, broker.next().await);
    soon("a time-out", silent).await.unwrap_err();
    let third = producer.start_send(message("c")).await.unwrap();
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(!broker.is_asked(), "b may still be stored");
    b.stored(2, 30);
    assert_eq!(soon("a late answer", slow).await.unwrap().id.get(), 2);
    let c = broker.next().await;
    assert_eq!((c.text().as_str(), c.connection), ("c", 2));
    c.stored(3, 60);
    soon("a result", third).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_is_lost_leaves_the_outcome_unknown() {
    let mut broker = ScriptedBroker::start(METAQ).await;
    let producer = direct_producer(broker.address(), ProducerConfig::default()).await;
    let sending = producer.start_send(message("x")).await.unwrap();
    broker.next().await.close();
    let error = soon("an error", sending).await.unwrap_err();
    assert!(matches!(error, ClientError::Unknown(NoAnswer::Lost { .. })), "{error}");
}

#[tokio::test]
async fn a_broker_that_comes_back_gets_what_waited_for_it_in_its_order() {
    let mut broker = ScriptedBroker::start(METAQ).await;
    let address = broker.address();
    let producer = direct_producer(address, ProducerConfig::default().wait_for_broker(true)).await;
    let first = producer.start_send(message("first")).await.unwrap();
    let asked = broker.next().await;
    drop(broker);
    asked.close();
    soon("an error", first).await.unwrap_err();
    let mut waiting = Vec::new();
    for number in 0..20 {
        waiting.push(producer.start_send_with_timeout(message(&number.to_string()), Duration::MAX).await.unwrap());
    }
    tokio::time::sleep(SHORT).await;
    let mut broker = ScriptedBroker::on(address, METAQ).await;
    for (number, handle) in waiting.into_iter().enumerate() {
        let put = broker.next().await;
        assert_eq!(put.text(), number.to_string());
        put.stored(1, 0);
        soon("a result", handle).await.unwrap();
    }
}

#[tokio::test]
async fn without_waiting_a_broker_that_is_away_fails_messages_at_once() {
    let broker = ScriptedBroker::start(METAQ).await;
    let producer = direct_producer(broker.address(), ProducerConfig::default()).await;
    drop(broker);
    let failed = async {
        loop {
            match producer.send(message("x")).await {
                Err(error @ ClientError::Connect { .. }) => return error,
                // Until the loss of the connection is noticed.
                Err(ClientError::Unknown(_) | ClientError::NotSent { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(soon("a failure", failed).await.outcome(), Outcome::NotDone);
}

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicUsize,
    retried: AtomicUsize,
    failed: AtomicUsize,
    bytes: AtomicUsize,
    places: Mutex<Vec<Option<Partition>>>,
}

impl ClientMetrics for Counts {
    fn sent(&self, _: &TopicName, partition: Option<Partition>, bytes: usize, _: Duration) {
        self.sent.fetch_add(1, Ordering::SeqCst);
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
        self.places.lock().unwrap().push(partition);
    }

    fn send_failed(&self, _: &TopicName, _: &ClientError) {
        self.failed.fetch_add(1, Ordering::SeqCst);
    }

    fn send_retried(&self, _: &TopicName, _: &ClientError) {
        self.retried.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn only_what_was_asked_for_is_sent_once_more_and_everything_is_counted() {
    const CLOSED: Status = Status::FORBIDDEN;
    for (retries, status, attempts) in [
        (Retries::none(), CLOSED, 1),
        (Retries::of_unsent(3), CLOSED, 1),
        (Retries::of_unsent(3).and_refused(), CLOSED, 4),
        // A broker that failed inside may have stored it.
        (Retries::of_unsent(3).and_refused(), Status::ERROR, 1),
        (Retries::of_unsent(3).and_unknown(), Status::ERROR, 4),
        (Retries::of_unsent(3).and_refused().and_unknown(), Status::BAD_REQUEST, 1),
    ] {
        let mut broker = ScriptedBroker::start(METAQ).await;
        let counts = Arc::new(Counts::default());
        let config = ClientConfig::server(&broker.address().to_string()).unwrap().metrics(counts.clone());
        let factory = MessageSessionFactory::connect(config).await.unwrap();
        let producer = factory.create_producer_with(ProducerConfig::default().retries(retries)).unwrap();
        let sending = producer.start_send(message("again")).await.unwrap();
        for _ in 0..attempts {
            let put = broker.next().await;
            assert_eq!(put.text(), "again");
            put.answer(status, "no");
        }
        let error = soon("an error", sending).await.unwrap_err();
        assert!(matches!(error, ClientError::Refused { status: s, .. } if s == status), "{error}");
        assert!(!broker.is_asked());
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        assert_eq!((count(&counts.retried), count(&counts.failed), count(&counts.sent)), (attempts - 1, 1, 0));
        let sending = producer.start_send(message("good")).await.unwrap();
        broker.next().await.stored(1, 0);
        soon("a result", sending).await.unwrap();
        assert_eq!((count(&counts.sent), count(&counts.bytes)), (1, 4));
        assert_eq!(*counts.places.lock().unwrap(), [None]);
    }
}

#[tokio::test]
async fn no_attempt_begins_when_the_time_of_the_message_is_over() {
    let mut broker = ScriptedBroker::start(METAQ).await;
    let config = ProducerConfig::default().retries(Retries::of_unsent(1000).and_refused());
    let producer = direct_producer(broker.address(), config).await;
    let sending = producer.start_send_with_timeout(message("x"), Duration::from_millis(500)).await.unwrap();
    let refusing = async {
        loop {
            broker.next().await.answer(Status::FORBIDDEN, "closed");
        }
    };
    let error = tokio::select! {
        result = soon("an error", sending) => result.unwrap_err(),
        () = refusing => unreachable!(),
    };
    assert!(matches!(error, ClientError::Refused { status: Status::FORBIDDEN, .. }), "the last error: {error}");
}

/// The connection stays, the system takes bytes, and nobody answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_broker_leaves_the_outcome_unknown_and_serves_again_when_it_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let ini = dir.path().join("server.ini");
    let text = format!(
        "[system]\nbrokerId=0\nhostName=127.0.0.1\nserverPort=0\ndashboardHttpPort=0\nnumPartitions=1\n\
         unflushThreshold=0\nunflushInterval=10000\nmaxSegmentSize=1048576\nmaxTransferSize=1048576\ndataPath={}\n[zookeeper]\nzk.zkEnable=false\n\
         [metaq]\nbindAddress=127.0.0.1\n[topic=test]\n",
        dir.path().join("data").display()
    );
    std::fs::write(&ini, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_metaq"));
    command.args(["broker", "-f"]).arg(&ini);
    let (broker, address) = tokio::task::block_in_place(|| {
        let broker = Process::start("the broker", &mut command, None);
        let ready = broker.wait_for_line("READY ");
        let port = ready.rsplit(':').next().unwrap().trim().parse::<u16>().unwrap();
        (broker, std::net::SocketAddr::from(([127, 0, 0, 1], port)))
    });
    let producer = direct_producer(address, ProducerConfig::default().wait_for_broker(true)).await;
    producer.send(message("before")).await.unwrap();
    broker.signal("STOP");
    let mut frozen = Vec::new();
    for _ in 0..5 {
        frozen.push(producer.start_send_with_timeout(message("frozen"), SHORT).await.unwrap());
    }
    for handle in frozen {
        let error = soon("an error", handle).await.unwrap_err();
        assert!(error.to_string().starts_with("Send message timeout in 1000 mills"), "{error}");
        assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    }
    broker.signal("CONT");
    producer.send_with_timeout(message("after"), Duration::from_secs(30)).await.unwrap();
}
