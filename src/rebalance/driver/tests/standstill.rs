//! A process that stands still, and what a member may begin on the strength of its session.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::world::{SESSION, World};
use crate::rebalance::RangeStrategy;
use crate::rebalance::simulated::Notice;

/// A network's way and the turns of tasks.
const A_MOMENT: Duration = Duration::from_millis(50);

async fn settled(partitions: u32) -> (World, String) {
    let mut world = World::new(1, RangeStrategy, &[partitions], Duration::ZERO).await;
    let name = world.join();
    world.settles(SESSION).await;
    world.members[&name].reader.log();
    (world, name)
}

#[tokio::test(start_paused = true)]
async fn a_member_at_rest_may_deliver_at_any_time() {
    let (world, name) = settled(2).await;
    let start = Instant::now();
    while start.elapsed() < SESSION * 10 {
        sleep(A_MOMENT).await;
        assert!(world.members[&name].reader.may_begin(), "after {:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_standstill_holds_up_nothing() {
    let (world, name) = settled(2).await;
    let member = &world.members[&name];
    for _ in 0..10 {
        member.client.freeze(SESSION / 2);
        sleep(SESSION / 2).await;
        assert!(member.reader.may_begin());
        sleep(A_MOMENT).await;
    }
    assert_eq!(member.reader.log(), []);
}

#[tokio::test(start_paused = true)]
async fn a_long_standstill_within_the_session_costs_a_round_trip_and_no_partition() {
    let (world, name) = settled(2).await;
    let member = &world.members[&name];
    let session = member.client.session_id();
    member.client.freeze(SESSION * 19 / 20);
    sleep(SESSION * 19 / 20).await;
    assert!(!member.reader.may_begin(), "it cannot know");
    sleep(A_MOMENT).await;
    assert!(member.reader.may_begin());
    assert_eq!((member.reader.log(), member.client.session_id()), (Vec::new(), session));
}

#[tokio::test(start_paused = true)]
async fn a_member_that_stood_still_beyond_its_session_begins_nothing_before_it_has_a_new_one() {
    let (mut world, name) = settled(1).await;
    let before = world.members[&name].client.session_id();
    world.freeze(&name, SESSION * 2);
    sleep(SESSION * 2).await;
    let member = &world.members[&name];
    assert_eq!(member.reader.reads().len(), 1, "it has not heard of it");
    assert!(!member.reader.may_begin());
    while !member.reader.may_begin() {
        tokio::task::yield_now().await;
        sleep(Duration::from_micros(100)).await;
    }
    assert_ne!(member.client.session_id(), before);
    let log: Vec<_> = member.reader.log().into_iter().map(|(_, what, _)| what).collect();
    assert_eq!(log.first(), Some(&"lost"), "{log:?}");
    world.calms_down().await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_lost_unnoticed_ends_the_lease_before_the_session() {
    let (mut world, name) = settled(1).await;
    world.cut(&name, SESSION * 9 / 10, Notice::Late);
    sleep(SESSION * 8 / 10).await;
    assert!(!world.members[&name].reader.may_begin());
    world.calms_down().await;
    assert!(world.members[&name].reader.may_begin());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_lost_its_leader_does_not_keep_a_member_at_work_beyond_its_session() {
    let (mut world, name) = settled(1).await;
    let (before, start) = (world.members[&name].client.session_id(), Instant::now());
    world.strand(&name, SESSION * 3);
    while start.elapsed() < SESSION * 3 {
        sleep(A_MOMENT).await;
        let member = &world.members[&name];
        assert_eq!(member.client.session_id(), before, "it has not heard of it");
        assert!(!member.reader.may_begin() || start.elapsed() < SESSION, "after {:?}", start.elapsed());
    }
    world.calms_down().await;
    assert_ne!(world.members[&name].client.session_id(), before);
    assert!(world.members[&name].reader.may_begin());
}
