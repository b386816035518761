//! `metaq admin status`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::Value;

use super::http::AdminClient;
use crate::cli::output::{Format, Printer};
use crate::cli::table::{Table, bytes, counted, duration};

/// What is shown of the broker's own words; another version may say more or less.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    broker_id: i64,
    url: String,
    address: String,
    version: String,
    pid: u32,
    uptime_seconds: u64,
    local: bool,
    stopping: bool,
    not_ready: Vec<String>,
    zookeeper: Option<String>,
    registration: Registration,
    health: Health,
    topics: u64,
    partitions: u64,
    segments: u64,
    bytes: u64,
    closed_partitions: Vec<ClosedRange>,
    connections: u64,
    max_connections: u64,
    config_path: Option<String>,
    config_checksum: u32,
    retention: Retention,
    last_reload: Option<Reload>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Registration {
    text: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Health {
    commit_log_failure: Option<String>,
    committer_failed: bool,
    commit_log_full: Option<String>,
    poisoned: Vec<Failed>,
    full: Vec<Failed>,
    low_space: Vec<LowSpace>,
    warnings: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Failed {
    topic: String,
    partition: i32,
    reason: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LowSpace {
    path: String,
    free_bytes: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClosedRange {
    topic: String,
    start: i32,
    end: i32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Retention {
    running: bool,
    runs: u64,
    last_run: Option<u64>,
    next_run: Option<u64>,
    segments_removed: u64,
    segments_archived: u64,
    bytes_freed: u64,
    failures: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reload {
    at: u64,
    refused: Option<String>,
}

/// Prints it; the first line has the process and the address, each further one begins with what it tells of.
pub(super) async fn show(client: &AdminClient, printer: &mut Printer, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Json => printer.json(&client.get::<Value>("/api/v1/status").await?)?,
        Format::Text => {
            let status: Status = client.get("/api/v1/status").await?;
            let up = duration(Duration::from_secs(status.uptime_seconds));
            printer.line(format_args!("pid {}, {}, up {up}", status.pid, status.url))?;
            let mut table = Table::plain();
            status.rows(client.address()).into_iter().for_each(|(name, value)| table.row([name.to_owned(), value]));
            printer.line(&table)?;
        }
    }
    Ok(())
}

impl Status {
    fn rows(&self, admin: &str) -> Vec<(&'static str, String)> {
        let mut rows = vec![
            ("broker", format!("{}, version {}", self.broker_id, self.version)),
            ("listening", format!("{}, http://{admin}", self.address)),
            ("mode", if self.local { "local" } else { "cluster" }.to_owned()),
            ("zookeeper", self.zookeeper.clone().unwrap_or_else(|| "none".to_owned())),
            ("registration", self.registration.text.clone()),
            (
                "ready",
                if self.not_ready.is_empty() { "yes".to_owned() } else { format!("no: {}", self.not_ready.join("; ")) },
            ),
            ("health", self.health.text()),
            (
                "holding",
                format!(
                    "{}, {}, {}, {}",
                    counted(self.topics, "topic"),
                    counted(self.partitions, "partition"),
                    counted(self.segments, "segment"),
                    bytes(self.bytes)
                ),
            ),
            ("connections", format!("{} of {}", self.connections, self.max_connections)),
        ];
        if self.stopping {
            rows.push(("stopping", "yes".to_owned()));
        }
        let closed = |range: &ClosedRange| match range.start == range.end {
            true => format!("{} {}", range.topic, range.start),
            false => format!("{} {} to {}", range.topic, range.start, range.end),
        };
        if !self.closed_partitions.is_empty() {
            rows.push(("closed", self.closed_partitions.iter().map(closed).collect::<Vec<_>>().join(", ")));
        }
        if let Some(path) = &self.config_path {
            rows.push(("configuration", format!("{path}, checksum {}", self.config_checksum)));
        }
        rows.push(("retention", self.retention.text()));
        rows.push(("last reload", self.last_reload.as_ref().map_or_else(|| "none".to_owned(), Reload::text)));
        rows
    }
}

impl Health {
    fn text(&self) -> String {
        let mut problems = Vec::new();
        problems.extend(self.commit_log_failure.iter().map(|why| format!("the commit log failed: {why}")));
        if self.committer_failed {
            problems.push("a thread that stores messages has ended: restart the broker".to_owned());
        }
        problems.extend(self.commit_log_full.iter().map(|path| format!("the disk of {path} is full")));
        let failed = |failed: &Failed| format!("{}-{}: {}", failed.topic, failed.partition, failed.reason);
        problems.extend(self.poisoned.iter().map(|one| format!("no puts to {}", failed(one))));
        problems.extend(self.full.iter().map(|one| format!("disk full for {}", failed(one))));
        problems.extend(self.low_space.iter().map(|low| format!("{} free under {}", bytes(low.free_bytes), low.path)));
        problems.extend(self.warnings.iter().cloned());
        if problems.is_empty() { "good".to_owned() } else { problems.join("; ") }
    }
}

impl Retention {
    fn text(&self) -> String {
        let last = self.last_run.map_or_else(|| "has not run yet".to_owned(), |at| format!("ran {} ago", since(at)));
        let next = match self.next_run {
            _ if self.running => "running now".to_owned(),
            Some(at) => format!("next in {}", until(at)),
            None => "never again: no deleteWhen has a time any more".to_owned(),
        };
        let mut text = format!("{last}, {next}");
        if self.runs == 0 {
            return text;
        }
        text += &format!(
            "; in {} {} removed, {} archived, {} freed",
            counted(self.runs, "run"),
            counted(self.segments_removed, "segment"),
            self.segments_archived,
            bytes(self.bytes_freed)
        );
        if self.failures > 0 {
            text += &format!(", {}: see the log", counted(self.failures, "failure"));
        }
        text
    }
}

/// The time from a moment in seconds since 1970 to now.
fn since(at: u64) -> String {
    duration(Duration::from_secs(now().saturating_sub(at)))
}

/// The time from now to such a moment.
fn until(at: u64) -> String {
    duration(Duration::from_secs(at.saturating_sub(now())))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Reload {
    fn text(&self) -> String {
        let ago = since(self.at);
        match &self.refused {
            None => format!("done {ago} ago"),
            Some(why) => format!("refused {ago} ago: {why}"),
        }
    }
}
