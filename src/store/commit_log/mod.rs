//! The commit log: one file sequence for all partitions, synced once for all of them (08).

pub(super) mod format;
pub(super) mod pool;
pub(super) mod syncs;
pub(super) mod table;
pub(super) mod writer;
