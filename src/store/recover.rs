//! Recovery: what happens between the locking of the directories and the loading of the partitions (08 §5–6).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::{info, warn};

use super::clean_stop::{self, CleanStop};
use super::commit_log::files::{LogFiles, remove_files};
use super::error::StoreError;
use super::format::directory_name;
use super::fs::FileSystem;
use super::id_file::{IdFile, Reserved};
use super::load::find_partitions;
use super::load_hints::LoadHints;
use super::options::StoreOptions;
use super::recovery_report::RecoveryReport;
use super::replay::{Key, replay};
use super::set_aside::{self, Kind};
use crate::id::MessageId;

/// What recovery found and did. Nothing of the log is removed before [`finish`](Self::finish).
#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) hints: LoadHints,
    pub(super) report: RecoveryReport,
    /// The number that the first file of a new log takes at least.
    pub(super) next_file_number: u64,
    /// New message ids lie behind this one.
    pub(super) largest_id: Option<MessageId>,
    dir: PathBuf,
    done_pending: Vec<Key>,
}

/// Replays what the last broker left in its log. `dir` is the directory `transactions`; all directories are locked.
///
/// # Errors
/// As [`replay`].
pub(super) fn recover(
    fs: &Arc<dyn FileSystem>,
    options: &StoreOptions,
    data_paths: &[PathBuf],
    dir: &Path,
) -> Result<Recovered, StoreError> {
    let unreadable = |source| StoreError::Unreadable { path: dir.to_path_buf(), source };
    // A broker that was killed may have made directories whose entries are not durable yet: ours take them for granted.
    for path in data_paths.iter().chain([&options.data_log_path]) {
        fs.sync_dir(path).map_err(|source| StoreError::Io { action: "sync", path: path.clone(), source })?;
    }
    LogFiles::open(&**fs, dir)?.settle()?;
    // Opened again: headers too are what the disk holds.
    let log = LogFiles::open(&**fs, dir)?;
    log.check()?;
    let clean = clean_stop::read(&**fs, dir).map_err(unreadable)?;
    let found = find_partitions(&**fs, data_paths, &[])?;
    let dir_of = |key: &Key| {
        let found = found.iter().find(|found| (&found.topic, found.index) == (&key.0, key.1));
        found.map_or_else(
            || data_path_of(options, data_paths, key).join(directory_name(&key.0, key.1)),
            |found| found.dir.clone(),
        )
    };
    let replayed = replay(&**fs, dir, &log, &dir_of)?;
    let clean_stop = clean.is_some() && log.is_empty();
    let next_file_number = clean.as_ref().map_or(0, |clean| clean.next_file_number).max(log.next_number());
    let largest_id = clean.as_ref().map(|clean| clean.largest_id);
    let mut hints = LoadHints { closed: replayed.closed, ..LoadHints::default() };
    let (_, ids) = IdFile::open(Arc::clone(fs), dir).map_err(unreadable)?;
    hints.framed = replayed.framed;
    hints.table = replayed.table;
    hints.has_log = !log.used.is_empty();
    if let Some(CleanStop { partitions, .. }) = clean.filter(|_| clean_stop) {
        // It names the largest id itself.
        hints.clean = partitions;
    } else if !log.is_empty() && !matches!(ids, Reserved::UpTo(_)) {
        warn!("the state file of message ids is missing or damaged: last segments are read in full for the largest id");
        hints.read_all = true;
    }
    let report = RecoveryReport {
        log_files: log.used.len(),
        frames: replayed.frames,
        log_end: replayed.end.map(|end| (end.path, end.position)),
        clean_stop,
        partitions: replayed.partitions,
    };
    if !log.used.is_empty() {
        let written: u64 = report.partitions.iter().map(|partition| partition.written_bytes).sum();
        let (files, frames, partitions) = (report.log_files, report.frames, report.partitions.len());
        info!(files, frames, partitions, written_bytes = written, "commit log replayed");
    }
    let done_pending = replayed.done_pending;
    Ok(Recovered { hints, report, next_file_number, largest_id, dir: dir.to_path_buf(), done_pending })
}

/// Where a partition without a directory is made.
fn data_path_of(options: &StoreOptions, data_paths: &[PathBuf], (topic, _): &Key) -> PathBuf {
    let own = (options.topic_settings)(topic).data_path.and_then(|path| std::path::absolute(path).ok());
    own.filter(|path| data_paths.contains(path)).unwrap_or_else(|| options.data_path.clone())
}

impl Recovered {
    /// Removes what is in the segments now: pending files, the log, the record of the last clean stop. A new log may
    /// begin then.
    ///
    /// # Errors
    /// When something cannot be removed. Then it is replayed again without harm.
    pub(super) fn finish(&self, fs: &dyn FileSystem) -> Result<(), StoreError> {
        for (topic, index) in &self.done_pending {
            let path = || set_aside::path(&self.dir, Kind::Pending, topic, *index);
            set_aside::remove(fs, &self.dir, Kind::Pending, topic, *index).map_err(|source| StoreError::Io {
                action: "remove",
                path: path(),
                source,
            })?;
        }
        remove_files(fs, &self.dir)?;
        clean_stop::remove(fs, &self.dir).map_err(|source| StoreError::Io {
            action: "remove clean.stop in",
            path: self.dir.clone(),
            source,
        })
    }
}
