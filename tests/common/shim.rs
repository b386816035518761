//! Libraries that are preloaded into a process to make its system calls fail or hang.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;

/// Compiles a source of the project into a library. False, and a line that says so, where there is no C compiler.
pub fn compile(source: &str, library: &Path) -> bool {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(library).arg(source).stdin(Stdio::null());
    match compiler.status() {
        Ok(status) => {
            assert!(status.success(), "the compiler ended with {status}");
            true
        }
        Err(error) => {
            static SAY: Once = Once::new();
            // Past the capture of the test harness: a skipped test must not look like one that has passed.
            SAY.call_once(|| {
                let line = format!("skipped: there is no C compiler `cc`: {error}\n");
                std::io::stderr().write_all(line.as_bytes()).unwrap();
            });
            false
        }
    }
}
