//! Random schedules of groups with simulated Java members, which give up, give everything up on a conflict, and delete
//! late. What is promised then: owner nodes are right in the end, and no two Rust members read the same, unless a Java
//! member has just deleted the owner node of one of them.

use std::time::Duration;

use tokio::time::sleep;

use super::model::{environment, simulate};
use super::world::{SESSION, SYNC_TIME, World};
use crate::rebalance::RangeStrategy;
use crate::rebalance::driver::{COMPARE_PERIOD, UNCLAIMED_AFTER};
use crate::rebalance::simulated::Notice;

/// Schedules of each size.
const SCHEDULES: u64 = 40;
/// A failed round of a Java member takes seven sync times; it is called on after a minute, and may fail once more.
const PATIENCE: Duration = Duration::from_secs(
    SESSION.as_secs() + 3 * (7 * SYNC_TIME.as_secs() + UNCLAIMED_AFTER.as_secs() + COMPARE_PERIOD.as_secs()),
);

/// How often a Java member and another one read the same, and how often two others did since one of them was robbed.
async fn schedule(seed: u64, rust: usize, java: usize, partitions: u32) -> (usize, usize) {
    let mut rng = fastrand::Rng::with_seed(!seed);
    let drain = Duration::from_millis([0, 100, 10_000][rng.usize(..3)]);
    let mut world = World::new(seed, RangeStrategy, &[partitions], drain).await;
    for _ in 0..rust {
        world.join();
    }
    for _ in 0..java {
        world.join_java();
    }
    world.settles(PATIENCE).await;
    for _ in 0..2 {
        for _ in 0..rng.usize(1..=4) {
            befalls(&mut world, &mut rng, partitions).await;
            let longest = [1, 100, 8000][rng.usize(..3)];
            sleep(Duration::from_millis(rng.u64(0..longest))).await;
            world.check();
        }
        let until = world.disturbed_until;
        tokio::time::sleep_until(until).await;
        world.settles(PATIENCE).await;
    }
    (world.readers.with_java(), world.readers.robbed())
}

async fn befalls(world: &mut World, rng: &mut fastrand::Rng, partitions: u32) {
    let names: Vec<_> = world.members.keys().cloned().collect();
    let name = names[rng.usize(..names.len())].clone();
    let peers: Vec<_> = world.java.keys().cloned().collect();
    let lasts = Duration::from_millis(rng.u64(1..15_000));
    match rng.u32(..9) {
        0 => _ = world.join(),
        1 => _ = world.join_java(),
        2 if names.len() > 1 => _ = world.leave(&name),
        3 if names.len() > 1 => world.kill(&name),
        4 => world.cut(&name, lasts, Notice::Late),
        5 => world.publish(0, 0, partitions + rng.u32(..3)).await,
        _ if peers.is_empty() => _ = world.join_java(),
        6 => {
            // Its deletes may be carried out in its next session, when others own what it deletes.
            let peer = &world.java[&peers[rng.usize(..peers.len())]];
            if rng.bool() {
                peer.client.cut(lasts, Notice::AtOnce)
            } else {
                peer.client.freeze(lasts)
            }
            world.disturbed_for(lasts);
        }
        7 => world.leave_java(&peers[rng.usize(..peers.len())]),
        _ => world.kill_java(&peers[rng.usize(..peers.len())]),
    }
}

fn run(rust: usize, java: usize, partitions: u32) {
    let times = environment("METAQ_TEST_SCHEDULES").unwrap_or(1);
    if let Some(seed) = environment("METAQ_TEST_SEED") {
        (0..times).for_each(|_| _ = simulate(schedule(seed, rust, java, partitions)));
        return;
    }
    let (mut late, mut robbed) = (0, 0);
    for seed in 0..SCHEDULES * times {
        let (with_java, by_robbery) = simulate(schedule(seed, rust, java, partitions));
        late += with_java;
        robbed += by_robbery;
    }
    println!("{late} times a Java member and another one read the same, {robbed} times two robbed by one");
}

#[test]
fn a_rust_and_a_java_member_share_7_partitions_in_the_end_whatever_befalls_them() {
    run(1, 1, 7);
}

#[test]
fn two_rust_and_two_java_members_share_7_partitions_in_the_end_whatever_befalls_them() {
    run(2, 2, 7);
}

#[test]
fn three_rust_members_and_a_java_member_share_a_partition_in_the_end_whatever_befalls_them() {
    run(3, 1, 1);
}
