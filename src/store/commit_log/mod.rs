//! The commit log: one file sequence for all partitions, synced once for all of them (08).

pub(super) mod format;
pub(super) mod table;
