//! What a process takes.

use std::fmt;
use std::fs;

/// One look at it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) anonymous_kb: u64,
    threads: u64,
    descriptors: usize,
}

impl Usage {
    pub(crate) fn of(process: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let value = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
        Self { anonymous_kb: value("RssAnon:"), threads: value("Threads:"), descriptors }
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { anonymous_kb, threads, descriptors } = self;
        write!(f, "{anonymous_kb:>7} kB anonymous, {threads} threads, {descriptors} descriptors")
    }
}
