//! File systems that data directories lie on, as far as running out of space goes.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::fs::FileSystem;
use crate::common::guard::lock;

/// A file system.
#[derive(Debug, Default)]
pub(super) struct Volume {
    /// Partitions on it with a tail that found it full.
    failing: AtomicUsize,
}

impl Volume {
    /// Whether a tail waits for space: then nothing more is accepted for this file system.
    pub(super) fn is_full(&self) -> bool {
        self.failing.load(Ordering::Relaxed) > 0
    }

    pub(super) fn tail_failed(&self) {
        self.failing.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn tail_recovered(&self) {
        self.failing.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The file systems in use, by their device.
#[derive(Debug, Default)]
pub(super) struct Volumes(Mutex<HashMap<u64, Arc<Volume>>>);

impl Volumes {
    /// The file system of a directory; one of its own for a directory that cannot be looked at, which fails where it
    /// is used.
    pub(super) fn of(&self, fs: &dyn FileSystem, dir: &Path) -> Arc<Volume> {
        match fs.identity(dir) {
            Ok(identity) => Arc::clone(lock(&self.0).entry(identity.0).or_default()),
            Err(_) => Arc::default(),
        }
    }
}
