//! The commit log, the disks, and whether all is well.

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
