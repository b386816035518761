//! What the process tells the configuration.

use std::path::PathBuf;

/// What defaults depend on outside of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Home directory of the user; the default `dataPath` is `meta` in it.
    pub home: Option<PathBuf>,
    /// Processors; the default of the thread counts is ten times as many.
    pub cpus: u32,
}

impl Environment {
    /// That of this process.
    pub fn detect() -> Self {
        let cpus = std::thread::available_parallelism().ok().and_then(|cpus| u32::try_from(cpus.get()).ok());
        Self { home: std::env::home_dir().filter(|home| !home.as_os_str().is_empty()), cpus: cpus.unwrap_or(1) }
    }
}
