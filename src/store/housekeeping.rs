//! What the background thread looks after besides flushing: free space and the reservation of ids.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::fs::FileSystem;
use super::health::LowSpace;
use super::ids::IdGenerator;
use crate::common::guard::lock;

/// How often free space is looked at.
const FREE_SPACE_PERIOD: Duration = Duration::from_secs(5);

/// Data directories and what is known of their free space.
#[derive(Debug, Default)]
pub(super) struct FreeSpace(Mutex<Vec<Watched>>);

#[derive(Debug)]
struct Watched {
    path: PathBuf,
    low: Option<u64>,
}

impl FreeSpace {
    /// Looks after one more directory.
    pub(super) fn watch(&self, path: PathBuf) {
        lock(&self.0).push(Watched { path, low: None });
    }

    /// Directories that were below the warning level when last looked at.
    pub(super) fn low(&self) -> Vec<LowSpace> {
        let watched = lock(&self.0);
        let low = |w: &Watched| w.low.map(|free_bytes| LowSpace { path: w.path.clone(), free_bytes });
        watched.iter().filter_map(low).collect()
    }

    /// The directories.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        lock(&self.0).iter().map(|watched| watched.path.clone()).collect()
    }

    /// Looks at all directories; a warning is given once, and again only after space had recovered.
    pub(super) fn check(&self, fs: &dyn FileSystem, warning_bytes: u64) {
        for watched in lock(&self.0).iter_mut() {
            // A directory that cannot be looked at fails where it is used, with a better text.
            let Ok(free) = fs.free_space(&watched.path) else { continue };
            let path = watched.path.display();
            if free >= warning_bytes {
                if watched.low.take().is_some() {
                    info!(%path, free_bytes = free, "free space is above the warning level again");
                }
            } else if watched.low.replace(free).is_none() {
                warn!(
                    %path,
                    free_bytes = free,
                    warning_bytes,
                    "little free space left: puts fail when it is used up; free space or shorten the retention"
                );
            }
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Housekeeping {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) ids: Arc<IdGenerator>,
    pub(super) free_space: Arc<FreeSpace>,
    pub(super) free_space_warning_bytes: u64,
    pub(super) next_check: Instant,
}

impl Housekeeping {
    /// Does what is due.
    pub(super) fn run(&mut self, now: Instant) {
        self.ids.extend_reservation();
        if now >= self.next_check {
            self.free_space.check(&*self.fs, self.free_space_warning_bytes);
            self.next_check = now + FREE_SPACE_PERIOD;
        }
    }
}
