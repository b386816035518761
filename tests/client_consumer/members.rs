//! Groups of several members, and what the rebalance listener is told (design D15).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metaq::client::{BoxFuture, Consumer, MessageSessionFactory, RebalanceListener, ReceivedMessage};
use metaq::id::TopicPartition;
use metaq::protocol::Status;
use metaq::rebalance::ConsistentHashStrategy;
use metaq::zk::{Coordinator as _, NodeKind};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::common::scripted::{JAVA, ScriptedBroker};
use crate::common::{DEADLINE, eventually};
use crate::rig::{Record, Rig, config, consume, t, text_of, texts, until};

/// What was told of which partitions.
type Calls = Vec<(&'static str, Vec<TopicPartition>)>;

/// Notes what a rebalance listener is told.
#[derive(Debug, Clone, Default)]
struct Told(Arc<Mutex<Calls>>);

impl Told {
    fn note(&self, what: &'static str, partitions: &[TopicPartition]) {
        let mut partitions = partitions.to_vec();
        partitions.sort();
        self.0.lock().unwrap().push((what, partitions));
    }

    /// All calls, neighbours of the same kind taken together.
    fn calls(&self) -> Vec<(&'static str, BTreeSet<TopicPartition>)> {
        let mut calls: Vec<(&'static str, BTreeSet<TopicPartition>)> = Vec::new();
        for (what, partitions) in self.0.lock().unwrap().iter() {
            match calls.last_mut() {
                Some((last, all)) if last == what => all.extend(partitions.iter().cloned()),
                _ => calls.push((what, partitions.iter().cloned().collect())),
            }
        }
        calls
    }
}

impl RebalanceListener for Told {
    fn assigned(&self, partitions: &[TopicPartition]) {
        self.note("assigned", partitions);
    }

    fn revoked<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.note("revoked", partitions) })
    }

    fn lost(&self, partitions: &[TopicPartition]) {
        self.note("lost", partitions);
    }
}

fn set(partitions: impl IntoIterator<Item = i32>) -> BTreeSet<TopicPartition> {
    partitions.into_iter().map(t).collect()
}

async fn settle(members: &[(&Consumer, &[i32])]) {
    eventually("the plan is carried out", async || {
        for (member, partitions) in members {
            let owned = member.assigned();
            if owned.iter().cloned().collect::<BTreeSet<_>>() != set(partitions.iter().copied()) {
                return Err(format!("{} owns {owned:?}", member.consumer_id()));
            }
        }
        Ok(())
    })
    .await;
}

/// Two factories, as two processes would be.
async fn another(rig: &Rig) -> MessageSessionFactory {
    rig.broker.factory().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_share_the_partitions_and_are_told_what_comes_and_goes() {
    let rig = Rig::start(4).await;
    let other = another(&rig).await;
    let (told_a, told_b) = (Told::default(), Told::default());
    let a = config("g").consumer_id("a").rebalance_listener(told_a.clone());
    let a = rig.consume(a, Record::default().listener()).await;
    settle(&[(&a, &[0, 1, 2, 3])]).await;
    let b = config("g").consumer_id("b").rebalance_listener(told_b.clone());
    let b = consume(&other, b, Record::default().listener()).await;
    settle(&[(&a, &[0, 1]), (&b, &[2, 3])]).await;
    assert_eq!(told_a.calls(), [("assigned", set(0..4)), ("revoked", set(2..4))]);
    let owners = rig.tree.owners("g").await;
    let expected = [("0-0", "g_a"), ("0-1", "g_a"), ("0-2", "g_b"), ("0-3", "g_b")];
    assert_eq!(owners.iter().map(|(of, by)| (of.as_str(), by.as_str())).collect::<Vec<_>>(), expected);
    a.shutdown().await.unwrap();
    settle(&[(&b, &[0, 1, 2, 3])]).await;
    b.shutdown().await.unwrap();
    assert_eq!(told_a.calls(), [("assigned", set(0..4)), ("revoked", set(0..4))]);
    assert_eq!(told_b.calls(), [("assigned", set(0..4)), ("revoked", set(0..4))]);
    rig.tree.wait_until_empty("g").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hand_overs_in_good_order_repeat_nothing_and_lose_nothing() {
    let rig = Rig::start(4).await;
    let record = Record::default();
    let quiet = || config("g").duplicate_suppression(None);
    let mut sent = 0;
    let mut members: Vec<(MessageSessionFactory, Consumer)> = Vec::new();
    // Members come and go, the first to come is the first to go, while messages come all the time.
    for round in 0..6 {
        let factory = another(&rig).await;
        let consumer = consume(&factory, quiet(), record.listener()).await;
        members.push((factory, consumer));
        if round % 2 == 1 {
            let (_factory, first) = members.remove(0);
            first.shutdown().await.unwrap();
        }
        for partition in 0..4 {
            rig.send(partition, (0..20).map(|number| format!("{partition}.{}", round * 20 + number))).await;
            sent += 20;
        }
    }
    record.wait(sent).await;
    for (factory, _) in members {
        factory.shutdown().await.unwrap();
    }
    for partition in 0..4 {
        let expected: Vec<_> = (0..120).map(|number| format!("{partition}.{number}")).collect();
        assert_eq!(record.texts_of(partition), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_does_not_end_is_cancelled_and_its_message_comes_to_the_other() {
    let rig = Rig::start(2).await;
    let (started, blocked) = (Record::default(), Arc::new(Semaphore::new(0)));
    let listener = {
        let (started, blocked) = (started.clone(), Arc::clone(&blocked));
        move |message: ReceivedMessage| {
            let (started, blocked) = (started.clone(), Arc::clone(&blocked));
            async move {
                started.note(&message);
                if text_of(&message) == "blocks" {
                    let _never = blocked.acquire().await;
                }
            }
        }
    };
    let told = Told::default();
    let settings = config("g").consumer_id("a").drain_timeout(Duration::from_millis(200));
    let settings = settings.rebalance_listener(told.clone()).duplicate_suppression(None);
    let a = rig.consume(settings, listener).await;
    rig.send(0, ["free"]).await;
    rig.send(1, ["before", "blocks"]).await;
    started.wait_for("blocks").await;
    let other = another(&rig).await;
    let record = Record::default();
    let b = consume(&other, config("g").consumer_id("b").duplicate_suppression(None), record.listener()).await;
    record.wait(1).await;
    rig.send(1, ["behind"]).await;
    record.wait(2).await;
    // What the first had handled of the same batch does not come again.
    assert_eq!(record.texts(), ["blocks", "behind"]);
    settle(&[(&a, &[0]), (&b, &[1])]).await;
    assert_eq!(told.calls(), [("assigned", set(0..2)), ("revoked", set([1]))]);
    blocked.close();
    a.shutdown().await.unwrap();
    b.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_with_a_strategy_of_their_own_follow_it() {
    let rig = Rig::start(10).await;
    // Case C2 of the worked tables, for the members g_a and g_b.
    let a = config("g").consumer_id("a").load_balance_strategy(ConsistentHashStrategy);
    let a = rig.consume(a, Record::default().listener()).await;
    let other = another(&rig).await;
    let b = config("g").consumer_id("b").load_balance_strategy(ConsistentHashStrategy);
    let b = consume(&other, b, Record::default().listener()).await;
    settle(&[(&a, &[1, 2, 3, 5, 6]), (&b, &[0, 4, 7, 8, 9])]).await;
    b.shutdown().await.unwrap();
    settle(&[(&a, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9])]).await;
    a.shutdown().await.unwrap();
}

/// Panics whatever it is told.
struct Panics;

impl RebalanceListener for Panics {
    fn assigned(&self, _: &[TopicPartition]) {
        panic!("assigned");
    }

    fn revoked<'a>(&'a self, _: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        panic!("revoked");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebalance_listener_that_panics_stops_no_rebalance() {
    let rig = Rig::start(2).await;
    let record = Record::default();
    let a = rig.consume(config("g").consumer_id("a").rebalance_listener(Panics), record.listener()).await;
    rig.send(1, texts("m", 3)).await;
    record.wait(3).await;
    let other = another(&rig).await;
    let b = consume(&other, config("g").consumer_id("b"), record.listener()).await;
    settle(&[(&a, &[0]), (&b, &[1])]).await;
    rig.send(1, ["new"]).await;
    record.wait_for("new").await;
    a.shutdown().await.unwrap();
    b.shutdown().await.unwrap();
    rig.tree.wait_until_empty("g").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_dies_loses_its_partitions_to_the_others_and_what_was_not_committed_comes_again() {
    let rig = Rig::start(2).await;
    rig.send(1, texts("m", 3)).await;
    let other = another(&rig).await;
    let first = Record::default();
    let a = rig.consume(config("g").consumer_id("a").duplicate_suppression(None), first.listener()).await;
    settle(&[(&a, &[0, 1])]).await;
    first.wait(3).await;
    let told = Told::default();
    let settings = config("g").consumer_id("b").rebalance_listener(told.clone()).duplicate_suppression(None);
    let second = Record::default();
    let b = consume(&other, settings, second.listener()).await;
    settle(&[(&a, &[0]), (&b, &[1])]).await;
    rig.send(1, ["new"]).await;
    second.wait(1).await;
    drop((b, other));
    first.wait(4).await;
    // The release had committed the first three; the one behind was handled and not committed.
    assert_eq!((first.texts()[3].as_str(), second.texts()), ("new", vec!["new".to_owned()]));
    until("told of the loss", || told.calls() == [("assigned", set([1])), ("lost", set([1]))]).await;
    settle(&[(&a, &[0, 1])]).await;
    a.shutdown().await.unwrap();
}

/// Waits in `revoked` for whatever it was given.
struct Waits(Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>);

impl RebalanceListener for Waits {
    fn revoked<'a>(&'a self, _: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        (self.0)()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebalance_listener_that_does_not_return_holds_nothing_up_for_ever() {
    let rig = Rig::start(1).await;
    let itself: Arc<Mutex<Option<Consumer>>> = Arc::default();
    let never: Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync> = Box::new(|| Box::pin(std::future::pending()));
    let for_itself: Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync> = Box::new({
        let itself = Arc::clone(&itself);
        move || {
            let consumer = itself.lock().unwrap().clone();
            Box::pin(async move {
                if let Some(consumer) = consumer {
                    let _ = consumer.shutdown().await;
                }
            })
        }
    });
    for waits in [never, for_itself] {
        let settings = config("g").drain_timeout(Duration::from_millis(200)).rebalance_listener(Waits(waits));
        let consumer = rig.consume(settings, Record::default().listener()).await;
        settle(&[(&consumer, &[0])]).await;
        *itself.lock().unwrap() = Some(consumer.clone());
        timeout(DEADLINE, consumer.shutdown()).await.expect("held up").unwrap();
        assert!(rig.tree.members("g").await.is_empty() && rig.tree.owners("g").await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_moves_is_followed_while_its_old_address_still_answers() {
    let rig = Rig::start(1).await;
    let (mut old, mut new) = (ScriptedBroker::start(JAVA).await, ScriptedBroker::start(JAVA).await);
    let tree = rig.broker.zookeeper().await;
    let (master, offer) = ("/meta/brokers/ids/9/master", "/meta/brokers/topics-sub/t/9-m");
    let register = async |broker: &ScriptedBroker| {
        for (path, data) in
            [(master, format!("meta://{}", broker.address())), (offer, r#"{"numParts":1,"broker":"9-m"}"#.to_owned())]
        {
            tree.create(path, data.as_bytes(), NodeKind::Persistent).await.unwrap();
        }
    };
    register(&old).await;
    let consumer = rig.consume(config("g"), Record::default().listener()).await;
    old.next().await.answer(Status::NOT_FOUND, "nothing yet");
    for path in [master, offer] {
        tree.delete(path, None).await.unwrap();
    }
    register(&new).await;
    let followed = async {
        loop {
            tokio::select! {
                asked = new.next() => break asked,
                asked = old.next() => asked.answer(Status::NOT_FOUND, "nothing yet"),
            }
        }
    };
    let asked = timeout(DEADLINE, followed).await.expect("it is asked at the old address for ever");
    asked.answer(Status::NOT_FOUND, "nothing yet");
    consumer.shutdown().await.unwrap();
}
