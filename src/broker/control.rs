//! What operators' interfaces may know of a running broker, and do to it (03 §9).

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::counters::Traffic;
use super::identity::Identity;
use super::processor::Processor;
use super::reload::{LastReload, ReloadError, ReloadReport, Reloader};
use super::retention::{RetentionHandle, RetentionTotals};
use super::status::{BrokerStatus, ClosedRange};
use super::topic_status::TopicStatus;
use crate::config::ServerConfig;
use crate::id::{BrokerId, BrokerUrl};
use crate::store::{DataPath, Health, InvalidPartitionRange, LogFileCounts, PartitionLog, StoreTimes};
use crate::zk::RegistrationState;

/// Longest part of a name from outside that an error text quotes, in characters.
const QUOTED_CHARS: usize = 200;

/// Why partitions were not closed or opened (02 §14).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PartitionsError {
    /// The name has no section of its own.
    #[error(
        "no topic '{0}' is configured: partitions can be closed and opened of topics that have a section [topic=<name>] of \
         exactly that name; topics of a wildcard pattern have none"
    )]
    NotConfigured(String),
    /// Not a range of partitions.
    #[error(transparent)]
    Range(#[from] InvalidPartitionRange),
}

/// A handle to a running broker; clones lead to the same one. It outlives the broker: what it tells then is the last state.
#[derive(Clone)]
pub struct BrokerControl(Arc<Inner>);

struct Inner {
    processor: Arc<Processor>,
    registration: Option<watch::Receiver<RegistrationState>>,
    address: SocketAddr,
    started_at: SystemTime,
    max_connections: usize,
    /// A stop has begun.
    stopping: CancellationToken,
    /// Somebody wants a stop.
    stop_requested: CancellationToken,
    reloader: Arc<Reloader>,
    retention: RetentionHandle,
    local: bool,
}

/// What a control is made of.
pub(super) struct Parts {
    pub(super) processor: Arc<Processor>,
    pub(super) registration: Option<watch::Receiver<RegistrationState>>,
    pub(super) address: SocketAddr,
    pub(super) max_connections: usize,
    pub(super) retention: RetentionHandle,
    pub(super) local: bool,
}

impl fmt::Debug for BrokerControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokerControl").field("address", &self.0.address).finish_non_exhaustive()
    }
}

impl BrokerControl {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { processor, registration, address, max_connections, retention, local } = parts;
        Self(Arc::new(Inner {
            reloader: Arc::new(Reloader::new(Arc::clone(&processor), retention.clone())),
            retention,
            processor,
            registration,
            address,
            started_at: SystemTime::now(),
            max_connections,
            stopping: CancellationToken::new(),
            stop_requested: CancellationToken::new(),
            local,
        }))
    }

    fn identity(&self) -> &Identity {
        self.0.processor.identity()
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        self.0.processor.topics().config().clone()
    }

    /// The broker's number.
    pub fn broker_id(&self) -> BrokerId {
        self.identity().id
    }

    /// The address that it publishes.
    pub fn url(&self) -> &BrokerUrl {
        &self.identity().url
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// When it was started.
    pub fn started_at(&self) -> SystemTime {
        self.0.started_at
    }

    /// Whether it serves this machine only.
    pub fn is_local(&self) -> bool {
        self.0.local
    }

    /// Time since the start.
    pub fn uptime(&self) -> Duration {
        self.0.processor.uptime()
    }

    /// Connections that it serves at a time: `maxConnections`, or fewer if the process has not that many descriptors.
    pub fn max_connections(&self) -> usize {
        self.0.max_connections
    }

    /// Everything in short.
    pub fn status(&self) -> BrokerStatus {
        BrokerStatus::of(self)
    }

    /// What the command `stats` answers to an item, the empty one included (03 §12), but that nothing is reset here: no
    /// item of this name is known.
    ///
    /// # Errors
    /// The text of the answer if it is no success: the configuration file cannot be read.
    pub fn stats(&self, item: &str) -> Result<Bytes, String> {
        self.0.processor.stats_text(item).map_err(|refusal| refusal.text(self.identity()).to_string())
    }

    /// Starts the realtime statistics over.
    pub fn reset_statistics(&self) {
        self.0.processor.reset_statistics();
    }

    /// The bytes of the configuration file as it is now.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn config_text(&self) -> Result<Bytes, String> {
        self.0.processor.config_file().map_err(|refusal| refusal.text(self.identity()).to_string())
    }

    /// All topics that are configured or have data, by name.
    pub fn topics(&self) -> Vec<TopicStatus> {
        TopicStatus::all(self.0.processor.topics(), self.0.processor.store())
    }

    /// One of them.
    pub fn topic(&self, name: &str) -> Option<TopicStatus> {
        TopicStatus::of(self.0.processor.topics(), self.0.processor.store(), name)
    }

    /// All partitions with data, by topic and number.
    pub fn partitions(&self) -> Vec<Arc<PartitionLog>> {
        let mut partitions = self.0.processor.store().partitions();
        partitions.sort_by(|a, b| a.topic().cmp(b.topic()).then(a.index().cmp(&b.index())));
        partitions
    }

    /// How many topics are configured or have data.
    pub fn topic_count(&self) -> usize {
        let (topics, store) = (self.0.processor.topics(), self.0.processor.store());
        let with_data = store.topics();
        topics.config().topics.iter().filter(|topic| !with_data.contains_key(&topic.name)).count() + with_data.len()
    }

    /// Closes partitions `start` to `end` of a topic for put and get, both included and whether they exist or not, until
    /// they are opened or the broker is restarted (02 §14). Returns how many partitions the topic is configured to have.
    ///
    /// # Errors
    /// When the topic has no section of its own, `start` is negative, or beyond `end`.
    pub fn close_partitions(&self, topic: &str, start: i32, end: i32) -> Result<u32, PartitionsError> {
        let config = self.config();
        let topic = config.topics.configured(topic).ok_or_else(|| not_configured(topic))?;
        self.0.processor.store().close_partitions(&topic.name, start, end)?;
        Ok(topic.settings.num_partitions)
    }

    /// Opens all partitions of a topic; whether any was closed.
    ///
    /// # Errors
    /// When none was, and the topic has no section of its own.
    pub fn open_partitions(&self, topic: &str) -> Result<bool, PartitionsError> {
        if self.0.processor.store().open_partitions(topic) {
            return Ok(true);
        }
        let is_configured = self.config().topics.configured(topic).is_some();
        if is_configured { Ok(false) } else { Err(not_configured(topic)) }
    }

    /// The closed ranges, by topic and start.
    pub fn closed_partitions(&self) -> Vec<ClosedRange> {
        ClosedRange::all(self.0.processor.store().closed_partitions())
    }

    /// Where the registration stands; `None` without ZooKeeper.
    pub fn registration(&self) -> Option<RegistrationState> {
        self.0.registration.as_ref().map(|state| state.borrow().clone())
    }

    /// What an operator must know of the store.
    pub fn health(&self) -> Health {
        self.0.processor.store().health()
    }

    /// How long the disks take.
    pub fn store_times(&self) -> &StoreTimes {
        self.0.processor.store().times()
    }

    /// How many files the commit log has.
    pub fn log_files(&self) -> LogFileCounts {
        self.0.processor.store().log_files()
    }

    /// The directories with data. Asks the file systems, which may take its time.
    pub fn data_paths(&self) -> Vec<DataPath> {
        self.0.processor.store().data_paths()
    }

    /// What retention has done since the start.
    pub fn retention(&self) -> RetentionTotals {
        self.0.retention.totals()
    }

    /// Bytes of answers that clients have not taken yet.
    pub fn unsent_bytes(&self) -> usize {
        self.0.processor.unsent().bytes()
    }

    /// What was counted since the start.
    pub fn traffic(&self) -> Traffic {
        self.0.processor.counters().snapshot()
    }

    /// Reasons to restart the process: what only a restart can end, and nothing else. Neither an absent ZooKeeper, nor a
    /// full disk, nor a partition that failed is one, for all else is served meanwhile.
    pub fn reasons_to_restart(&self) -> Vec<String> {
        let store = self.0.processor.store();
        let log = store.log_failure().map(|reason| format!("the commit log failed, every put is refused: {reason}"));
        let thread = store.committer_failed().then(|| {
            "a thread that stores messages has ended by a fault of its own, every put is refused: see the log"
                .to_owned()
        });
        log.into_iter().chain(thread).collect()
    }

    /// Why clients should not come here at present. Nothing, if they find the broker in ZooKeeper or need not, and puts
    /// are taken.
    pub fn reasons_not_ready(&self) -> Vec<String> {
        let mut reasons = self.reasons_to_restart();
        if self.is_stopping() {
            reasons.push("the broker is stopping".to_owned());
        }
        match self.registration() {
            // Disconnected: its nodes are there as long as the session is; then it is connecting.
            None | Some(RegistrationState::Registered | RegistrationState::Disconnected) => {}
            Some(state) => reasons.push(state.to_string()),
        }
        reasons
    }

    /// Asks whoever runs the broker to stop it gracefully.
    pub fn request_stop(&self) {
        self.0.stop_requested.cancel();
    }

    /// Returns when somebody has [asked](Self::request_stop).
    pub async fn stop_requested(&self) {
        self.0.stop_requested.cancelled().await;
    }

    /// Whether a stop has begun.
    pub fn is_stopping(&self) -> bool {
        self.0.stopping.is_cancelled()
    }

    pub(super) fn note_stopping(&self) {
        self.0.stopping.cancel();
    }

    /// Reads the configuration file again and takes over its topics, while everything goes on (03 §7).
    ///
    /// Not cancelled with its future: once begun it runs to its end.
    ///
    /// # Errors
    /// When the file has any error, or a data path cannot be used: then nothing changes.
    pub async fn reload(&self) -> Result<ReloadReport, ReloadError> {
        self.0.reloader.reload().await
    }

    /// How the last reload ended; `None` if there was none.
    pub fn last_reload(&self) -> Option<LastReload> {
        self.0.reloader.last()
    }
}

fn not_configured(topic: &str) -> PartitionsError {
    PartitionsError::NotConfigured(topic.chars().take(QUOTED_CHARS).collect())
}
