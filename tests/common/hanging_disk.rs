//! A disk that hangs.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;

/// Makes syncs of the processes that are started with it wait while it is told to (`hanging_disk.c`).
pub struct HangingDisk(tempfile::TempDir);

impl HangingDisk {
    /// One that works for now. `None`, and a line that says so, where there is no C compiler.
    pub fn new() -> Option<Self> {
        let disk = Self(tempfile::tempdir().unwrap());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/hanging_disk.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(disk.library()).arg(source).stdin(Stdio::null());
        match compiler.status() {
            Ok(status) => assert!(status.success(), "the compiler ended with {status}"),
            Err(error) => {
                static SAY: Once = Once::new();
                // Past the capture of the test harness: a skipped test must not look like one that has passed.
                SAY.call_once(|| {
                    let line = format!("skipped: there is no C compiler `cc`: {error}\n");
                    std::io::stderr().write_all(line.as_bytes()).unwrap();
                });
                return None;
            }
        }
        Some(disk)
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
