//! The state of a broker as a plain value, for programs too.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::control::BrokerControl;
use super::identity::VERSION;
use super::retention::RetentionTotals;
use crate::id::TopicName;
use crate::store::{ClosedPartitions, FailedPartition, Health};
use crate::zk::RegistrationState;

/// A broker in short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BrokerStatus {
    /// `brokerId`.
    pub broker_id: i64,
    /// The published address.
    pub url: String,
    /// Where it listens.
    pub address: String,
    /// The version that clients are told.
    pub version: &'static str,
    /// The process.
    pub pid: u32,
    /// When it was started, in seconds since 1970.
    pub started_at: u64,
    /// Seconds since then.
    pub uptime_seconds: u64,
    /// Whether it serves this machine only.
    pub local: bool,
    /// Whether a stop has begun.
    pub stopping: bool,
    /// Why clients should not come here at present; empty if it is ready.
    pub not_ready: Vec<String>,
    /// The connect string of its ZooKeeper, its own one in local mode; `None` if it keeps away from any.
    pub zookeeper: Option<String>,
    /// Where the registration stands.
    pub registration: RegistrationStatus,
    /// What an operator must know of the store.
    pub health: HealthStatus,
    /// Topics that are configured or have data.
    pub topics: usize,
    /// Partitions with data.
    pub partitions: usize,
    /// Their segments.
    pub segments: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Closed ranges of partitions.
    pub closed_partitions: Vec<ClosedRange>,
    /// Open connections of clients.
    pub connections: u64,
    /// How many there may be.
    pub max_connections: usize,
    /// The configuration file.
    pub config_path: Option<String>,
    /// CRC-32 of its content in force.
    pub config_checksum: u32,
    /// What retention has done.
    pub retention: RetentionStatus,
    /// How the last reload ended; `None` if there was none.
    pub last_reload: Option<ReloadStatus>,
}

/// Where the registration in ZooKeeper stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RegistrationStatus {
    /// `off` without ZooKeeper, else one of [`RegistrationState::NAMES`].
    pub state: &'static str,
    /// The same in words.
    pub text: String,
}

/// What retention has done since the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RetentionStatus {
    /// Whether it is at work.
    pub running: bool,
    /// Looks for expired segments that are over.
    pub runs: u64,
    /// When the last one of these had begun, in seconds since 1970.
    pub last_run: Option<u64>,
    /// When the next one begins, in seconds since 1970; `None` if no `deleteWhen` has a time any more.
    pub next_run: Option<u64>,
    /// Segments that were removed.
    pub segments_removed: u64,
    /// Segments that were archived.
    pub segments_archived: u64,
    /// Bytes by which files became less.
    pub bytes_freed: u64,
    /// Times that a partition could not be dealt with, or only in part.
    pub failures: u64,
}

/// How the last reload of the configuration ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReloadStatus {
    /// When that was, in seconds since 1970.
    pub at: u64,
    /// Why it was refused, if it was.
    pub refused: Option<String>,
}

/// The health of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HealthStatus {
    /// Whether there is nothing that an operator has to do.
    pub healthy: bool,
    /// Why the commit log failed.
    pub commit_log_failure: Option<String>,
    /// Whether a thread that stores messages ended by a fault.
    pub committer_failed: bool,
    /// The full disk that keeps the commit log from getting room.
    pub commit_log_full: Option<String>,
    /// Times that puts waited because every file of the log was full.
    pub commit_log_waits: u64,
    /// Partitions that refuse puts until a restart.
    pub poisoned: Vec<FailedStatus>,
    /// Partitions whose last put found the disk full.
    pub full: Vec<FailedStatus>,
    /// Data directories with little space.
    pub low_space: Vec<LowSpaceStatus>,
    /// What else there is to know.
    pub warnings: Vec<String>,
}

/// A partition that does not take messages at present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedStatus {
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// What happened.
    pub reason: String,
}

/// A data directory with little space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LowSpaceStatus {
    /// The directory.
    pub path: String,
    /// Bytes free.
    pub free_bytes: u64,
}

/// Partitions of a topic that the operator closed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ClosedRange {
    /// The topic.
    pub topic: String,
    /// The first one.
    pub start: i32,
    /// The last one.
    pub end: i32,
}

impl BrokerStatus {
    pub(super) fn of(control: &BrokerControl) -> Self {
        let partitions = control.partitions();
        Self {
            broker_id: control.broker_id().get().into(),
            url: control.url().to_string(),
            address: control.address().to_string(),
            version: VERSION,
            pid: std::process::id(),
            started_at: seconds(control.started_at()),
            uptime_seconds: control.uptime().as_secs(),
            local: control.is_local(),
            stopping: control.is_stopping(),
            not_ready: control.reasons_not_ready(),
            zookeeper: control.registration().map(|_| control.config().zookeeper.connect.clone()),
            registration: RegistrationStatus::of(control.registration().as_ref()),
            health: HealthStatus::of(control.health()),
            topics: control.topic_count(),
            partitions: partitions.len(),
            segments: partitions.iter().map(|log| log.segment_count()).sum(),
            bytes: partitions.iter().map(|log| log.size_bytes()).sum(),
            closed_partitions: control.closed_partitions(),
            connections: control.traffic().open_connections,
            max_connections: control.max_connections(),
            config_path: control.config().path.as_ref().map(|path| path.display().to_string()),
            config_checksum: control.config().checksum,
            retention: RetentionStatus::of(&control.retention()),
            last_reload: control
                .last_reload()
                .map(|reload| ReloadStatus { at: seconds(reload.at), refused: reload.refused }),
        }
    }
}

/// Seconds since 1970.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl RetentionStatus {
    fn of(totals: &RetentionTotals) -> Self {
        Self {
            running: totals.running,
            runs: totals.runs,
            last_run: totals.last_run.map(seconds),
            next_run: totals.next_run.map(seconds),
            segments_removed: totals.segments_removed,
            segments_archived: totals.segments_archived,
            bytes_freed: totals.bytes_freed,
            failures: totals.failures,
        }
    }
}

impl RegistrationStatus {
    fn of(state: Option<&RegistrationState>) -> Self {
        match state {
            None => Self { state: "off", text: "this broker keeps away from ZooKeeper".to_owned() },
            Some(state) => Self { state: state.name(), text: state.to_string() },
        }
    }
}

impl HealthStatus {
    fn of(health: Health) -> Self {
        let healthy = health.is_healthy();
        let failed = |partitions: Vec<FailedPartition>| partitions.into_iter().map(FailedStatus::of).collect();
        let low_space = health.low_space.into_iter();
        Self {
            healthy,
            commit_log_failure: health.commit_log_failure.map(|reason| reason.to_string()),
            committer_failed: health.committer_failed,
            commit_log_full: health.commit_log_full.map(|path| path.display().to_string()),
            commit_log_waits: health.commit_log_waits,
            poisoned: failed(health.poisoned),
            full: failed(health.full),
            low_space: low_space
                .map(|low| LowSpaceStatus { path: low.path.display().to_string(), free_bytes: low.free_bytes })
                .collect(),
            warnings: health.journal_warning.into_iter().chain(health.ids_warning).collect(),
        }
    }
}

impl FailedStatus {
    fn of(failed: FailedPartition) -> Self {
        Self { topic: failed.topic.to_string(), partition: failed.index.get(), reason: failed.reason.to_string() }
    }
}

impl ClosedRange {
    pub(super) fn all(closed: &ClosedPartitions) -> Vec<Self> {
        let range = |topic: &TopicName, range: &std::ops::RangeInclusive<i32>| Self {
            topic: topic.to_string(),
            start: *range.start(),
            end: *range.end(),
        };
        let list = closed.list();
        let mut all: Vec<_> = list.iter().flat_map(|(topic, ranges)| ranges.iter().map(|r| range(topic, r))).collect();
        all.sort();
        all
    }
}
