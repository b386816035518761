//! A file system that is quickly full.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;

use tempfile::TempDir;

/// Mounted until it is dropped.
pub struct SmallVolume {
    dir: TempDir,
}

impl SmallVolume {
    /// Mounts a file system of so many KiB. `None`, and a line that says so, where that is not possible.
    pub fn mount(kib: u32) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"]).arg(dir.path());
        if mount.stdin(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
            return Some(Self { dir });
        }
        static SAY: Once = Once::new();
        // Past the capture of the test harness: a skipped test must not look like one that has passed.
        SAY.call_once(|| {
            let line = b"skipped: a file system cannot be mounted here, which takes root\n";
            std::io::stderr().write_all(line).unwrap();
        });
        None
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    fn ballast(&self) -> PathBuf {
        self.dir.path().join("ballast")
    }

    /// Takes space away until it is [given back](Self::give_back).
    pub fn take(self, kib: usize) -> Self {
        fs::write(self.ballast(), vec![0; kib * 1024]).unwrap();
        self
    }

    /// Gives the space back that was taken.
    pub fn give_back(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for SmallVolume {
    fn drop(&mut self) {
        // Lazily: a broker of a failed test may still be on it.
        let status = Command::new("umount").arg("-l").arg(self.dir.path()).status();
        if !status.is_ok_and(|status| status.success()) && !std::thread::panicking() {
            panic!("{} could not be unmounted", self.dir.path().display());
        }
    }
}
