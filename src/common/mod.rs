//! Small things that several rooms need and none of them owns: no IO, nothing of a broker.

#[cfg(feature = "broker")]
pub(crate) mod activity;
pub(crate) mod guard;
pub(crate) mod quiet;
