//! The HTTP interface for operators, of a real process: every path, every door, every limit, and what the metrics say.

#![cfg(feature = "broker")]
// Helpers fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

#[path = "admin_http/exposition.rs"]
mod exposition;

#[path = "admin_http/paths.rs"]
mod paths;

#[path = "admin_http/changing.rs"]
mod changing;

#[path = "admin_http/doors.rs"]
mod doors;

#[path = "admin_http/limits.rs"]
mod limits;

#[path = "admin_http/life.rs"]
mod life;

#[path = "admin_http/metrics.rs"]
mod metrics;

use common::operated as rig;
