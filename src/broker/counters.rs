//! Counts since the start of the process (01 §10.2).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One counter.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the broker counts.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Puts, failed ones included.
    pub(super) puts: Count,
    /// Puts answered with 500.
    pub(super) failed_puts: Count,
    pub(super) gets: Count,
    /// Gets that found nothing at their offset.
    pub(super) missed_gets: Count,
    pub(super) offset_queries: Count,
    open_connections: AtomicU64,
}

/// An open connection, counted until it is dropped.
#[derive(Debug)]
pub(super) struct OpenConnection(Arc<Counters>);

impl Counters {
    pub(super) fn connection_opened(self: &Arc<Self>) -> OpenConnection {
        self.open_connections.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(self))
    }

    pub(super) fn open_connections(&self) -> u64 {
        self.open_connections.load(Ordering::Relaxed)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open_connections.fetch_sub(1, Ordering::Relaxed);
    }
}
