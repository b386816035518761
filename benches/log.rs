//! The commit log: frames written, and frames found and checked again.
// A benchmark fails by panicking, as tests do.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use metaq::store::{LogItem, OsFileSystem, dump_log};

use common::{BODY_LEN, GROUP_LEN, PERIODIC, Putter};

/// Partitions that a group is spread over: so many frames it takes.
const FRAMES: [usize; 3] = [1, 8, 64];

/// Groups in the log that is read.
const GROUPS: usize = 256;

fn main() {
    divan::main();
}

/// One group at a time, with nothing to wait for but the writes.
#[divan::bench(args = FRAMES)]
fn write_a_group_in_frames(bencher: Bencher<'_, '_>, frames: usize) {
    let dir = common::directory();
    let store = common::open(dir.path());
    let mut putter = Putter::new(common::partitions(&store, frames, &PERIODIC));
    putter.put(&store, 1);
    let counters = (ItemsCount::new(frames), BytesCount::new(GROUP_LEN * BODY_LEN));
    bencher.counter(counters.0).counter(counters.1).bench_local(|| putter.put(&store, 1));
    store.close().unwrap();
}

/// The whole log of a store that was not closed.
#[divan::bench(args = FRAMES)]
fn read_frames_of_groups(bencher: Bencher<'_, '_>, frames: usize) {
    let dir = common::directory();
    let store = common::open(dir.path());
    Putter::new(common::partitions(&store, frames, &PERIODIC)).put(&store, GROUPS);
    drop(store);
    let counters = (ItemsCount::new(frames * GROUPS), BytesCount::new(GROUPS * GROUP_LEN * BODY_LEN));
    bencher.counter(counters.0).counter(counters.1).bench(|| {
        let mut found = 0;
        let is_good = dump_log(&OsFileSystem, &common::data_log_path(dir.path()), true, &mut |item| {
            found += usize::from(matches!(black_box(item), LogItem::Frame { .. }));
            Ok(())
        });
        assert!(is_good.unwrap());
        assert!(found >= frames * GROUPS, "{found} frames");
    });
}
