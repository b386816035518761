//! Consumers as an application uses them: the public interface alone, against a broker in local mode inside the test's own
//! process (05, 07 §2.3).

#![cfg(feature = "broker")]
// Helpers outside of test functions fail by panicking, as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

#[path = "client_consumer/rig.rs"]
mod rig;

#[path = "client_consumer/listeners.rs"]
mod listeners;

#[path = "client_consumer/offsets.rs"]
mod offsets;

#[path = "client_consumer/failures.rs"]
mod failures;

#[path = "client_consumer/filters.rs"]
mod filters;

#[path = "client_consumer/batches.rs"]
mod batches;

#[path = "client_consumer/streams.rs"]
mod streams;

#[path = "client_consumer/control.rs"]
mod control;

#[path = "client_consumer/manual.rs"]
mod manual;

#[path = "client_consumer/direct.rs"]
mod direct;

#[path = "client_consumer/members.rs"]
mod members;

#[path = "client_consumer/refusals.rs"]
mod refusals;

#[path = "client_consumer/gets.rs"]
mod gets;

#[path = "client_consumer/shutdowns.rs"]
mod shutdowns;

#[path = "client_consumer/telling.rs"]
mod telling;

#[path = "client_consumer/command.rs"]
mod command;

#[path = "client_consumer/hostile.rs"]
mod hostile;
