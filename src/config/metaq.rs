//! The section `[metaq]`: what only this broker knows; the Java broker ignores the section.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use super::error::Problems;
use super::ini::Section;
use super::keys::METAQ_KEYS;
use super::reader::{Reader, shortened};
use super::value::Value;

const BYTES_IN_A_WIRE_LENGTH: i64 = i32::MAX as i64;

/// Address and limits of the listener, and other additions to the reference; all optional, any change takes a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaqConfig {
    /// `bindAddress`: the address that `serverPort` listens on.
    pub bind_address: IpAddr,
    /// `maxConnections` at a time, 1 to 1 000 000.
    pub max_connections: usize,
    /// `maxCommandLineBytes`: the longest command line, 1 024 to 1 048 576 bytes.
    pub max_command_line_bytes: usize,
    /// `maxBodyBytes`: the largest body of a command, 1 024 to 2 147 483 647 bytes.
    pub max_body_bytes: usize,
    /// `maxInFlightBytesPerConnection`: commands not answered and answers not taken, [`Self::max_body_bytes`] to
    /// 17 179 869 184 bytes.
    pub max_in_flight_bytes_per_connection: usize,
    /// `maxReceivingBytes`: bodies beyond 64 KiB that are arriving, over all connections, 65 536 to 1 099 511 627 776
    /// bytes.
    pub max_receiving_bytes: usize,
    /// `maxUnsentBytes`: answers that clients have not taken yet, over all connections, 1 048 576 to 1 099 511 627 776
    /// bytes.
    pub max_unsent_bytes: usize,
    /// `maxWildcardTopics`: how many topics may come into being by patterns, 0 to 1 000 000.
    pub max_wildcard_topics: usize,
    /// `connectionIdleTimeoutMs`: a connection without a byte in either direction for so long is closed, 0 (never) to
    /// 86 400 000 ms.
    pub connection_idle_timeout_ms: u64,
    /// `freeSpaceWarningBytes`: less free space under a data directory is warned of; 0 warns never.
    pub free_space_warning_bytes: u64,
    /// `ioThreads`: threads that serve connections, 1 to 64; 0 for as many as processors, at most 8.
    pub io_threads: usize,
    /// `adminBindAddress`: the address that `dashboardHttpPort` listens on.
    pub admin_bind_address: IpAddr,
    /// `adminTokenFile`: the file with the token that changing requests need.
    pub admin_token_file: Option<PathBuf>,
    /// `commitLogFileBytes`: size of one file of the commit log, 1 048 576 to 1 073 741 824 bytes.
    pub commit_log_file_bytes: u64,
    /// `commitLogFiles`: how many files the commit log may have, 2 to 64. When all are full, puts wait.
    pub commit_log_files: usize,
    /// `logFileBytes`: size at which the log of the broker is put aside, 4 096 to 1 099 511 627 776 bytes.
    pub log_file_bytes: u64,
    /// `logFiles`: how many earlier logs are kept, 1 to 1 000.
    pub log_files: usize,
}

impl Default for MetaqConfig {
    fn default() -> Self {
        Self {
            bind_address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            max_connections: 10_000,
            max_command_line_bytes: 65_536,
            max_body_bytes: 67_108_864,
            max_in_flight_bytes_per_connection: 67_108_864,
            max_receiving_bytes: 1_073_741_824,
            max_unsent_bytes: 268_435_456,
            max_wildcard_topics: 10_000,
            connection_idle_timeout_ms: 300_000,
            free_space_warning_bytes: 1_073_741_824,
            io_threads: 0,
            admin_bind_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            admin_token_file: None,
            commit_log_file_bytes: 67_108_864,
            commit_log_files: 8,
            log_file_bytes: 67_108_864,
            log_files: 10,
        }
    }
}

impl MetaqConfig {
    pub(super) fn read(section: Option<&Section>, problems: &mut Problems) -> Self {
        let d = Self::default();
        let Some(section) = section else {
            return d;
        };
        let mut reader = Reader::new(section, problems);
        let r = &mut reader;
        r.check_keys(METAQ_KEYS, &[], |_| false);
        let read = Self {
            bind_address: address(r, "bindAddress").unwrap_or(d.bind_address),
            max_connections: r.int("maxConnections", 1..=1_000_000).unwrap_or(d.max_connections),
            max_command_line_bytes: r.int("maxCommandLineBytes", 1_024..=1_048_576).unwrap_or(d.max_command_line_bytes),
            max_body_bytes: r.int("maxBodyBytes", 1_024..=BYTES_IN_A_WIRE_LENGTH).unwrap_or(d.max_body_bytes),
            max_in_flight_bytes_per_connection: r
                .int("maxInFlightBytesPerConnection", 1_024..=17_179_869_184)
                .unwrap_or(d.max_in_flight_bytes_per_connection),
            max_receiving_bytes: r
                .int("maxReceivingBytes", 65_536..=1_099_511_627_776)
                .unwrap_or(d.max_receiving_bytes),
            max_unsent_bytes: r.int("maxUnsentBytes", 1_048_576..=1_099_511_627_776).unwrap_or(d.max_unsent_bytes),
            max_wildcard_topics: r.int("maxWildcardTopics", 0..=1_000_000).unwrap_or(d.max_wildcard_topics),
            connection_idle_timeout_ms: r
                .int("connectionIdleTimeoutMs", 0..=86_400_000)
                .unwrap_or(d.connection_idle_timeout_ms),
            free_space_warning_bytes: r
                .int("freeSpaceWarningBytes", 0..=i64::MAX)
                .unwrap_or(d.free_space_warning_bytes),
            io_threads: r.int("ioThreads", 0..=64).unwrap_or(d.io_threads),
            admin_bind_address: address(r, "adminBindAddress").unwrap_or(d.admin_bind_address),
            admin_token_file: r.path("adminTokenFile"),
            commit_log_file_bytes: r
                .int("commitLogFileBytes", 1_048_576..=1_073_741_824)
                .unwrap_or(d.commit_log_file_bytes),
            commit_log_files: r.int("commitLogFiles", 2..=64).unwrap_or(d.commit_log_files),
            log_file_bytes: r.int("logFileBytes", 4_096..=1_099_511_627_776).unwrap_or(d.log_file_bytes),
            log_files: r.int("logFiles", 1..=1_000).unwrap_or(d.log_files),
        };
        if read.max_in_flight_bytes_per_connection < read.max_body_bytes {
            let message = format!(
                "maxInFlightBytesPerConnection={} is less than maxBodyBytes={}, so the largest body could never be \
                 received; raise the one or lower the other",
                read.max_in_flight_bytes_per_connection, read.max_body_bytes
            );
            let either = ["maxInFlightBytesPerConnection", "maxBodyBytes"].into_iter().find_map(|key| r.option(key));
            if let Some(option) = either {
                r.error(option, message);
            }
        }
        read
    }

    /// All keys with the values in force, in the order of [`METAQ_KEYS`].
    pub fn entries(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("bindAddress", Value::from(self.bind_address.to_string())),
            ("maxConnections", Value::from(self.max_connections)),
            ("maxCommandLineBytes", Value::from(self.max_command_line_bytes)),
            ("maxBodyBytes", Value::from(self.max_body_bytes)),
            ("maxInFlightBytesPerConnection", Value::from(self.max_in_flight_bytes_per_connection)),
            ("maxReceivingBytes", Value::from(self.max_receiving_bytes)),
            ("maxUnsentBytes", Value::from(self.max_unsent_bytes)),
            ("maxWildcardTopics", Value::from(self.max_wildcard_topics)),
            ("connectionIdleTimeoutMs", Value::from(self.connection_idle_timeout_ms)),
            ("freeSpaceWarningBytes", Value::from(self.free_space_warning_bytes)),
            ("ioThreads", Value::from(self.io_threads)),
            ("adminBindAddress", Value::from(self.admin_bind_address.to_string())),
            ("adminTokenFile", Value::from(self.admin_token_file.as_ref())),
            ("commitLogFileBytes", Value::from(self.commit_log_file_bytes)),
            ("commitLogFiles", Value::from(self.commit_log_files)),
            ("logFileBytes", Value::from(self.log_file_bytes)),
            ("logFiles", Value::from(self.log_files)),
        ]
    }
}

fn address(reader: &mut Reader<'_>, key: &str) -> Option<IpAddr> {
    reader.parse(key, |text| {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        bare.parse().map_err(|_| {
            format!("{key}={} is not an IP address; 0.0.0.0 is every IPv4 interface, :: every one", shortened(text))
        })
    })
}

#[cfg(test)]
mod tests;
