//! The reference's client and broker, unmodified, with our broker and command line: real processes behind a real
//! ZooKeeper. Skipped, with a line that says so, where Java, Maven or ZooKeeper is not installed.

#![cfg(feature = "broker")]
// Helpers outside of test functions fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

#[path = "java_peers/messages.rs"]
mod messages;

#[path = "java_peers/clients.rs"]
mod clients;

#[path = "java_peers/rig.rs"]
mod rig;

#[path = "java_peers/exchange.rs"]
mod exchange;

#[path = "java_peers/groups.rs"]
mod groups;

#[path = "java_peers/direct.rs"]
mod direct;

#[path = "java_peers/restart.rs"]
mod restart;

#[path = "java_peers/cluster.rs"]
mod cluster;

#[path = "java_peers/directory.rs"]
mod directory;

#[path = "java_peers/swap.rs"]
mod swap;

#[path = "java_peers/local.rs"]
mod local;

#[path = "java_peers/crash.rs"]
mod crash;
