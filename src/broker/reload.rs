//! Taking over a changed configuration file while the broker runs (03 §7).
//!
//! Topics change at once, everything else waits for a restart. A file with any error, or one that names a data path that
//! cannot be used, is refused as a whole. What counts is what the file says, not when it was written.

use std::fmt;
use std::path::{Path, PathBuf, absolute};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use serde::Serialize;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use super::processor::Processor;
use super::retention::RetentionHandle;
use super::topics::{settings_of, store_settings};
use crate::common::guard::lock;
use crate::config::{Changes, ConfigError, ServerConfig};
use crate::store::StoreError;

/// What a reload has changed, and what it could not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReloadReport {
    /// CRC-32 of the file that is in force now.
    pub checksum: u32,
    /// What the file says that was not in force before.
    #[serde(flatten)]
    pub changes: Changes,
    /// What in the file is hardly meant but does no harm, with its line.
    pub warnings: Vec<String>,
}

/// Why a reload was refused. Everything goes on under the configuration that was in force.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// There is no file to read again.
    #[error("Reload config failed: the configuration was not read from a file")]
    NoFile,
    /// The file cannot be read or is wrong.
    #[error("Reload config failed, everything goes on as before: {0}")]
    Config(#[from] ConfigError),
    /// The path leads to something that may never come to an end, such as a pipe.
    #[error(
        "Reload config failed, everything goes on as before: {} is no regular file, and only one can be read again: put \
         the configuration there as a file",
        .0.display()
    )]
    NotAFile(PathBuf),
    /// A topic's `dataPath` cannot be used.
    #[error("Reload config failed, everything goes on as before: dataPath of topic {topic}: {source}")]
    DataPath {
        /// The topic.
        topic: String,
        /// What is wrong with it.
        source: StoreError,
    },
    /// The broker stops.
    #[error("Reload config failed: the broker is stopping")]
    Stopping,
}

/// How the last reload ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastReload {
    /// When that was.
    pub at: SystemTime,
    /// Why it was refused, if it was.
    pub refused: Option<String>,
}

/// Reloads the configuration, one request after another.
#[derive(Debug)]
pub(super) struct Reloader {
    processor: Arc<Processor>,
    retention: RetentionHandle,
    last: Mutex<Option<LastReload>>,
    /// Whoever waits for it holds no thread.
    one_at_a_time: Arc<AsyncMutex<()>>,
}

impl Reloader {
    pub(super) fn new(processor: Arc<Processor>, retention: RetentionHandle) -> Self {
        Self { processor, retention, last: Mutex::default(), one_at_a_time: Arc::default() }
    }

    /// How the last one ended; `None` if there was none.
    pub(super) fn last(&self) -> Option<LastReload> {
        lock(&self.last).clone()
    }

    /// Reads the file again and takes it over.
    pub(super) async fn reload(self: &Arc<Self>) -> Result<ReloadReport, ReloadError> {
        let reloader = Arc::clone(self);
        let turn = Arc::clone(&self.one_at_a_time).lock_owned().await;
        // A data path may hold partitions that have to be loaded.
        let work = move || {
            // Held until it is done, also if nobody waits for the report any more.
            let _turn = turn;
            reloader.reload_now()
        };
        match spawn_blocking(work).await {
            Ok(result) => result,
            // It is never cancelled, so it can only have panicked, and then so must its caller.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    fn reload_now(&self) -> Result<ReloadReport, ReloadError> {
        let result = self.take_over();
        match &result {
            Ok(report) => report.log(),
            Err(error) => warn!("{error}"),
        }
        let refused = result.as_ref().err().map(ToString::to_string);
        *lock(&self.last) = Some(LastReload { at: SystemTime::now(), refused });
        result
    }

    fn take_over(&self) -> Result<ReloadReport, ReloadError> {
        let (topics, store) = (self.processor.topics(), self.processor.store());
        if self.processor.is_stopping() {
            return Err(ReloadError::Stopping);
        }
        let running = topics.config().clone();
        let path = running.path.as_ref().ok_or(ReloadError::NoFile)?;
        refuse_endless(path)?;
        let file = ServerConfig::load(path)?;
        let changes = Changes::between(&running, &file);
        let new = Arc::new(running.reloaded(&file));
        // Whatever can fail comes before anything changes.
        let data_paths: Vec<&Path> = new.topics.iter().map(|topic| &*topic.settings.data_path).collect();
        store.add_data_paths(&data_paths).map_err(|refused| match refused.source {
            StoreError::Closed => ReloadError::Stopping,
            source => {
                let is_meant =
                    |path: &Path| path == refused.path || absolute(path).is_ok_and(|path| path == refused.path);
                let topic = new.topics.iter().find(|topic| is_meant(&topic.settings.data_path));
                ReloadError::DataPath { topic: topic.map(|topic| topic.name.to_string()).unwrap_or_default(), source }
            }
        })?;
        topics.reload(Arc::clone(&new), store);
        // In this order: what is learned under the old configuration from here on does not count.
        self.processor.routes().forget_all();
        store.apply_settings(|topic| store_settings(settings_of(&new, topic)));
        self.retention.configuration_changed();
        let warnings = file.warnings.iter().map(|warning| warning.located(Some(path)).to_string()).collect();
        Ok(ReloadReport { checksum: new.checksum, changes, warnings })
    }
}

/// At a start the configuration may come from a pipe; to open one again may wait for ever, and every reload after it.
fn refuse_endless(path: &Path) -> Result<(), ReloadError> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() && !found.is_dir() => Err(ReloadError::NotAFile(path.to_owned())),
        // What cannot be looked at cannot be read either, which is told there.
        _ => Ok(()),
    }
}

impl ReloadReport {
    fn log(&self) {
        info!(checksum = self.checksum, "configuration reloaded");
        self.changes.to_string().lines().for_each(|change| info!("reload: {change}"));
        self.warnings.iter().for_each(|warning| warn!("{warning}"));
    }
}

impl fmt::Display for ReloadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Reload config successfully.")?;
        if self.changes.is_empty() {
            writeln!(f, "The file says what was in force already.")?;
        }
        self.changes.fmt(f)?;
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))
    }
}
