//! Partitions chosen by hand.

use std::sync::Arc;
use std::time::Duration;

use metaq::client::{Consumer, SeekTo};
use metaq::fetch::{CommitError, OffsetCommit, OffsetStorage, StorageError};
use metaq::id::{GroupName, Offset, TopicPartition};
use metaq::zk::format::StoredOffset;

use crate::common::eventually;
use crate::rig::{MAX_SIZE, Record, Rig, config, in_topic, t, texts, topic, until};

fn subscribed(consumer: Consumer, record: &Record) -> Consumer {
    consumer.subscribe(&topic("t"), MAX_SIZE, record.listener()).unwrap();
    consumer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn assigned_partitions_are_read_without_any_node_and_beside_a_group_of_the_same_name() {
    let rig = Rig::start(2).await;
    for partition in 0..2 {
        rig.send(partition, texts("m", 3)).await;
    }
    let (by_hand, by_group) = (Record::default(), Record::default());
    let consumer = subscribed(rig.consumer(config("g")), &by_hand);
    consumer.assign(&[t(0)]).await.unwrap();
    by_hand.wait(3).await;
    assert_eq!(consumer.assigned(), [t(0)]);
    assert!(rig.tree.groups().await.is_empty());

    let other = rig.broker.factory().await;
    let member = crate::rig::consume(&other, config("g"), by_group.listener()).await;
    by_group.wait(6).await;
    consumer.shutdown().await.unwrap();
    rig.send(0, ["new"]).await;
    by_group.wait_for("new").await;
    assert_eq!(by_hand.len(), 3);
    assert_eq!(rig.tree.owners("g").await.len(), 2);
    member.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_assignment_replaces_the_first_and_what_stays_goes_on_untouched() {
    let rig = Rig::start(3).await;
    for partition in 0..3 {
        rig.send(partition, texts("m", 2)).await;
    }
    let record = Record::default();
    let consumer = subscribed(rig.consumer(config("g")), &record);
    consumer.assign(&[t(0), t(1)]).await.unwrap();
    record.wait(4).await;
    consumer.assign(&[t(1), t(2), t(2)]).await.unwrap();
    record.wait(6).await;
    assert_eq!(consumer.assigned(), [t(1), t(2)]);
    rig.send(0, ["unread"]).await;
    rig.send(1, ["read"]).await;
    record.wait_for("read").await;
    assert_eq!((record.texts_of(0).len(), record.texts_of(1).len()), (2, 3));
    // Without a storage a partition that comes back begins anew.
    consumer.assign(&[t(0)]).await.unwrap();
    record.wait_for("unread").await;
    assert_eq!(record.texts_of(0), ["m0", "m1", "m0", "m1", "unread"]);
    consumer.assign(&[]).await.unwrap();
    assert!(consumer.assigned().is_empty());
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn assignments_at_the_same_time_end_in_one_of_them() {
    let rig = Rig::start(4).await;
    let consumer = subscribed(rig.consumer(config("g")), &Record::default());
    consumer.assign(&[t(0)]).await.unwrap();
    for _ in 0..20 {
        let (first, second) = ([t(0), t(1)], [t(1), t(2), t(3)]);
        let (a, b) = tokio::join!(consumer.assign(&first), consumer.assign(&second));
        a.unwrap();
        b.unwrap();
        let assigned = consumer.assigned();
        assert!(assigned == first || assigned == second, "{assigned:?}");
    }
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dropped_assignment_was_giving_up_can_be_assigned_again() {
    let rig = Rig::start(2).await;
    rig.send(1, ["slow"]).await;
    let (record, gate) = (Record::default(), Arc::new(tokio::sync::Semaphore::new(0)));
    let listener = record.gated(&gate);
    let consumer = rig.consumer(config("g"));
    consumer.subscribe(&topic("t"), MAX_SIZE, listener).unwrap();
    consumer.assign(&[t(0), t(1)]).await.unwrap();
    record.wait_for("slow").await;
    {
        // It waits for the listener; polled once, it is dropped.
        let fewer = [t(0)];
        let mut dropped = std::pin::pin!(consumer.assign(&fewer));
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(dropped.as_mut().poll(cx))).await;
        assert!(polled.is_pending());
    }
    consumer.assign(&[t(0), t(1)]).await.unwrap();
    gate.add_permits(100);
    rig.send(1, ["again"]).await;
    record.wait_for("again").await;
    consumer.shutdown().await.unwrap();
}

/// Offsets in memory.
#[derive(Debug, Default)]
struct InMemory(std::sync::Mutex<std::collections::HashMap<TopicPartition, StoredOffset>>);

impl OffsetStorage for InMemory {
    fn load<'a>(
        &'a self,
        _: &'a GroupName,
        of: &'a TopicPartition,
    ) -> metaq::client::BoxFuture<'a, Result<Option<StoredOffset>, StorageError>> {
        Box::pin(async move { Ok(self.0.lock().unwrap().get(of).copied()) })
    }

    fn commit<'a>(
        &'a self,
        _: &'a GroupName,
        commits: &'a [OffsetCommit],
    ) -> metaq::client::BoxFuture<'a, Vec<Result<(), CommitError>>> {
        Box::pin(async move {
            let mut stored = self.0.lock().unwrap();
            commits.iter().map(|commit| _ = stored.insert(commit.of.clone(), commit.offset)).map(Ok).collect()
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_storage_of_its_own_it_goes_on_where_it_stopped() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 3)).await;
    let storage = Arc::new(InMemory::default());
    for expected in [texts("m", 3), vec!["new".to_owned()]] {
        let record = Record::default();
        let consumer = rig.factory.create_consumer_with(config("g"), storage.clone()).unwrap();
        let consumer = subscribed(consumer, &record);
        consumer.assign(&[t(0)]).await.unwrap();
        record.wait(expected.len()).await;
        consumer.shutdown().await.unwrap();
        assert_eq!(record.texts(), expected);
        rig.send(0, ["new"]).await;
    }
    assert_eq!(storage.0.lock().unwrap()[&t(0)].offset, Offset::new(66 + 23));
    assert!(rig.tree.groups().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_can_be_paused_moved_and_asked_like_a_member() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 3)).await;
    let record = Record::default();
    let consumer = subscribed(rig.consumer(config("g").commit_offset_period(Duration::from_millis(10))), &record);
    consumer.assign(&[t(0)]).await.unwrap();
    record.wait(3).await;
    consumer.seek(&t(0), SeekTo::Earliest).await.unwrap();
    record.wait(6).await;
    eventually("the position", async || match consumer.position(&t(0)).await.unwrap() {
        Some(position) if position == Offset::new(66) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert_eq!(consumer.lag(&t(0)).await.unwrap(), Some(0));
    consumer.commit().await.unwrap();
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_and_assignments_by_hand_are_not_mixed_in_one_consumer() {
    let rig = Rig::start(1).await;
    let consumer = rig.consumer(config("g"));
    let error = consumer.assign(&[t(0)]).await.unwrap_err().to_string();
    assert!(error.starts_with("the consumer subscribes to nothing"), "{error}");
    let consumer = subscribed(consumer, &Record::default());
    let error = consumer.assign(&[in_topic("u", 0)]).await.unwrap_err().to_string();
    assert!(error.starts_with("topic u has no listener"), "{error}");
    // The refusal leaves the consumer as it was.
    consumer.assign(&[t(0)]).await.unwrap();
    let error = consumer.assign(&[t(0), in_topic("u", 0)]).await.unwrap_err().to_string();
    assert!(error.starts_with("topic u has no listener"), "{error}");
    assert_eq!(consumer.assigned(), [t(0)]);
    let error = consumer.complete_subscribe().await.unwrap_err().to_string();
    assert!(error.starts_with("Consumer has been already registed"), "{error}");

    let member = rig.consume(config("h"), Record::default().listener()).await;
    let error = member.assign(&[t(0)]).await.unwrap_err().to_string();
    assert!(error.starts_with("the partitions of this consumer come from its group"), "{error}");
    until("it still works", || !member.assigned().is_empty()).await;
}
