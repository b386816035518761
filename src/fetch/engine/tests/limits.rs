//! Memory.

use std::time::Duration;

use crate::fetch::FetchOptions;

use super::broker::{Answer, Broker};
use super::listener::Act;
use super::rig::{options, rig_with};

const MIB: usize = 1 << 20;

fn backlog(broker: &Broker, partitions: i32) {
    for index in 0..partitions {
        for id in 0..3 * 16 {
            broker.put(index, id, 64 << 10);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn gets_that_expect_much_wait_for_room_and_everybody_has_a_turn() {
    let options = FetchOptions { fetched_bytes: 3 * MIB, max_read_buffer_size: MIB, ..options() };
    let broker = Broker::new(false).slow(Duration::from_millis(5));
    let rig = rig_with(broker, |_| Act::Slowly(Duration::from_millis(1)), options);
    backlog(&rig.broker, 12);
    rig.add(0..12, 1 << 20).await;
    rig.until(|rig| (0..12).all(|index| rig.listener.handled(index).len() == 48)).await;
    let seen = rig.broker.seen();
    let large: Vec<_> = seen.iter().filter(|get| get.size == 1 << 20).collect();
    let together = large.iter().map(|get| large.iter().filter(|other| other.at == get.at).count()).max();
    assert!(together <= Some(3), "{together:?} large gets in the same moment");
    let first: std::collections::BTreeSet<_> = large.iter().take(12).map(|get| get.index).collect();
    assert_eq!(first.len(), 12, "nobody has a second turn before everybody had one");
}

#[tokio::test(start_paused = true)]
async fn a_size_beyond_the_budget_is_asked_for_alone() {
    let options = FetchOptions { fetched_bytes: MIB / 2, max_read_buffer_size: MIB, ..options() };
    let rig = rig_with(Broker::new(false), |_| Act::Slowly(Duration::from_millis(1)), options);
    backlog(&rig.broker, 5);
    rig.add(0..5, 1 << 20).await;
    rig.until(|rig| (0..5).all(|index| rig.listener.handled(index).len() == 48)).await;
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_listeners_holds_the_budget_until_it_is_handled() {
    let options = FetchOptions { fetched_bytes: 2 * MIB, max_read_buffer_size: MIB, ..options() };
    let rig = rig_with(Broker::new(false), |_| Act::Gate, options);
    backlog(&rig.broker, 6);
    for index in 0..6 {
        // Two small answers pass the gate first, so that all expect much afterwards.
        rig.add([index], 1 << 20).await;
    }
    rig.pass(10_000).await;
    let before = rig.broker.seen().len();
    rig.pass(600_000).await;
    assert_eq!(rig.broker.seen().len(), before, "nothing is asked while nothing is handled");
    while !(0..6).all(|index| rig.listener.handled(index).len() == 48) {
        rig.listener.gate.notify_waiters();
        rig.pass(1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_does_not_answer_holds_room_of_the_budget_once() {
    let rig = rig_with(Broker::new(false), |_| Act::Slowly(Duration::from_millis(1)), options());
    backlog(&rig.broker, 1);
    rig.add([0], 1 << 20).await;
    rig.until(|rig| !rig.listener.given().is_empty()).await;
    rig.broker.always(0, Some(Answer::Silence));
    rig.pass(60_000).await;
    let sizes: Vec<_> = rig.broker.seen().iter().map(|get| get.size).collect();
    assert_eq!(sizes[..3], [64 << 10, 1 << 20, 1 << 20], "the third one is not answered");
    assert!(sizes.len() > 5 && sizes[3..].iter().all(|&size| size == 64 << 10), "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn held_gets_of_idle_partitions_take_nothing_of_the_budget() {
    let options = FetchOptions { fetched_bytes: MIB, max_read_buffer_size: MIB, ..options() };
    let rig = rig_with(Broker::new(true), |_| Act::Handle, options);
    backlog(&rig.broker, 1);
    rig.add(0..200, 1 << 20).await;
    rig.pass(100).await;
    assert_eq!(rig.listener.handled(0).len(), 48);
    assert_eq!(rig.broker.most_gets(), 200);
}
