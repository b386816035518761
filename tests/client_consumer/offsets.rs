//! Where a group goes on, and where it begins (05 §8, §11).

use std::time::Duration;

use metaq::id::Offset;

use crate::rig::{Record, Rig, config, t, texts, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_consumer_of_a_group_gets_exactly_the_next_message() {
    let rig = Rig::start(2).await;
    for partition in 0..2 {
        rig.send(partition, texts("old", 10)).await;
    }
    let record = Record::default();
    let first = rig.consume(config("g"), record.listener()).await;
    record.wait(20).await;
    first.shutdown().await.unwrap();
    assert_eq!(rig.tree.offset("g", 0).await, Some(Offset::new(240)));
    let new = rig.send(0, ["new"]).await;
    assert_eq!(new[0].offset, Offset::new(240));

    let record = Record::default();
    let second = rig.consume(config("g").duplicate_suppression(None), record.listener()).await;
    record.wait(1).await;
    rig.send(1, ["last"]).await;
    record.wait_for("last").await;
    second.shutdown().await.unwrap();
    assert_eq!(record.texts(), ["new", "last"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_do_not_disturb_each_other() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("m", 5)).await;
    let (a, b) = (Record::default(), Record::default());
    let first = rig.consume(config("ga"), a.listener()).await;
    let second = rig.consume(config("gb"), b.listener()).await;
    a.wait(5).await;
    b.wait(5).await;
    assert_eq!((a.texts(), b.texts()), (texts("m", 5), texts("m", 5)));
    first.shutdown().await.unwrap();
    rig.send(0, ["more"]).await;
    b.wait_for("more").await;
    second.shutdown().await.unwrap();
    assert_eq!((a.len(), rig.tree.offset("ga", 0).await), (5, Some(Offset::new(110))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_group_begins_at_the_oldest_message_or_at_the_configured_offset() {
    let rig = Rig::start(1).await;
    let sent = rig.send(0, texts("m", 5)).await;
    let (all, some) = (Record::default(), Record::default());
    let first = rig.consume(config("ga"), all.listener()).await;
    let second = rig.consume(config("gb").offset(sent[3].offset), some.listener()).await;
    all.wait(5).await;
    some.wait(2).await;
    assert_eq!((all.texts(), some.texts()), (texts("m", 5), texts("m", 5)[3..].to_vec()));
    first.shutdown().await.unwrap();
    second.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_group_can_begin_at_the_end_and_then_goes_on_where_it_stopped() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("old", 5)).await;
    let record = Record::default();
    let from_the_end = || config("g").consume_from_max_offset().duplicate_suppression(None);
    let first = rig.consume(from_the_end(), record.listener()).await;
    wait_for_position(&first, Offset::new(120)).await;
    rig.send(0, ["new"]).await;
    record.wait(1).await;
    first.shutdown().await.unwrap();
    // Nobody was there when this came: it is not skipped.
    rig.send(0, ["meanwhile"]).await;
    let second = rig.consume(from_the_end(), record.listener()).await;
    record.wait(2).await;
    second.shutdown().await.unwrap();
    assert_eq!(record.texts(), ["new", "meanwhile"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_can_always_begin_at_the_end_whatever_is_stored() {
    let rig = Rig::start(1).await;
    let record = Record::default();
    rig.send(0, ["old"]).await;
    let first = rig.consume(config("g"), record.listener()).await;
    record.wait(1).await;
    first.shutdown().await.unwrap();
    let skipped = rig.send(0, ["skipped"]).await;
    let second = rig.consume(config("g").always_consume_from_max_offset(), record.listener()).await;
    wait_for_position(&second, skipped[0].offset.checked_add(27).unwrap()).await;
    rig.send(0, ["new"]).await;
    record.wait(2).await;
    second.shutdown().await.unwrap();
    assert_eq!(record.texts(), ["old", "new"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offsets_are_committed_periodically_and_are_those_of_handled_messages_only() {
    let rig = Rig::start(1).await;
    let sent = rig.send(0, texts("m", 4)).await;
    let record = Record::default();
    let fails = sent[3].offset;
    let listener = record.answering(move |message| {
        use metaq::client::Action::{Ack, Retry};
        if message.offset == fails { Retry("not yet".to_owned()) } else { Ack }
    });
    let config = config("g").commit_offset_period(Duration::from_millis(20)).max_fetch_retries(u32::MAX);
    let consumer = rig.consume(config, listener).await;
    crate::common::eventually("the commit", async || match rig.tree.offset("g", 0).await {
        Some(offset) if offset == fails => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    // However often it is tried, nothing moves past it.
    record.wait(10).await;
    assert_eq!(rig.tree.offset("g", 0).await, Some(fails));
    consumer.shutdown().await.unwrap();
    assert_eq!(rig.tree.offset("g", 0).await, Some(fails));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_stored_is_the_reference_s_text() {
    let rig = Rig::start(1).await;
    let sent = rig.send(0, ["one", "two"]).await;
    let record = Record::default();
    let consumer = rig.consume(config("g"), record.listener()).await;
    record.wait(2).await;
    until("both are handled", || record.len() == 2).await;
    consumer.shutdown().await.unwrap();
    let stored = rig.tree.stored("g", 0).await;
    assert_eq!(stored, Some(format!("{}-46", sent[1].id)));
}

/// Longer than any test waits.
const STEP: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_group_at_the_end_gets_the_next_message_without_a_pause() {
    let rig = Rig::start(1).await;
    rig.send(0, texts("old", 5)).await;
    let record = Record::default();
    let config = config("g").consume_from_max_offset().max_delay_fetch_time(STEP * 10);
    let consumer = rig.consume(config, record.listener()).await;
    wait_for_position(&consumer, Offset::new(120)).await;
    rig.send(0, ["new"]).await;
    record.wait(1).await;
    consumer.shutdown().await.unwrap();
    assert_eq!(record.texts(), ["new"]);
}

/// Waits until the consumer stands at this place of partition 0.
async fn wait_for_position(consumer: &metaq::client::Consumer, offset: Offset) {
    crate::common::eventually("the position", async || match consumer.position(&t(0)).await.unwrap() {
        Some(position) if position == offset => Ok(()),
        other => Err(format!("{other:?}, not {offset}")),
    })
    .await;
}
