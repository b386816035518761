//! A disk that hangs.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Makes syncs of the processes that are started with it wait while it is told to (`hanging_disk.c`).
pub struct HangingDisk(tempfile::TempDir);

impl HangingDisk {
    /// One that works for now. `None`, and a line that says so, where there is no C compiler.
    pub fn new() -> Option<Self> {
        let disk = Self(tempfile::tempdir().unwrap());
        super::shim::compile("tests/common/hanging_disk.c", &disk.library()).then_some(disk)
    }

    /// Has a process and its children use it.
    pub fn under<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("LD_PRELOAD", self.library()).env("METAQ_HANGING_DISK", self.trigger())
    }

    /// From now on no sync ends.
    pub fn hang(&self) {
        fs::write(self.trigger(), "").unwrap();
    }

    fn library(&self) -> PathBuf {
        self.0.path().join("hanging_disk.so")
    }

    fn trigger(&self) -> PathBuf {
        self.0.path().join("hangs")
    }
}
