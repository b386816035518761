//! A message store over the disk; power cuts are in `power_cut`.

use std::path::Path;
use std::sync::Arc;

use super::super::super::kit::{GROUP_COMMIT, options, put, read_all, topic};
use super::super::Failing;
use super::*;
use crate::id::PartitionIndex;
use crate::store::{PartitionLog, Store};

fn open(disk: &SimDisk) -> Store {
    let opened = Store::open(options(Path::new("/")), Arc::new(disk.clone()));
    opened.unwrap_or_else(|error| panic!("{error}\n{}", disk.dump()))
}

fn partitions(store: &Store) -> Vec<Arc<PartitionLog>> {
    let partition = |i| store.get_or_create(&topic("t"), PartitionIndex::new(i), &GROUP_COMMIT).unwrap();
    (0..3).map(partition).collect()
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
