//! Starts of the store: after a kill with so much in its commit log, and after a clean stop.
// A benchmark fails by panicking, as tests do.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::fs;
use std::path::Path;

use divan::Bencher;
use divan::counter::BytesCount;

use common::{BODY_LEN, GROUP_LEN, PERIODIC, Putter};

const MIB: usize = 1 << 20;

fn main() {
    divan::main();
}

/// A store over eight partitions that ended without being closed: what is in its segments already is found to be there.
#[divan::bench(args = [4, 16, 64], sample_count = 5, sample_size = 1)]
fn open_after_a_kill_with_mib_in_the_log(bencher: Bencher<'_, '_>, mib: usize) {
    let template = common::directory();
    let store = common::open(template.path());
    let groups = (mib * MIB).div_ceil(GROUP_LEN * BODY_LEN);
    let mut putter = Putter::new(common::partitions(&store, 8, &PERIODIC));
    (0..groups).for_each(|_| putter.put(&store, 1));
    drop((store, putter));
    let copy = || {
        let dir = common::directory();
        copy_all(template.path(), dir.path());
        dir
    };
    bencher.counter(BytesCount::new(mib * MIB)).with_inputs(copy).bench_local_refs(|dir| {
        let store = common::open(dir.path());
        let stored = store.partitions().iter().map(|partition| partition.size_bytes()).sum::<u64>();
        assert!(stored >= (groups * GROUP_LEN * BODY_LEN) as u64, "{stored} bytes");
        store
    });
}

/// A store whose segments need not be read.
#[divan::bench(args = [1, 1000], sample_count = 10, sample_size = 1)]
fn open_after_a_clean_stop_with_partitions(bencher: Bencher<'_, '_>, partitions: usize) {
    let dir = common::directory();
    let store = common::open(dir.path());
    let mut putter = Putter::new(common::partitions(&store, partitions, &PERIODIC));
    putter.put(&store, partitions.div_ceil(GROUP_LEN));
    store.close().unwrap();
    drop((store, putter));
    // What is measured leaves an open store; it has to be stopped cleanly again.
    let stop = || common::open(dir.path()).close().unwrap();
    bencher.with_inputs(stop).bench_local_values(|()| {
        let store = common::open(dir.path());
        assert_eq!(store.partitions().len(), partitions);
        store
    });
}

fn copy_all(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            copy_all(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
