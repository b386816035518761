//! What no client can bring about by itself: partitions that the operator closed, a broker that stops, disks that fail.

use std::sync::Arc;

use bytes::BytesMut;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Processor;
use crate::broker::batch::Batch;
use crate::broker::connection::{ConnectionLimits, serve};
use crate::broker::identity::Identity;
use crate::broker::outbound::{AnswerSender, Answers};
use crate::broker::reactor::{InFlight, Reactor};
use crate::broker::topics::{Topics, settings_of, store_settings};
use crate::config::{Environment, ServerConfig};
use crate::id::{BrokerId, BrokerUrl, Offset, PartitionIndex, TopicName};
use crate::message::checksum;
use crate::protocol::{Command, Decoder, Limits};
use crate::store::{AppendGroup, OsFileSystem, Store, StoreOptions};

struct Fixture {
    processor: Arc<Processor>,
    reactor: Arc<Reactor>,
    store: Arc<Store>,
    topics: Arc<Topics>,
    _dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ini = format!(
            "[system]\nbrokerId=0\nnumPartitions=1\nunflushThreshold=0\nunflushInterval=1\nmaxSegmentSize=1000\n\
             maxTransferSize=1000\ndataPath={}\n[zookeeper]\nzk.zkEnable=false\n\
             [topic=test]\nnumPartitions=3\n[topic=w*]\n",
            dir.path().join("data").display()
        );
        let config = Arc::new(ServerConfig::parse(ini.as_bytes(), None, &Environment::detect()).unwrap());
        let settings = Arc::clone(&config);
        let options = StoreOptions {
            data_path: config.system.data_path.clone(),
            topic_data_paths: Vec::new(),
            data_log_path: config.system.data_log_path.clone(),
            broker_id: config.system.broker_id,
            max_segment_size: 1000,
            max_transfer_size: 1000,
            free_space_warning_bytes: 0,
            commit_log_file_bytes: 1 << 20,
            commit_log_files: 4,
            topic_settings: Arc::new(move |_| store_settings(settings.topics.defaults())),
        };
        let store = Arc::new(Store::open(options, Arc::new(OsFileSystem)).unwrap());
        let identity = Identity { id: BrokerId::new(0).unwrap(), url: BrokerUrl::new("127.0.0.1", 18123) };
        let topics = Arc::new(Topics::new(Arc::clone(&config), &identity, &store));
        let processor = Arc::new(Processor::new(identity, Arc::clone(&topics), Arc::clone(&store)));
        let reactor = Reactor::start(Arc::clone(&processor));
        Self { processor, reactor, store, topics, _dir: dir }
    }

    /// The queue of a connection's answers.
    fn answers(&self) -> (AnswerSender, mpsc::UnboundedReceiver<Answers>) {
        AnswerSender::new(Arc::new(self.processor.unsent().join()))
    }

    fn close_partitions(&self, start: i32, end: i32) {
        self.store.close_partitions(&TopicName::new("test").unwrap(), start, end).unwrap();
    }

    /// The answer to one command, also when it comes from the committer.
    async fn ask(&self, command: &str) -> String {
        let request = Decoder::new(Limits::default()).decode(&mut BytesMut::from(command)).unwrap();
        let Some(Command::Request(request)) = request else { panic!("a whole request: {command}") };
        let mut batch = Batch::default();
        self.processor.process(request, &mut batch);
        if batch.puts.is_empty() {
            return String::from_utf8_lossy(batch.answers.buffer()).into_owned();
        }
        let (answers, mut queue) = self.answers();
        self.reactor.submit(batch.puts, InFlight { answers, permit: None, room: None, read_at: Instant::now() });
        String::from_utf8_lossy(queue.recv().await.unwrap().buffer()).into_owned()
    }
}

#[tokio::test]
async fn closed_partitions_refuse_put_and_get_but_not_offset_queries() {
    let broker = Fixture::new();
    assert!(broker.ask("put test 0 5 0 -1 1\r\nhello").await.starts_with("result 200 "));
    broker.close_partitions(0, 0);
    assert_eq!(
        broker.ask("put test 0 5 0 -1 1\r\nhello").await,
        "result 403 114 1\r\nPut message to [broker 'meta://127.0.0.1:18123'] [partition 'test-0'] failed.\
         Detail:partition[0-0] has been closed"
    );
    assert_eq!(broker.ask("get test g 0 0 100 2\r\n").await, "result 403 30 2\r\nPartition[0-0] has been closed");
    assert_eq!(broker.ask("offset test g 0 0 3\r\n").await, "result 200 1 3\r\n0");
    assert!(broker.ask("stats  1\r\n").await.contains("\r\nput_failed 0\r\n"), "a closed partition is no failure");
    broker.store.open_partitions("test");
    assert!(broker.ask("put test 0 5 0 -1 1\r\nhello").await.ends_with(" 0 25"));
}

#[tokio::test]
async fn the_broker_chooses_among_open_partitions() {
    let broker = Fixture::new();
    broker.close_partitions(0, 1);
    for _ in 0..50 {
        let answer = broker.ask("put test -1 1 0 -1 1\r\nx").await;
        assert_eq!(answer.split(' ').nth(4), Some("2"), "{answer}");
    }
    broker.close_partitions(2, 2);
    assert_eq!(
        broker.ask("put test -1 1 0 -1 1\r\nx").await,
        "result 403 116 1\r\nPut message to [broker 'meta://127.0.0.1:18123'] [partition 'test--1'] failed.\
         Detail:partition[0--1] has been closed"
    );
}

#[tokio::test]
async fn a_stopping_broker_answers_503_to_all_that_touches_messages() {
    let broker = Fixture::new();
    broker.processor.stop_serving();
    for command in ["put test 0 1 0 -1 44\r\nx", "get test g 0 0 30 44\r\n", "offset test g 0 0 44\r\n"] {
        assert_eq!(broker.ask(command).await, "result 503 15 44\r\n线程池繁忙");
    }
    assert!(broker.ask("version 44\r\n").await.starts_with("result 200 "));
}

#[tokio::test]
async fn puts_that_reach_a_closed_store_are_answered_503() {
    let broker = Fixture::new();
    assert!(broker.ask("put test 0 1 0 -1 1\r\nx").await.starts_with("result 200 "));
    broker.store.close().unwrap();
    assert_eq!(broker.ask("put test 0 1 0 -1 44\r\nx").await, "result 503 15 44\r\n线程池繁忙");
}

#[tokio::test]
async fn answers_to_earlier_puts_come_before_those_of_one_that_is_stored_at_once() {
    let broker = Fixture::new();
    let settings = store_settings(settings_of(&broker.topics.config(), "test"));
    let topic = TopicName::new("test").unwrap();
    let log = broker.store.get_or_create(&topic, PartitionIndex::new(0), &settings).unwrap();
    let (answers, mut queue) = broker.answers();
    let submit = |messages: u32, opaque| {
        let mut group = AppendGroup::default();
        (0..messages).for_each(|_| group.push(&log, 0, checksum(b"x"), b"x", opaque));
        broker
            .reactor
            .submit(group, InFlight { answers: answers.clone(), permit: None, room: None, read_at: Instant::now() });
    };
    submit(100, 1);
    tokio::task::yield_now().await;
    // Until the committers are done with them; this thread does not come to deliver the answers.
    let deadline = std::time::Instant::now() + DEADLINE;
    while log.max_offset() == Offset::ZERO || !broker.store.committer().commit_now(&mut Vec::new()) {
        assert!(std::time::Instant::now() < deadline);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    submit(1, 2);
    for (count, line) in [(100, " 1\r\n"), (1, " 2\r\n")] {
        let mut group = queue.recv().await.unwrap();
        let text = String::from_utf8_lossy(group.buffer()).into_owned();
        assert_eq!(text.matches(line).count(), count, "{text}");
    }
}

#[tokio::test]
async fn a_put_that_the_disk_refuses_says_why_and_counts_as_failed() {
    let broker = Fixture::new();
    let data = broker.store.get_or_create(
        &TopicName::new("test").unwrap(),
        PartitionIndex::new(0),
        &store_settings(settings_of(&broker.topics.config(), "test")),
    );
    // A file where the directory should be.
    std::fs::write(data.unwrap().dir(), b"").unwrap();
    let answer = broker.ask("put test 0 1 0 -1 7\r\nx").await;
    assert!(answer.starts_with("result 500 ") && answer.contains("failed.Detail:Path is not a directory:"), "{answer}");
    assert!(broker.ask("stats  1\r\n").await.contains("\r\nput_failed 1\r\n"));
}

#[tokio::test]
async fn zookeeper_is_to_show_configured_topics_and_those_that_are_born() {
    let broker = Fixture::new();
    let mut desired = broker.topics.desired();
    let names = |desired: &crate::zk::DesiredState| desired.topics.keys().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(&desired.borrow_and_update()), ["test", "w*"]);
    broker.ask("put test 0 1 0 -1 1\r\nx").await;
    assert!(!desired.has_changed().unwrap(), "nothing new");
    broker.ask("put wide 0 1 0 -1 1\r\nx").await;
    assert_eq!(names(&desired.borrow_and_update()), ["test", "w*", "wide"]);
    broker.ask("put other 0 1 0 -1 1\r\nx").await;
    assert!(!desired.has_changed().unwrap(), "a refused topic is not shown");
}

/// Serves one client over the loopback interface; its end of the connection.
async fn serve_one(broker: &Fixture, stop: &CancellationToken) -> Raw {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, peer) = listener.accept().await.unwrap();
    let limits = ConnectionLimits {
        frames: Limits::default(),
        in_flight_bytes: 1 << 20,
        idle_timeout: std::time::Duration::ZERO,
    };
    tokio::spawn(serve(stream, peer, Arc::clone(&broker.reactor), limits, stop.clone()));
    Raw(client)
}

struct Raw(TcpStream);

impl Raw {
    async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    async fn expect(&mut self, answer: &str) {
        let mut got = vec![0; answer.len()];
        let read = tokio::time::timeout(DEADLINE, self.0.read_exact(&mut got)).await;
        read.expect("an answer in time").unwrap();
        assert_eq!(String::from_utf8(got).unwrap(), answer);
    }
}

/// Nothing here takes that long.
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(20);

async fn until_waiting(broker: &Fixture, count: usize) {
    let log = broker.store.get("test", PartitionIndex::new(0)).unwrap();
    let deadline = Instant::now() + DEADLINE;
    while log.waiter_count() != count {
        assert!(Instant::now() < deadline, "{} wait, not {count}", log.waiter_count());
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_get_that_waits_is_refused_when_its_partition_is_closed() {
    let (broker, stop) = (Fixture::new(), CancellationToken::new());
    broker.ask("put test 0 5 0 -1 1\r\nhello").await;
    let mut client = serve_one(&broker, &stop).await;
    client.send("get test g 0 25 100 2 wait=30000\r\n").await;
    until_waiting(&broker, 1).await;
    // Another one's closing leaves it waiting.
    broker.close_partitions(1, 2);
    client.send("version 3\r\n").await;
    let version = crate::broker::identity::VERSION;
    client.expect(&format!("result 200 {} 3\r\n{version}", version.len())).await;
    broker.close_partitions(0, 0);
    client.expect("result 403 30 2\r\nPartition[0-0] has been closed").await;
    until_waiting(&broker, 0).await;
}

#[tokio::test]
async fn a_connection_that_ends_leaves_no_get_waiting() {
    let (broker, stop) = (Fixture::new(), CancellationToken::new());
    broker.ask("put test 0 5 0 -1 1\r\nhello").await;
    let (mut leaving, mut reset) = (serve_one(&broker, &stop).await, serve_one(&broker, &stop).await);
    for client in [&mut leaving, &mut reset] {
        client.send(&"get test g 0 25 100 2 wait=30000\r\n".repeat(10)).await;
    }
    until_waiting(&broker, 20).await;
    drop(leaving);
    until_waiting(&broker, 10).await;
    reset.0.set_zero_linger().unwrap();
    drop(reset);
    until_waiting(&broker, 0).await;
}
