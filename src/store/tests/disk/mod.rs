//! A disk in memory whose power can be cut.
//!
//! ```text
//! let disk = SimDisk::new(seed);
//! let store = Store::open(options, Arc::new(disk.clone()))?;       // the root directory `/` exists
//! disk.power_off_after(n);                                         // the operation after n more is interrupted
//! ... load; everything fails once the power is off ...
//! let image = disk.power_cut(&mut rng);                            // what the machine starts with again
//! let store = Store::open(options, Arc::new(image.clone()))?;
//! ```
//!
//! [`power_cut`](SimDisk::power_cut) leaves the old disk as it is, without power, so that one run gives any number of
//! images, and [`would_leave`](SimDisk::would_leave) gives them even while the run goes on. A handle of the old disk only ever gets `EIO`. Where a run was cut is chosen by
//! [`operations`](SimDisk::operations) of a run before it. All is determined by the seeds as long as one thread uses the
//! disk.
//!
//! # What is durable
//!
//! * **Content.** A good `sync_data` makes bytes, length and time of a file durable, not its name. Of what was not synced,
//!   each sector of 512 bytes is at the power cut in any state that it had since: before, after or between the writes,
//!   now and then torn. The length is any that it had since, in their order; a write passes the ends of sectors. So bytes
//!   within a kept length may be zeros, bytes beyond it are gone. A cut that is lost gives the old bytes back. The time of
//!   the last change is the synced one or the newest.
//! * **Names.** `sync_dir` makes durable what happened to the names of one directory, not the directory's own name in
//!   its parent. Each other create, remove or rename is kept or lost by itself, only never without an earlier one
//!   that touched the same names. A rename is kept or lost as a whole, over two directories too: a sync of either keeps
//!   it. What hangs below a lost name is gone; what was removed may be back.
//! * **A failed sync** ([`Failing::Sync`]) behaves as on Linux: readers see the new bytes, the next sync succeeds without
//!   writing them, and `drop_cached` or a power cut shows that they are not on the disk: the old bytes, or zeros. Length
//!   and cuts are metadata: the next good sync makes them durable.
//! * **A killed process** ([`kill`](SimDisk::kill)) loses handles and locks, nothing else.
//!
//! # What it simplifies
//!
//! Space is the sum of the lengths of files, holes included; a name costs nothing, but none can be made on a full disk.
//! Directories cannot be renamed. There are no links, permissions or times of directories.

mod content;
mod crash;
mod directory;
mod dump;
mod faults;
mod inode;
mod operations;
mod seam;
mod state;
mod tests;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use fastrand::Rng;

use self::directory::Journal;
pub(crate) use self::faults::Failing;
use self::state::{Power, State};
use crate::common::guard::lock;

/// A simulated disk; clones are the same disk.
#[derive(Clone)]
pub(crate) struct SimDisk {
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimDisk")
    }
}

impl SimDisk {
    /// An empty disk without a limit. The seed decides what is left of interrupted and failed operations.
    pub(crate) fn new(seed: u64) -> Self {
        Self::with(State::new(seed))
    }

    fn with(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Limits the bytes of all files together; may be less than there are already. Restarts keep it.
    pub(crate) fn set_capacity(&self, bytes: u64) {
        lock(&self.state).capacity = bytes;
    }

    /// Makes every write take at most so many bytes, until a restart.
    pub(crate) fn set_short_writes(&self, limit: Option<usize>) {
        lock(&self.state).faults.short_writes = limit;
    }

    /// Makes the next operation of a kind fail with `EIO` whose path fits, until a restart. May be called repeatedly.
    pub(crate) fn fail_once(&self, failing: Failing, matches: impl Fn(&Path) -> bool + Send + 'static) {
        lock(&self.state).faults.arm(failing, matches);
    }

    /// Failures asked for that have not happened yet.
    pub(crate) fn faults_left(&self) -> usize {
        lock(&self.state).faults.armed()
    }

    /// Mutating operations so far, failed ones included: creates, writes, syncs, cuts, renames, removals.
    pub(crate) fn operations(&self) -> u64 {
        lock(&self.state).operations
    }

    /// Lets so many mutating operations pass; the power goes off during the next one, which is left half done.
    pub(crate) fn power_off_after(&self, operations: u64) {
        lock(&self.state).power = Power::OnFor(operations);
    }

    /// Whether the power is off.
    pub(crate) fn is_off(&self) -> bool {
        lock(&self.state).power == Power::Off
    }

    /// Cuts the power, if it is on, and returns one of the disks that this may leave.
    pub(crate) fn power_cut(&self, rng: &mut Rng) -> Self {
        lock(&self.state).power = Power::Off;
        self.would_leave(rng)
    }

    /// One of the disks that a power cut would leave now; this one goes on.
    pub(crate) fn would_leave(&self, rng: &mut Rng) -> Self {
        let state = lock(&self.state);
        let left = crash::after_power_cut(&state.inodes, rng);
        Self::with(state.restarted(state.inodes.reopened(left, Journal::default()), rng.u64(..)))
    }

    /// Kills the process that uses the disk and returns the disk for the next one: what the system has cached is there.
    pub(crate) fn kill(&self) -> Self {
        let mut state = lock(&self.state);
        state.power = Power::Off;
        let seed = state.rng.u64(..);
        let inodes = &state.inodes;
        Self::with(state.restarted(inodes.reopened(inodes.table.clone(), inodes.journal.clone()), seed))
    }

    /// All names with what is durable of them, for messages of failed tests.
    pub(crate) fn dump(&self) -> String {
        dump::dump(&lock(&self.state).inodes)
    }
}
