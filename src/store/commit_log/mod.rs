//! The commit log: one file sequence for all partitions, synced once for all of them (08).

pub(super) mod error;
pub(super) mod files;
pub(super) mod format;
pub(super) mod pool;
pub(super) mod syncs;
pub(super) mod table;
pub(super) mod walk;
mod window;
pub(super) mod writer;
