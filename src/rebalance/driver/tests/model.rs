//! Random schedules of what can befall a group of Rust members. `METAQ_TEST_SCHEDULES` asks for more of them,
//! `METAQ_TEST_SEED` for a single one, as often: a seed decides everything but the order in which tokio wakes those who
//! wait for the same change.

use std::time::Duration;

use tokio::time::sleep;

use super::world::{SESSION, World};
use crate::rebalance::simulated::Notice;
use crate::rebalance::{ConsistentHashStrategy, RangeStrategy};

/// Of each size of group, as many schedules; see [`SIZES`].
const SCHEDULES: u64 = 1;
/// Members, partitions, schedules.
const SIZES: [(usize, u32, u64); 12] = [
    (1, 1, 60),
    (1, 7, 40),
    (1, 40, 20),
    (2, 1, 80),
    (2, 7, 60),
    (2, 40, 20),
    (5, 1, 30),
    (5, 7, 20),
    (5, 40, 10),
    (12, 1, 12),
    (12, 7, 10),
    (12, 40, 5),
];

pub(super) fn environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Runs something on a clock of its own that jumps to the next time at which something is due.
pub(super) fn simulate<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

fn run(members: usize, partitions: u32, schedules: u64) {
    let times = environment("METAQ_TEST_SCHEDULES").unwrap_or(SCHEDULES);
    if let Some(seed) = environment("METAQ_TEST_SEED") {
        (0..times).for_each(|_| _ = simulate(schedule(seed, members, partitions)));
        return;
    }
    let mut excused = 0;
    for seed in 0..schedules * times {
        let seed = seed * 1000 + u64::from(partitions) * 20 + u64::try_from(members).unwrap();
        excused += simulate(schedule(seed, members, partitions));
    }
    println!(
        "{excused} times two members read the same, since the service had ended the session of one of them before its time"
    );
}

/// How often two members read the same because the service had ended the session of one of them before its
/// time: nothing that befalls a process itself is an excuse, standing still included.
async fn schedule(seed: u64, members: usize, partitions: u32) -> usize {
    let mut rng = fastrand::Rng::with_seed(!seed);
    let drain = Duration::from_millis([0, 100, 10_000][rng.usize(..3)]);
    let shares: &[u32] = if rng.bool() { &[partitions] } else { &[partitions, partitions.div_ceil(2)] };
    let mut world = if rng.u32(..4) > 0 {
        World::new(seed, RangeStrategy, shares, drain).await
    } else {
        World::new(seed, ConsistentHashStrategy, shares, drain).await
    };
    let mut leaving = Vec::new();
    for _ in 0..members {
        world.join();
    }
    world.calms_down().await;
    for _ in 0..3 {
        // Several things at once.
        for _ in 0..rng.usize(1..=6) {
            befalls(&mut world, &mut rng, members, partitions, &mut leaving).await;
            let longest = [1, 100, 8000][rng.usize(..3)];
            sleep(Duration::from_millis(rng.u64(0..longest))).await;
            world.check();
        }
        world.calms_down().await;
        // A single thing: what stays with a member must not notice.
        let before = world.mark();
        match rng.u32(..3) {
            0 if world.members.len() > 1 => {
                let name = any(&world, &mut rng);
                if rng.bool() { leaving.push(world.leave(&name)) } else { world.kill(&name) }
            }
            1 => world.publish(0, 0, partitions + rng.u32(..3)).await,
            _ => _ = world.join(),
        }
        world.calms_down().await;
        world.nothing_was_interrupted(&before);
    }
    for name in world.members.keys().cloned().collect::<Vec<_>>() {
        leaving.push(world.leave(&name));
    }
    for leave in leaving {
        leave.await.unwrap();
    }
    world.check();
    let left = world.service.below(&format!("{}/consumers/{}", world.root, world.group));
    let left: Vec<_> = left.iter().filter(|(_, (_, session))| session.is_some()).collect();
    assert!(left.is_empty(), "seed {seed}: everybody has left, but {left:?} is there");
    world.readers.excused()
}

fn any(world: &World, rng: &mut fastrand::Rng) -> String {
    world.members.keys().nth(rng.usize(..world.members.len())).unwrap().clone()
}

async fn befalls(
    world: &mut World,
    rng: &mut fastrand::Rng,
    members: usize,
    partitions: u32,
    leaving: &mut Vec<tokio::task::JoinHandle<()>>,
) {
    if world.members.len() < members || world.members.is_empty() {
        world.join();
        return;
    }
    let name = any(world, rng);
    let any_time = Duration::from_millis(rng.u64(1..20_000));
    match rng.u32(..12) {
        0 | 1 => leaving.push(world.leave(&name)),
        2 | 3 => world.kill(&name),
        4 => world.freeze(&name, any_time),
        5 => world.cut(&name, any_time, Notice::AtOnce),
        6 => world.cut(&name, any_time, Notice::Late),
        7 => world.cut(&name, Duration::from_millis(rng.u64(1..10)), Notice::AtOnce),
        8 => {
            world.members[&name].client.expire();
            world.disturbed_for(SESSION / 2);
        }
        9 => world.publish(rng.usize(..world.topics.len()), 0, partitions + rng.u32(..3)).await,
        10 => world.publish(0, rng.i64(1..3), rng.u32(..4)).await,
        _ => _ = world.join(),
    }
}

macro_rules! sizes {
    ($($name:ident $number:literal)*) => {
        $(
            #[test]
            fn $name() {
                let (members, partitions, schedules) = SIZES[$number];
                run(members, partitions, schedules);
            }
        )*
    };
}

sizes! {
    a_member_of_its_own_reads_a_partition_through_every_trouble 0
    a_member_of_its_own_reads_7_partitions_through_every_trouble 1
    a_member_of_its_own_reads_40_partitions_through_every_trouble 2
    two_members_share_a_partition_through_every_trouble 3
    two_members_share_7_partitions_through_every_trouble 4
    two_members_share_40_partitions_through_every_trouble 5
    five_members_share_a_partition_through_every_trouble 6
    five_members_share_7_partitions_through_every_trouble 7
    five_members_share_40_partitions_through_every_trouble 8
    twelve_members_share_a_partition_through_every_trouble 9
    twelve_members_share_7_partitions_through_every_trouble 10
    twelve_members_share_40_partitions_through_every_trouble 11
}
