//! Producers: against a broker by its address, against scripted brokers that are slow, silent or gone, and in a cluster
//! whose brokers come, go and move.

#![cfg(feature = "broker")]
// Helpers outside of test functions fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

#[path = "client_producer/rig.rs"]
mod rig;

#[path = "client_producer/direct.rs"]
mod direct;

#[path = "client_producer/window.rs"]
mod window;

#[path = "client_producer/failures.rs"]
mod failures;

#[path = "client_producer/discovery.rs"]
mod discovery;

#[path = "client_producer/recorded.rs"]
mod recorded;

#[path = "client_producer/hooks.rs"]
mod hooks;
