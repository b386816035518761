//! The commit log, the disks, and whether all is well.

use std::time::{SystemTime, UNIX_EPOCH};

use super::exposition::Exposition;
use crate::broker::BrokerControl;

pub(super) fn write(control: &BrokerControl, out: &mut Exposition) {
    let health = control.health();
    out.flag(
        "metaq_healthy",
        "Whether there is nothing that an operator has to do for the store.",
        health.is_healthy(),
    );
    out.flag(
        "metaq_commit_log_failed",
        "Whether the commit log failed: every put is refused until a restart.",
        health.commit_log_failure.is_some(),
    );
    out.flag(
        "metaq_commit_log_full",
        "Whether a full disk keeps the commit log from getting room: puts that need it are refused.",
        health.commit_log_full.is_some(),
    );
    out.counter(
        "metaq_commit_log_waits_total",
        "Times that puts waited because every file of the commit log was full.",
        health.commit_log_waits,
    );
    let files = control.log_files();
    let used = files.all.saturating_sub(files.free + files.full);
    out.gauges(
        "metaq_commit_log_files",
        "Files of the commit log: free, in use, or full and to be checkpointed.",
        [("free", files.free), ("used", used), ("full", files.full)].map(|(state, n)| ([("state", state)], n as f64)),
    );
    let times = control.store_times();
    for (name, help, histogram) in [
        (
            "metaq_commit_log_write_duration_seconds",
            "Writes to the commit log, each for all messages that came meanwhile.",
            &times.log_write,
        ),
        (
            "metaq_commit_log_sync_duration_seconds",
            "Syncs of the commit log, each for all messages that came meanwhile.",
            &times.log_sync,
        ),
        ("metaq_segment_sync_duration_seconds", "Syncs of segment files at checkpoints.", &times.segment_sync),
        (
            "metaq_flush_duration_seconds",
            "Flushes of topics that are flushed periodically, and those that a reader waits for.",
            &times.flush,
        ),
    ] {
        out.histogram(name, help, &histogram.snapshot());
    }
    retention(control, out);
    out.gauge(
        "metaq_partitions_poisoned",
        "Partitions that refuse puts until a restart because their own files failed.",
        health.poisoned.len() as f64,
    );
    out.gauge("metaq_partitions_full", "Partitions whose last put found the disk full.", health.full.len() as f64);
    let paths: Vec<_> = control.data_paths().into_iter().map(|data| (data.path.display().to_string(), data)).collect();
    out.gauges(
        "metaq_data_path_stored_bytes",
        "Bytes of messages in the partitions of a data directory.",
        paths.iter().map(|(path, data)| ([("path", path.as_str())], data.bytes as f64)),
    );
    out.gauges(
        "metaq_data_path_free_bytes",
        "Bytes that the broker may still write to the file system of a data directory.",
        paths.iter().filter_map(|(path, data)| Some(([("path", path.as_str())], data.free_bytes? as f64))),
    );
}

fn retention(control: &BrokerControl, out: &mut Exposition) {
    let totals = control.retention();
    let seconds = |time: Option<SystemTime>| {
        time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default().as_secs_f64()
    };
    out.counter("metaq_retention_runs_total", "Looks for expired segments that are over.", totals.runs);
    out.counters(
        "metaq_retention_segments_total",
        "Expired segments, by what became of them.",
        [("removed", totals.segments_removed), ("archived", totals.segments_archived)]
            .map(|(outcome, count)| ([("outcome", outcome)], count)),
    );
    out.counter(
        "metaq_retention_freed_bytes_total",
        "Bytes by which files became less; a segment that is only renamed frees none.",
        totals.bytes_freed,
    );
    out.counter(
        "metaq_retention_failures_total",
        "Times that a partition could not be dealt with, or only in part; the log says why.",
        totals.failures,
    );
    out.flag("metaq_retention_running", "Whether a look for expired segments is under way.", totals.running);
    out.gauge(
        "metaq_retention_last_run_time_seconds",
        "When the last one that is over had begun, in seconds since 1970; 0 before the first.",
        seconds(totals.last_run),
    );
    out.gauge(
        "metaq_retention_last_run_duration_seconds",
        "How long it took.",
        totals.last_duration.unwrap_or_default().as_secs_f64(),
    );
    out.gauge(
        "metaq_retention_next_run_time_seconds",
        "When the next one begins, in seconds since 1970; 0 if no deleteWhen has a time any more.",
        seconds(totals.next_run),
    );
}
