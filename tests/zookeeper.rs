//! The ZooKeeper room against real servers: calls and watches, registration through every kind of trouble, the cluster
//! as clients see it.

// Helpers outside of test functions fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

#[path = "zookeeper/rig.rs"]
mod rig;

#[path = "zookeeper/coordinator.rs"]
mod coordinator;

#[path = "zookeeper/registration.rs"]
mod registration;

#[path = "zookeeper/trouble.rs"]
mod trouble;
