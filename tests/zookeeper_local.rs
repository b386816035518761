//! The ZooKeeper of local mode: by raw bytes, by this project's client, by ZooKeeper's own command line, and as part of
//! `metaq broker -l`. The Java client meets it in `java_peers.rs`.

#![cfg(feature = "broker")]
// Helpers outside of test functions fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

// Shared with `zookeeper.rs`; each uses its part.
#[allow(dead_code)]
#[path = "zookeeper/rig.rs"]
mod rig;

#[path = "zookeeper_local/raw.rs"]
mod raw;

#[path = "zookeeper_local/server.rs"]
mod server;

#[path = "zookeeper_local/sessions.rs"]
mod sessions;

#[path = "zookeeper_local/nodes.rs"]
mod nodes;

#[path = "zookeeper_local/watches.rs"]
mod watches;

#[path = "zookeeper_local/hostile.rs"]
mod hostile;

#[path = "zookeeper_local/clients.rs"]
mod clients;

#[path = "zookeeper_local/broker.rs"]
mod broker;
