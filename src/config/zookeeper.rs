//! The section `[zookeeper]` (03 §3, 04 §1).

use super::error::Problems;
use super::ini::Section;
use super::keys::{SYSTEM_IGNORED, SYSTEM_KEYS, ZOOKEEPER_KEYS};
use super::reader::{POSITIVE_INT, Reader, shortened};
use super::value::Value;

const DEFAULT_CONNECT: &str = "localhost:2181";
const DEFAULT_ROOT: &str = "/meta";

/// How the broker finds its cluster; a change of any value takes a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZooKeeperConfig {
    /// `zk.zkConnect`: `host[:port]`, several joined by commas, at the end perhaps a chroot; no blanks.
    pub connect: String,
    /// `zk.zkRoot` with a leading and without a trailing `/`; the empty text for `/`.
    pub root: String,
    /// `zk.zkEnable`: false keeps the broker away from ZooKeeper altogether.
    pub enable: bool,
    /// `zk.zkSessionTimeoutMs`, at least 1 millisecond.
    pub session_timeout_ms: u32,
    /// `zk.zkConnectionTimeoutMs`, at least 1 millisecond.
    pub connection_timeout_ms: u32,
    /// `zk.zkSyncTimeMs`: how long a stopping broker serves on after its nodes are gone, in milliseconds.
    pub sync_time_ms: u32,
}

/// A root below which no node can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRoot {
    /// The empty text.
    #[error("zk.zkRoot must not be empty, write / for nodes directly below the root")]
    Empty,
    /// ZooKeeper refuses the path.
    #[error(
        "zk.zkRoot={0} is not a ZooKeeper path: its parts must not be empty, '.', '..' or contain control characters"
    )]
    Path(String),
}

/// Adds a leading `/` if it is missing and takes one trailing `/` away, so `/` becomes the empty text (04 §1).
pub fn normalize_root(root: &str) -> Result<String, InvalidRoot> {
    if root.is_empty() {
        return Err(InvalidRoot::Empty);
    }
    let rooted = if root.starts_with('/') { root.to_owned() } else { format!("/{root}") };
    let normal = rooted.strip_suffix('/').unwrap_or(&rooted);
    let is_path = normal.is_empty() || is_absolute_path(normal);
    if is_path { Ok(normal.to_owned()) } else { Err(InvalidRoot::Path(shortened(root))) }
}

fn is_absolute_path(path: &str) -> bool {
    path.strip_prefix('/').is_some_and(|path| {
        path.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.contains(char::is_control)) //
    })
}

impl ZooKeeperConfig {
    pub(super) fn read(section: Option<&Section>, problems: &mut Problems) -> Self {
        let d = Self {
            connect: DEFAULT_CONNECT.to_owned(),
            root: DEFAULT_ROOT.to_owned(),
            enable: true,
            session_timeout_ms: 30_000,
            connection_timeout_ms: 30_000,
            sync_time_ms: 5_000,
        };
        let Some(section) = section else {
            problems.missing(None, None, "there is no section [zookeeper]; zk.zkConnect must be set in it");
            return d;
        };
        // the reference takes every name of [system] here, too
        let ignored: Vec<&str> = SYSTEM_KEYS.iter().chain(SYSTEM_IGNORED).copied().collect();
        let mut reader = Reader::new(section, problems);
        let r = &mut reader;
        r.check_keys(ZOOKEEPER_KEYS, &ignored, |_| false);
        let read = Self {
            connect: r.parse("zk.zkConnect", connect).unwrap_or(d.connect),
            root: r.parse("zk.zkRoot", normalize_root).unwrap_or(d.root),
            enable: r.bool("zk.zkEnable").unwrap_or(d.enable),
            session_timeout_ms: r.int("zk.zkSessionTimeoutMs", POSITIVE_INT).unwrap_or(d.session_timeout_ms),
            connection_timeout_ms: r.int("zk.zkConnectionTimeoutMs", POSITIVE_INT).unwrap_or(d.connection_timeout_ms),
            sync_time_ms: r.int("zk.zkSyncTimeMs", 0..=i64::from(i32::MAX)).unwrap_or(d.sync_time_ms),
        };
        if let Some(option) = section.get("zk.zkConnect").filter(|_| r.option("zk.zkConnect").is_none()) {
            r.warn(option, format!("zk.zkConnect is blank, {DEFAULT_CONNECT} is used"));
        }
        if ZOOKEEPER_KEYS.iter().all(|key| r.option(key).is_none()) {
            problems.missing(Some(section.line()), Some(section.name()), "Null zookeeper config");
        }
        read
    }

    /// All keys with the values in force, in the order of [`ZOOKEEPER_KEYS`].
    pub fn entries(&self) -> Vec<(&'static str, Value)> {
        let root = if self.root.is_empty() { "/" } else { &self.root };
        vec![
            ("zk.zkConnect", Value::from(self.connect.as_str())),
            ("zk.zkRoot", Value::from(root)),
            ("zk.zkEnable", Value::from(self.enable)),
            ("zk.zkSessionTimeoutMs", Value::from(self.session_timeout_ms)),
            ("zk.zkConnectionTimeoutMs", Value::from(self.connection_timeout_ms)),
            ("zk.zkSyncTimeMs", Value::from(self.sync_time_ms)),
        ]
    }
}

/// Takes blanks and empty elements out of a connect string and checks the rest.
fn connect(text: &str) -> Result<String, String> {
    let (servers, chroot) = match text.find('/') {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let servers: Vec<&str> = servers.split(',').map(str::trim).filter(|server| !server.is_empty()).collect();
    if servers.is_empty() {
        return Err("Empty zookeeper servers".to_owned());
    }
    if let Some(server) = servers.iter().find(|server| !is_server(server)) {
        return Err(format!("zk.zkConnect: '{}' is not host or host:port", shortened(server)));
    }
    let chroot = chroot.trim().trim_end_matches('/');
    if !chroot.is_empty() && !is_absolute_path(chroot) {
        return Err(format!("zk.zkConnect: '{}' is not a path, it must look like /a/b", shortened(chroot)));
    }
    Ok(format!("{}{chroot}", servers.join(",")))
}

fn is_server(server: &str) -> bool {
    let port_is_fine = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    let (host, rest) = match server.strip_prefix('[') {
        Some(bracketed) => match bracketed.split_once(']') {
            Some((host, rest)) if host.parse::<std::net::Ipv6Addr>().is_ok() => (host, rest),
            _ => return false,
        },
        None => server.find(':').map_or((server, ""), |at| server.split_at(at)),
    };
    let is_host = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c.is_control());
    is_host && (rest.is_empty() || rest.strip_prefix(':').is_some_and(port_is_fine))
}

#[cfg(test)]
mod tests;
