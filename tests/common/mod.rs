//! Helpers that several test files share; each file uses its part.
// Helpers fail by panicking, as tests do.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs)]

#[cfg(feature = "broker")]
pub mod broker;
#[cfg(feature = "broker")]
pub mod group;
#[cfg(feature = "broker")]
pub mod hanging_disk;
#[cfg(feature = "broker")]
pub mod http;
#[cfg(feature = "broker")]
pub mod in_process;
#[cfg(feature = "broker")]
pub mod java;
#[cfg(feature = "broker")]
pub mod local;
#[cfg(feature = "broker")]
pub mod operated;
pub mod output;
pub mod process;
pub mod raw;
pub mod scripted;
pub mod shim;
#[cfg(feature = "broker")]
pub mod small_volume;
pub mod wire;
pub mod zookeeper;

use std::future::Future;
use std::time::{Duration, Instant};

/// Longest wait for anything that is expected to happen.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Waits until it is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until the probe yields a value; its last refusal is told when the deadline passes.
pub async fn eventually<T, F>(what: &str, mut probe: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    let started = Instant::now();
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(refusal) if started.elapsed() > DEADLINE => panic!("not within {DEADLINE:?}: {what}: {refusal}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
