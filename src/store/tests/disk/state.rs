//! Everything behind the lock of a disk: files, power, space, the clock.

use std::collections::BTreeSet;
use std::io;

use fastrand::Rng;
use rustix::io::Errno;

use super::directory::Ino;
use super::faults::Faults;
use super::inode::Inodes;

/// Where the disk's clock starts: an ordinary time, in nanoseconds since 1970.
const FIRST_NS: i64 = 1_700_000_000_000_000_000;

/// Whether a mutating operation runs, or is the one during which the power goes off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Gate {
    Whole,
    Interrupted,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Power {
    On,
    /// That many mutating operations more.
    OnFor(u64),
    Off,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) inodes: Inodes,
    pub(super) locks: BTreeSet<Ino>,
    pub(super) faults: Faults,
    pub(super) capacity: u64,
    pub(super) power: Power,
    /// Mutating operations so far.
    pub(super) operations: u64,
    pub(super) clock_ns: i64,
    pub(super) rng: Rng,
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            inodes: Inodes::new(),
            locks: BTreeSet::new(),
            faults: Faults::default(),
            capacity: u64::MAX,
            power: Power::On,
            operations: 0,
            clock_ns: FIRST_NS,
            rng: Rng::with_seed(seed),
        }
    }

    /// The same machine, started again with these files.
    pub(super) fn restarted(&self, inodes: Inodes, seed: u64) -> Self {
        Self { inodes, capacity: self.capacity, clock_ns: self.clock_ns, ..Self::new(seed) }
    }

    pub(super) fn powered(&self) -> io::Result<()> {
        if self.power == Power::Off { Err(Errno::IO.into()) } else { Ok(()) }
    }

    /// Counts a mutating operation; the power may go off during it.
    pub(super) fn begin(&mut self) -> io::Result<Gate> {
        self.powered()?;
        self.operations += 1;
        match &mut self.power {
            Power::OnFor(0) => {
                self.power = Power::Off;
                return Ok(Gate::Interrupted);
            }
            Power::OnFor(left) => *left -= 1,
            Power::On | Power::Off => {}
        }
        Ok(Gate::Whole)
    }

    /// Does a mutating operation; one that is interrupted by the power happens or not, and never answers.
    pub(super) fn mutate<T>(&mut self, operation: impl FnOnce(&mut Self) -> io::Result<T>) -> io::Result<T> {
        if self.begin()? == Gate::Whole {
            return operation(self);
        }
        if self.rng.bool() {
            // Nobody is there to be told what came of it.
            let _unseen = operation(self);
        }
        Err(Errno::IO.into())
    }

    /// The time of a change: each is later than the one before.
    pub(super) fn tick(&mut self) -> i64 {
        self.clock_ns += 1000;
        self.clock_ns
    }

    pub(super) fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.inodes.used())
    }
}
