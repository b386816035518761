//! A broker in local mode with topic `t`, a client of it, and listeners that write down what they are given.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metaq::client::{
    Action, Consumer, ConsumerConfig, FixedSelector, Message, MessageListener, MessageSessionFactory, ProducerConfig,
    ReceivedMessage, SendResult,
};
use metaq::id::{GroupName, Offset, Partition, TopicName, TopicPartition};
use metaq::zk::format::StoredOffset;
use metaq::zk::{Coordinator as _, CoordinatorError, Root, ZooKeeper};
use tokio::sync::Semaphore;

use crate::common::eventually;
use crate::common::local::LocalBroker;

/// What consumers ask for at a time where a test does not care.
pub(crate) const MAX_SIZE: i32 = 64 << 10;

/// Longer than any test: only what a test asks for is committed.
pub(crate) const NEVER: Duration = Duration::from_secs(3600);

pub(crate) struct Rig {
    pub(crate) broker: LocalBroker,
    pub(crate) factory: MessageSessionFactory,
    pub(crate) tree: Tree,
}

impl Rig {
    /// Topic `t` with so many partitions.
    pub(crate) async fn start(partitions: u32) -> Self {
        Self::of(LocalBroker::start(&[("t", partitions)]).await).await
    }

    pub(crate) async fn of(broker: LocalBroker) -> Self {
        let factory = broker.factory().await;
        let tree = Tree(broker.zookeeper().await);
        Self { broker, factory, tree }
    }

    /// A consumer of the rig's factory.
    pub(crate) fn consumer(&self, config: ConsumerConfig) -> Consumer {
        self.factory.create_consumer(config).unwrap()
    }

    /// A consumer at work on topic `t`.
    pub(crate) async fn consume(&self, config: ConsumerConfig, listener: impl MessageListener) -> Consumer {
        consume(&self.factory, config, listener).await
    }

    /// Sends texts to a partition of topic `t`, one after the other.
    pub(crate) async fn send<T: Into<String>>(
        &self,
        partition: i32,
        texts: impl IntoIterator<Item = T>,
    ) -> Vec<SendResult> {
        let messages = texts.into_iter().map(|text| Message::new(topic("t"), text.into()));
        send(&self.factory, partition, messages).await
    }

    /// Waits until a consumer owns so many partitions.
    pub(crate) async fn owns(&self, consumer: &Consumer, count: usize) {
        eventually("the plan is carried out", async || match consumer.assigned().len() {
            owned if owned == count => Ok(()),
            owned => Err(format!("{owned} of {count} partitions")),
        })
        .await;
    }
}

pub(crate) async fn consume(
    factory: &MessageSessionFactory,
    config: ConsumerConfig,
    listener: impl MessageListener,
) -> Consumer {
    let consumer = factory.create_consumer(config).unwrap();
    consumer.subscribe(&topic("t"), MAX_SIZE, listener).unwrap();
    consumer.complete_subscribe().await.unwrap();
    consumer
}

pub(crate) async fn send(
    factory: &MessageSessionFactory,
    partition: i32,
    messages: impl IntoIterator<Item = Message>,
) -> Vec<SendResult> {
    let selector = FixedSelector(t(partition).partition);
    let config = ProducerConfig::default().selector(selector).max_message_bytes(None);
    let producer = factory.create_producer_with(config).unwrap();
    let mut handles = Vec::new();
    for message in messages {
        producer.publish(message.topic()).await.unwrap();
        handles.push(producer.start_send(message).await.unwrap());
    }
    let mut results = Vec::new();
    for handle in handles {
        results.push(handle.await.unwrap());
    }
    producer.shutdown().await.unwrap();
    results
}

/// Settings that make pauses short and commit only when asked or at the end.
pub(crate) fn config(group: &str) -> ConsumerConfig {
    ConsumerConfig::new(group)
        .unwrap()
        .max_delay_fetch_time(Duration::from_millis(50))
        .commit_offset_period(NEVER)
        .fetch_runner_count(4)
}

pub(crate) fn topic(name: &str) -> TopicName {
    TopicName::new(name.to_owned()).unwrap()
}

pub(crate) fn group(name: &str) -> GroupName {
    GroupName::new(name.to_owned()).unwrap()
}

/// A partition of topic `t`.
pub(crate) fn t(index: i32) -> TopicPartition {
    in_topic("t", index)
}

pub(crate) fn in_topic(name: &str, index: i32) -> TopicPartition {
    let partition: Partition = format!("0-{index}").parse().unwrap();
    TopicPartition { topic: topic(name), partition }
}

/// `prefix0`, `prefix1` and so on.
pub(crate) fn texts(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number}")).collect()
}

pub(crate) fn text_of(message: &ReceivedMessage) -> String {
    String::from_utf8(message.payload.to_vec()).unwrap()
}

/// What listeners were given, in the order of the calls.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record(Arc<Mutex<Vec<ReceivedMessage>>>);

impl Record {
    pub(crate) fn note(&self, message: &ReceivedMessage) {
        self.0.lock().unwrap().push(message.clone());
    }

    /// A listener that notes and acknowledges.
    pub(crate) fn listener(&self) -> impl MessageListener + use<> {
        self.answering(|_| Action::Ack)
    }

    /// A listener that notes and answers as it is told.
    pub(crate) fn answering<F>(&self, answer: F) -> impl MessageListener + use<F>
    where
        F: Fn(&ReceivedMessage) -> Action + Send + Sync + 'static,
    {
        let record = self.clone();
        let answer = Arc::new(answer);
        move |message: ReceivedMessage| {
            let (record, answer) = (record.clone(), Arc::clone(&answer));
            async move {
                record.note(&message);
                answer(&message)
            }
        }
    }

    /// A listener that notes, and acknowledges each message when the gate has a permit for it.
    pub(crate) fn gated(&self, gate: &Arc<Semaphore>) -> impl MessageListener + use<> {
        let (record, gate) = (self.clone(), Arc::clone(gate));
        move |message: ReceivedMessage| {
            let (record, gate) = (record.clone(), Arc::clone(&gate));
            async move {
                record.note(&message);
                gate.acquire().await.unwrap().forget();
            }
        }
    }

    pub(crate) fn all(&self) -> Vec<ReceivedMessage> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(text_of).collect()
    }

    /// The texts of one partition.
    pub(crate) fn texts_of(&self, partition: i32) -> Vec<String> {
        let of = t(partition).partition;
        self.0.lock().unwrap().iter().filter(|message| message.from.partition == of).map(text_of).collect()
    }

    /// Waits for so many deliveries, and returns all there are.
    pub(crate) async fn wait(&self, count: usize) -> Vec<ReceivedMessage> {
        until(&format!("{count} deliveries"), || self.len() >= count).await;
        self.all()
    }

    /// Waits until a text was delivered.
    pub(crate) async fn wait_for(&self, text: &str) {
        until(text, || self.0.lock().unwrap().iter().any(|message| &message.payload[..] == text.as_bytes())).await;
    }
}

/// Waits until it is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    eventually(what, async || if is_so() { Ok(()) } else { Err("not yet".to_owned()) }).await;
}

/// How many are inside of something, and the most that ever were.
#[derive(Debug, Clone, Default)]
pub(crate) struct Crowd(Arc<(AtomicUsize, AtomicUsize)>);

impl Crowd {
    pub(crate) fn enter(&self) {
        let now = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(now, Ordering::SeqCst);
    }

    pub(crate) fn leave(&self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn now(&self) -> usize {
        self.0.0.load(Ordering::SeqCst)
    }

    pub(crate) fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

/// The nodes of consumers, seen from outside.
pub(crate) struct Tree(Arc<ZooKeeper>);

impl Tree {
    /// What is stored for a partition of topic `t`.
    pub(crate) async fn offset(&self, of_group: &str, partition: i32) -> Option<Offset> {
        let text = self.stored(of_group, partition).await?;
        Some(StoredOffset::parse(text.as_bytes()).unwrap().offset)
    }

    /// The same as it is written there.
    pub(crate) async fn stored(&self, of_group: &str, partition: i32) -> Option<String> {
        match self.0.get(&Root::default().offset(&group(of_group), &t(partition))).await {
            Ok(node) => Some(String::from_utf8(node.data).unwrap()),
            Err(CoordinatorError::NoNode(_)) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Who is in a group.
    pub(crate) async fn members(&self, of_group: &str) -> Vec<String> {
        self.children(&Root::default().members(&group(of_group))).await
    }

    /// Who owns which partition of topic `t`.
    pub(crate) async fn owners(&self, of_group: &str) -> BTreeMap<String, String> {
        let path = Root::default().owners(&group(of_group), &topic("t"));
        let mut owners = BTreeMap::new();
        for partition in self.children(&path).await {
            if let Ok(node) = self.0.get(&format!("{path}/{partition}")).await {
                owners.insert(partition, String::from_utf8(node.data).unwrap());
            }
        }
        owners
    }

    /// Names below `consumers`.
    pub(crate) async fn groups(&self) -> Vec<String> {
        self.children("/meta/consumers").await
    }

    async fn children(&self, path: &str) -> Vec<String> {
        match self.0.children(path).await {
            Ok(mut names) => {
                names.sort();
                names
            }
            Err(CoordinatorError::NoNode(_)) => Vec::new(),
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until nothing is left of the members of a group.
    pub(crate) async fn wait_until_empty(&self, of_group: &str) {
        eventually("the nodes are gone", async || {
            let (members, owners) = (self.members(of_group).await, self.owners(of_group).await);
            if members.is_empty() && owners.is_empty() { Ok(()) } else { Err(format!("{members:?} {owners:?}")) }
        })
        .await;
    }
}
