//! A message store over the disk.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::super::super::kit::{GROUP_COMMIT, PERIODIC, answer, options, put, read_all, submit, topic};
use super::super::Failing;
use super::*;
use crate::id::PartitionIndex;
use crate::store::{PartitionLog, Store, StoreOptions};

const PARTITIONS: i32 = 3;
/// Groups that are put in one run.
const GROUPS: usize = 8;

fn small_segments() -> StoreOptions {
    StoreOptions { max_segment_size: 2000, commit_log_file_bytes: 64 << 10, ..options(Path::new("/")) }
}

fn open(disk: &SimDisk) -> Store {
    Store::open(small_segments(), Arc::new(disk.clone())).unwrap_or_else(|error| panic!("{error}\n{}", disk.dump()))
}

fn partitions(store: &Store) -> Vec<Arc<PartitionLog>> {
    let partition = |i| store.get_or_create(&topic("t"), PartitionIndex::new(i), &GROUP_COMMIT).unwrap();
    (0..PARTITIONS).map(partition).collect()
}

/// Bodies that were stored in each partition, and those of puts that were never answered well.
#[derive(Default)]
struct Sent {
    answered: Vec<Vec<Bytes>>,
    failed: Vec<Bytes>,
}

impl Sent {
    /// Puts groups until one of them fails, `groups` at most.
    fn put_until_failure(&mut self, store: &Store, groups: usize, rng: &mut Rng) {
        let partitions = partitions(store);
        for group in 0..groups {
            let count = rng.usize(1..5);
            let body = |i| Bytes::from(format!("{group}-{i}-{}", "x".repeat(rng.usize(0..700))));
            let bodies: Vec<_> = (0..count).map(body).collect();
            let place = |i: usize| (group + i) % partitions.len();
            let puts = bodies.iter().enumerate().map(|(i, body)| (&partitions[place(i)], body.clone())).collect();
            for (i, result) in answer(&submit(store, puts)).into_iter().enumerate() {
                match result {
                    Ok(_) => self.answered[place(i)].push(bodies[i].clone()),
                    Err(_) => self.failed.push(bodies[i].clone()),
                }
            }
            if !self.failed.is_empty() {
                return;
            }
        }
    }

    /// All answered messages are there in their order; beyond them nothing but puts that failed.
    fn check(&self, disk: &SimDisk, seed: u64) {
        let store = open(disk);
        for (partition, answered) in partitions(&store).iter().zip(&self.answered) {
            let bodies: Vec<_> = read_all(partition).into_iter().map(|seen| seen.body).collect();
            let dump = || format!("seed {seed}: {} has {bodies:?}\n{}", partition.name(), disk.dump());
            assert!(bodies.starts_with(answered), "lost what was answered, {}", dump());
            let more = without_phantom(&bodies[answered.len()..]);
            assert!(more.iter().all(|body| self.failed.contains(body)), "more than was sent, {}", dump());
            put(&store, partition, b"after").unwrap();
        }
        store.close().unwrap();
    }
}

/// No checksum covers a header: when a power cut loses the sector with its length and checksum and keeps the one with
/// its id, what is left of a message looks like an empty one. Nothing intact can follow.
fn without_phantom(bodies: &[Bytes]) -> &[Bytes] {
    match bodies {
        [sent @ .., phantom] if phantom.is_empty() => sent,
        _ => bodies,
    }
}

/// A store whose power goes off after so many operations, and what it answered until then.
fn run(seed: u64, switch: Option<u64>) -> (SimDisk, Sent) {
    let disk = SimDisk::new(seed);
    let sent = run_on(&disk, seed, switch);
    (disk, sent)
}

fn run_on(disk: &SimDisk, seed: u64, switch: Option<u64>) -> Sent {
    let mut sent = Sent { answered: vec![Vec::new(); partition_count()], failed: Vec::new() };
    switch.into_iter().for_each(|operations| disk.power_off_after(operations));
    if let Ok(store) = Store::open(small_segments(), Arc::new(disk.clone())) {
        sent.put_until_failure(&store, GROUPS, &mut Rng::with_seed(seed));
    }
    sent
}

fn seed() -> u64 {
    let seed = std::env::var("METAQ_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed}");
    seed
}

fn partition_count() -> usize {
    usize::try_from(PARTITIONS).unwrap()
}

#[test]
fn what_was_answered_survives_a_power_cut_at_any_operation() {
    let seed = seed();
    let (whole, sent) = run(seed, None);
    assert!(sent.failed.is_empty() && sent.answered.iter().all(|answered| answered.len() > 2));
    let operations = whole.operations();
    assert!(operations > 30, "{operations}");
    for switch in 0..operations {
        let (disk, sent) = run(seed, Some(switch));
        for cut in 0..2 {
            println!("power off after {switch} operations, cut {cut}");
            sent.check(&disk.power_cut(&mut Rng::with_seed(seed ^ (2 * switch + cut))), seed);
        }
    }
}

#[test]
fn what_was_answered_survives_a_kill_at_any_operation_and_then_a_power_cut() {
    let seed = seed();
    let run = |switch| {
        let disk = SimDisk::new(seed);
        // The operator made it: a start takes a data path that is there for durable.
        make_dir(&disk, "/data");
        sync_dir(&disk, "/");
        let sent = run_on(&disk, seed, switch);
        (disk, sent)
    };
    let operations = run(None).0.operations();
    for switch in 0..operations {
        println!("killed after {switch} operations");
        let (disk, mut sent) = run(Some(switch));
        let disk = disk.kill();
        sent.check(&disk.would_leave(&mut Rng::with_seed(seed ^ switch)), seed);
        // The next process takes over what the first one left in the cache, and answers for more.
        let store = open(&disk);
        let partitions = partitions(&store);
        for (partition, answered) in partitions.iter().zip(&mut sent.answered) {
            *answered = read_all(partition).into_iter().map(|seen| seen.body).collect();
            put(&store, partition, b"more").unwrap();
            answered.push(Bytes::from_static(b"more"));
        }
        sent.check(&disk.power_cut(&mut Rng::with_seed(seed ^ !switch)), seed);
    }
}

#[test]
fn what_was_answered_without_a_sync_is_lost_by_some_power_cuts_and_kept_by_others() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let partition = store.get_or_create(&topic("t"), PartitionIndex::new(0), &PERIODIC).unwrap();
    let bodies = ["0", "1", "2", "3"].map(|n| n.repeat(300));
    for body in &bodies {
        put(&store, &partition, body.as_bytes()).unwrap();
    }
    let counts = outcomes(&disk, |disk| {
        let store = open(disk);
        read_all(&partitions(&store)[0]).len()
    });
    assert!(counts.contains(&0) && counts.contains(&4) && counts.len() > 2, "{counts:?}");
}

#[test]
fn a_failed_sync_and_a_full_disk_reach_the_store() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let partitions = partitions(&store);
    for partition in &partitions {
        put(&store, partition, b"0").unwrap();
    }
    disk.set_capacity(0);
    put(&store, &partitions[0], b"1").unwrap();
    store.shared.tails.file(&partitions[0]);
    assert!(partitions[0].is_full());
    assert!(put(&store, &partitions[2], b"no space").is_err());
    disk.set_capacity(u64::MAX);
    put(&store, &partitions[2], b"2").unwrap();
    assert!(!partitions[0].is_full());
    disk.fail_once(Failing::Sync, |path| path.starts_with("/data/t-1"));
    assert!(partitions[1].make_checkpoint().is_err() && partitions[1].poison().is_some());
    put(&store, &partitions[2], b"3").unwrap();
    let image = disk.power_cut(&mut Rng::with_seed(1));
    drop(store);
    let store = open(&image);
    let counts: Vec<_> = self::partitions(&store).iter().map(|partition| read_all(partition).len()).collect();
    assert_eq!(counts, [2, 1, 3]);
}
