//! Stopping, moving and asking while a consumer works.

use std::sync::Arc;

use metaq::client::{Action, Consumer, ReceivedMessage, SeekTo};
use metaq::id::Offset;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::common::{DEADLINE, eventually};
use crate::rig::{MAX_SIZE, Record, Rig, config, t, texts, topic};

async fn reaches(consumer: &Consumer, partition: i32, offset: i64) {
    eventually("the position", async || match consumer.position(&t(partition)).await.unwrap() {
        Some(position) if position == Offset::new(offset) => Ok(()),
        other => Err(format!("{other:?}, not {offset}")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_partition_stays_owned_and_waits_and_goes_on_without_losing_anything() {
    let rig = Rig::start(2).await;
    let record = Record::default();
    let consumer = rig.consume(config("g"), record.listener()).await;
    rig.owns(&consumer, 2).await;
    consumer.pause(&[t(0)]).await.unwrap();
    rig.send(0, texts("paused", 3)).await;
    rig.send(1, texts("other", 3)).await;
    record.wait(3).await;
    // A second one of the other partition shows that there was time.
    rig.send(1, ["more"]).await;
    record.wait_for("more").await;
    assert!(record.texts_of(0).is_empty());
    assert_eq!(rig.tree.owners("g").await.len(), 2);
    consumer.resume(&[t(0)]).await.unwrap();
    record.wait_for("paused2").await;
    assert_eq!(record.texts_of(0), texts("paused", 3));
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seeking_goes_to_an_offset_to_the_oldest_and_to_the_end() {
    let rig = Rig::start(1).await;
    let sent = rig.send(0, texts("m", 4)).await;
    let record = Record::default();
    let consumer = rig.consume(config("g"), record.listener()).await;
    record.wait(4).await;
    consumer.seek(&t(0), SeekTo::Offset(sent[2].offset)).await.unwrap();
    record.wait(6).await;
    consumer.seek(&t(0), SeekTo::Earliest).await.unwrap();
    record.wait(10).await;
    assert_eq!(record.texts(), ["m0", "m1", "m2", "m3", "m2", "m3", "m0", "m1", "m2", "m3"]);

    consumer.pause(&[t(0)]).await.unwrap();
    rig.send(0, ["skipped"]).await;
    consumer.seek(&t(0), SeekTo::Latest).await.unwrap();
    consumer.resume(&[t(0)]).await.unwrap();
    reaches(&consumer, 0, 88 + 27).await;
    rig.send(0, ["new"]).await;
    record.wait(11).await;
    assert_eq!(record.texts()[10], "new");
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_seek_back_is_stored_even_if_nothing_is_handled_afterwards() {
    let rig = Rig::start(1).await;
    let sent = rig.send(0, texts("m", 4)).await;
    let record = Record::default();
    let consumer = rig.consume(config("g"), record.listener()).await;
    record.wait(4).await;
    reaches(&consumer, 0, 88).await;
    consumer.pause(&[t(0)]).await.unwrap();
    consumer.seek(&t(0), SeekTo::Offset(sent[1].offset)).await.unwrap();
    assert_eq!(consumer.position(&t(0)).await.unwrap(), Some(sent[1].offset));
    consumer.shutdown().await.unwrap();
    assert_eq!(rig.tree.offset("g", 0).await, Some(sent[1].offset));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn positions_commits_and_lag_are_what_they_say() {
    let rig = Rig::start(2).await;
    let record = Record::default();
    let consumer = rig.consume(config("g"), record.listener()).await;
    rig.owns(&consumer, 2).await;
    rig.send(0, texts("m", 3)).await;
    record.wait(3).await;
    reaches(&consumer, 0, 66).await;
    assert_eq!(consumer.committed(&t(0)).await.unwrap(), None);
    consumer.commit().await.unwrap();
    assert_eq!(consumer.committed(&t(0)).await.unwrap(), Some(Offset::new(66)));
    assert_eq!(rig.tree.offset("g", 0).await, Some(Offset::new(66)));
    assert_eq!(consumer.lag(&t(0)).await.unwrap(), Some(0));
    consumer.pause(&[t(0)]).await.unwrap();
    rig.send(0, texts("n", 2)).await;
    assert_eq!(consumer.lag(&t(0)).await.unwrap(), Some(44));
    // A commit without news is fine, too.
    consumer.commit().await.unwrap();
    assert_eq!(consumer.committed(&t(0)).await.unwrap(), Some(Offset::new(66)));
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ends_of_a_partition_can_be_asked_for_without_reading() {
    let rig = Rig::start(2).await;
    let sent = rig.send(0, texts("m", 3)).await;
    let consumer = rig.consumer(config("g"));
    assert_eq!(consumer.end_offset(&t(0)).await.unwrap(), Some(Offset::new(66)));
    // Nothing was ever sent there.
    let empty = consumer.end_offset(&t(1)).await.unwrap();
    assert!(matches!(empty, None | Some(Offset::ZERO)), "{empty:?}");
    for offset in [sent[0].offset, sent[2].offset, Offset::new(7)] {
        assert_eq!(consumer.nearest_offset(&t(0), offset).await.unwrap(), Offset::ZERO);
    }
    assert!(rig.tree.groups().await.is_empty());
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_that_are_not_assigned_cannot_be_moved() {
    let rig = Rig::start(1).await;
    let consumer = rig.consume(config("g"), Record::default().listener()).await;
    rig.owns(&consumer, 1).await;
    assert_eq!(consumer.assigned(), [t(0)]);
    for result in [consumer.seek(&t(7), SeekTo::Earliest).await, consumer.lag(&t(7)).await.map(|_| ())] {
        let error = result.unwrap_err().to_string();
        assert_eq!(error, "partition t 0-7 is not assigned to this consumer");
    }
    let error = consumer.seek(&t(0), SeekTo::Offset(Offset::new(-1))).await.unwrap_err().to_string();
    assert!(error.starts_with("there is no offset -1"), "{error}");
    assert_eq!(consumer.position(&t(7)).await.unwrap(), None);
    // Pausing leaves out what is not there.
    consumer.pause(&[t(7)]).await.unwrap();
    consumer.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_may_pause_seek_ask_and_commit() {
    let rig = Rig::start(1).await;
    let sent = rig.send(0, texts("m", 3)).await;
    let record = Record::default();
    let consumer = rig.consumer(config("g"));
    let listener = {
        let (record, consumer) = (record.clone(), consumer.clone());
        let (second, third) = (sent[1].offset, sent[2].offset);
        move |message: ReceivedMessage| {
            let (record, consumer) = (record.clone(), consumer.clone());
            async move {
                record.note(&message);
                if record.len() == 2 {
                    // The first message is handled already, although its batch is not.
                    consumer.commit().await.unwrap();
                    assert_eq!(consumer.committed(&t(0)).await.unwrap(), Some(second));
                    assert_eq!(consumer.lag(&t(0)).await.unwrap(), Some(44));
                    consumer.pause(&[t(0)]).await.unwrap();
                    consumer.seek(&t(0), SeekTo::Offset(third)).await.unwrap();
                }
                Action::Ack
            }
        }
    };
    consumer.subscribe(&topic("t"), MAX_SIZE, listener).unwrap();
    consumer.complete_subscribe().await.unwrap();
    record.wait(2).await;
    reaches(&consumer, 0, 44).await;
    // The third one waits although it was fetched with the others.
    rig.send(0, ["m3"]).await;
    assert_eq!(consumer.position(&t(0)).await.unwrap(), Some(Offset::new(44)));
    assert_eq!(record.texts(), ["m0", "m1"]);
    consumer.resume(&[t(0)]).await.unwrap();
    record.wait(4).await;
    assert_eq!(record.texts(), texts("m", 4));
    rig.factory.shutdown().await.unwrap();
    assert_eq!(rig.tree.offset("g", 0).await, Some(Offset::new(88)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_seek_while_a_listener_works_wins_over_its_result() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 3)).await;
    let (record, gate) = (Record::default(), Arc::new(Semaphore::new(0)));
    let listener = record.gated(&gate);
    let consumer = rig.consume(config("g"), listener).await;
    record.wait(1).await;
    consumer.seek(&t(0), SeekTo::Latest).await.unwrap();
    gate.add_permits(100);
    reaches(&consumer, 0, 66).await;
    rig.send(0, ["new"]).await;
    record.wait(2).await;
    assert_eq!(record.texts(), ["m0", "new"]);
    consumer.shutdown().await.unwrap();
    assert_eq!(rig.tree.offset("g", 0).await, Some(Offset::new(66 + 23)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_ends_the_consumer_or_the_factory_ends_it() {
    for factory in [false, true] {
        ended_by_its_listener(factory).await;
    }
}

async fn ended_by_its_listener(with_factory: bool) {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 3)).await;
    let record = Record::default();
    let config = config("g").drain_timeout(std::time::Duration::from_millis(500)).duplicate_suppression(None);
    let factory = rig.broker.factory().await;
    let consumer = factory.create_consumer(config.clone()).unwrap();
    let listener = {
        let (record, consumer, factory) = (record.clone(), consumer.clone(), factory.clone());
        move |message: ReceivedMessage| {
            let (record, consumer, factory) = (record.clone(), consumer.clone(), factory.clone());
            async move {
                record.note(&message);
                // It waits for itself until it is cancelled.
                match record.len() {
                    2 if with_factory => _ = factory.shutdown().await,
                    2 => _ = consumer.shutdown().await,
                    _ => {}
                }
                Action::Ack
            }
        }
    };
    consumer.subscribe(&topic("t"), MAX_SIZE, listener).unwrap();
    consumer.complete_subscribe().await.unwrap();
    rig.tree.wait_until_empty("g").await;
    // The consumer has ended for everybody else, too.
    let ended = eventually("the end", async || match consumer.position(&t(0)).await {
        Err(error) => Ok(error.to_string()),
        Ok(position) => Err(format!("{position:?}")),
    });
    assert_eq!(ended.await, "Consumer has been shutdown");
    let unclean = timeout(DEADLINE, consumer.shutdown()).await.expect("another call hangs").unwrap_err().to_string();
    assert!(unclean.contains("1 listeners were cancelled"), "{unclean}");
    let _same = timeout(DEADLINE, factory.shutdown()).await.expect("another call hangs");
    let next = Record::default();
    let second = rig.consume(config, next.listener()).await;
    next.wait(2).await;
    assert_eq!(next.texts(), ["m1", "m2"]);
    second.shutdown().await.unwrap();
}
