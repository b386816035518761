//! Consumer groups of real processes on a real ensemble, three brokers and a steady load, one run for each thing that
//! can happen to members, brokers and ensemble. After each: every partition has the owner that the strategy says, nothing
//! acknowledged is lost, each partition comes in its order, and what comes twice is what was promised to (design: at most
//! one commit period of a member that died, nothing otherwise).
//!
//! The figures are on standard error: `cargo test --test consumer_faults -- --nocapture`.

#![cfg(feature = "broker")]
// Helpers outside of test functions fail by panicking, as tests do; the figures are for who watches.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod common;

#[path = "consumer_faults/site.rs"]
mod site;

#[path = "consumer_faults/run.rs"]
mod run;

#[path = "consumer_faults/members.rs"]
mod members;

#[path = "consumer_faults/brokers.rs"]
mod brokers;

#[path = "consumer_faults/ensemble.rs"]
mod ensemble;

#[path = "consumer_faults/checks.rs"]
mod checks;
