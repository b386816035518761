//! Failures on request.

use std::fmt;
use std::path::Path;

/// What fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failing {
    /// A write takes some of its bytes, or none, then the device fails.
    Write,
    /// A sync of a file, and nothing of its bytes gets to the disk.
    Sync,
    /// A sync of a file, and some sectors get to the disk.
    PartialSync,
    /// A cut or an extension.
    SetLen,
    /// Creating a file or a directory.
    Create,
    /// A rename; the path is the old one.
    Rename,
    /// Removing a file or a directory.
    Remove,
    /// A sync of a directory; its changes stay as they were and may be synced again.
    SyncDir,
}

struct Fault {
    failing: Failing,
    matches: Box<dyn Fn(&Path) -> bool + Send>,
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failing.fmt(f)
    }
}

/// The failures to come.
#[derive(Debug, Default)]
pub(super) struct Faults {
    armed: Vec<Fault>,
    /// Most bytes that a write takes.
    pub(super) short_writes: Option<usize>,
}

impl Faults {
    pub(super) fn arm(&mut self, failing: Failing, matches: impl Fn(&Path) -> bool + Send + 'static) {
        self.armed.push(Fault { failing, matches: Box::new(matches) });
    }

    pub(super) fn armed(&self) -> usize {
        self.armed.len()
    }

    /// Whether an operation fails; that was it then.
    pub(super) fn strike(&mut self, failing: Failing, path: &Path) -> bool {
        let found = self.armed.iter().position(|fault| fault.failing == failing && (fault.matches)(path));
        found.map(|fault| self.armed.remove(fault)).is_some()
    }
}
