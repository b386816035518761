//! What survives when a broker's process is killed, its disk fills up or fails: the real binary on real directories.

#![cfg(feature = "broker")]
// Helpers outside of test functions fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

#[path = "broker_crashes/site.rs"]
mod site;

#[path = "broker_crashes/payload.rs"]
mod payload;

#[path = "broker_crashes/load.rs"]
mod load;

#[path = "broker_crashes/ledger.rs"]
mod ledger;

#[path = "broker_crashes/kill.rs"]
mod kill;

#[path = "broker_crashes/full_disk.rs"]
mod full_disk;

#[path = "broker_crashes/failing_sync.rs"]
mod failing_sync;

#[path = "broker_crashes/directories.rs"]
mod directories;
