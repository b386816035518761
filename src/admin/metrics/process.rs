//! The process as Linux sees it, under the names that programs for Prometheus expect. Where there is no `/proc`, these are
//! left out.

use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

use super::exposition::Exposition;

/// What is read of `/proc/self/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    /// In the ticks of the clock, in user and kernel.
    cpu_ticks: u64,
    threads: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name in brackets may hold anything.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // As proc(5) counts them, the state is the third.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            threads: field(20)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

pub(super) fn write(out: &mut Exposition) {
    if let Some(stat) = fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(Stat::parse) {
        let seconds = stat.cpu_ticks as f64 / clock_ticks_per_second().max(1) as f64;
        let help = "Processor time in seconds, in user and kernel.";
        out.counters_of_seconds("process_cpu_seconds_total", help, [([], seconds)]);
        let resident = stat.resident_pages.saturating_mul(page_size() as u64);
        out.gauge("process_resident_memory_bytes", "Memory that is present.", resident as f64);
        out.gauge("process_virtual_memory_bytes", "Memory that is mapped.", stat.virtual_bytes as f64);
        out.gauge("process_threads", "Threads.", stat.threads as f64);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // One of them is that of the look itself.
        let open = open.count().saturating_sub(1);
        out.gauge("process_open_fds", "Open file descriptors.", open as f64);
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        out.gauge("process_max_fds", "File descriptors that there may be.", most as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_shifts_nothing() {
        let text = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 140 15 16 17 18 19 20 21 22 23000 24 25 26\n";
        let stat = Stat { cpu_ticks: 155, threads: 20, virtual_bytes: 23_000, resident_pages: 24 };
        assert_eq!(Stat::parse(text), Some(stat));
        assert_eq!(Stat::parse("42 (short) S 1"), None);
    }
}
