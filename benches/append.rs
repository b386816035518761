//! Puts into the store: eight groups at a time, as eight busy connections hand them over.
// A benchmark fails by panicking, as tests do.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use divan::Bencher;
use divan::counter::ItemsCount;
use metaq::store::TopicSettings;

use common::{GROUP_COMMIT, GROUP_LEN, PERIODIC, Putter};

const GROUPS: usize = 8;
const PARTITIONS: [usize; 3] = [1, 8, 500];

fn main() {
    divan::main();
}

fn append(bencher: Bencher<'_, '_>, partitions: usize, settings: &TopicSettings) {
    let dir = common::directory();
    let store = common::open(dir.path());
    let mut putter = Putter::new(common::partitions(&store, partitions, settings));
    // Each partition has its directory and its first segment then.
    putter.put(&store, partitions.div_ceil(GROUP_LEN));
    bencher.counter(ItemsCount::new(GROUPS * GROUP_LEN)).bench_local(|| putter.put(&store, GROUPS));
    store.close().unwrap();
}

#[divan::bench(args = PARTITIONS)]
fn on_disk_before_the_answer(bencher: Bencher<'_, '_>, partitions: usize) {
    append(bencher, partitions, &GROUP_COMMIT);
}

#[divan::bench(args = PARTITIONS)]
fn unflushed(bencher: Bencher<'_, '_>, partitions: usize) {
    append(bencher, partitions, &PERIODIC);
}
