//! The section `[system]` (03 §2).

use std::path::PathBuf;

use super::cron::CronExpression;
use super::environment::Environment;
use super::error::Problems;
use super::expr;
use super::host::check_host;
use super::ini::Section;
use super::keys::{SYSTEM_IGNORED, SYSTEM_KEYS};
use super::policy::DeletePolicy;
use super::reader::{INT, POSITIVE_INT, Reader};
use super::value::Value;
use crate::id::BrokerId;

/// The most partitions a topic can have on one broker.
pub(super) const MAX_PARTITIONS: i64 = 65_536;

const THREADS_PER_CPU: u32 = 10;

/// Values of the whole broker; a change of any of them takes a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemConfig {
    /// `brokerId`, unique in the cluster.
    pub broker_id: BrokerId,
    /// `hostName`: what is published; none: the broker finds an address of its own (03 §2).
    pub host_name: Option<String>,
    /// `serverPort`; 0 lets the operating system choose.
    pub server_port: u16,
    /// `dashboardHttpPort`; 0 lets the operating system choose.
    pub dashboard_http_port: u16,
    /// `numPartitions` of topics that do not say, 1 to 65 536.
    pub num_partitions: u32,
    /// `dataPath`: directory of the partition directories.
    pub data_path: PathBuf,
    /// `dataLogPath`: parent of the transaction journal; `dataPath` if not set.
    pub data_log_path: PathBuf,
    /// `appClassPath`: where message filters are; none: the default place, if it exists.
    pub app_class_path: Option<PathBuf>,
    /// `unflushThreshold` of topics that do not say; see
    /// [`TopicSettings::unflush_threshold`](super::TopicSettings::unflush_threshold).
    pub unflush_threshold: i32,
    /// `unflushInterval` of topics that do not say, in milliseconds; see
    /// [`TopicSettings::unflush_interval`](super::TopicSettings::unflush_interval).
    pub unflush_interval: i32,
    /// `maxSegmentSize`: a segment that has this many bytes is closed; 1 to 2 147 483 647.
    pub max_segment_size: u32,
    /// `maxTransferSize`: the most bytes of one answer to a get; 1 to 2 147 483 647.
    pub max_transfer_size: u32,
    /// `getProcessThreadCount`, at least 1.
    pub get_process_thread_count: u32,
    /// `putProcessThreadCount`, at least 1.
    pub put_process_thread_count: u32,
    /// `deletePolicy` of topics that do not say.
    pub delete_policy: DeletePolicy,
    /// `deleteWhen` of topics that do not say.
    pub delete_when: CronExpression,
    /// `quartzThreadCount`, at least 1.
    pub quartz_thread_count: u32,
    /// `maxCheckpoints`: how many checkpoint files are kept, at least 1.
    pub max_checkpoints: u32,
    /// `checkpointInterval` of the transaction journal in milliseconds, at least 1.
    pub checkpoint_interval_ms: u64,
    /// `maxTxTimeoutTimerCapacity`: how many transactions may wait for their time-out, at least 1.
    pub max_tx_timeout_timer_capacity: u32,
    /// `maxTxTimeoutInSeconds`: the longest time-out a client gets, at least 1 second.
    pub max_tx_timeout_in_seconds: u32,
    /// `flushTxLogAtCommit`: 0 never, 1 at each decision, 2 each second.
    pub flush_tx_log_at_commit: u8,
    /// `acceptPublish` of topics that do not say.
    pub accept_publish: bool,
    /// `acceptSubscribe` of topics that do not say.
    pub accept_subscribe: bool,
    /// `stat` of topics that do not say.
    pub stat: bool,
    /// `updateConsumerOffsets`: answer a get beyond the end with the end instead of "not found".
    pub update_consumer_offsets: bool,
    /// `loadMessageStoresInParallel`.
    pub load_message_stores_in_parallel: bool,
}

impl SystemConfig {
    /// Stands in for what is wrong while reading goes on.
    fn stand_in(environment: &Environment) -> Self {
        let threads = environment.cpus.saturating_mul(THREADS_PER_CPU);
        let data_path = environment.home.as_deref().map(|home| home.join("meta")).unwrap_or_default();
        Self {
            broker_id: BrokerId::MAX,
            host_name: None,
            server_port: 8123,
            dashboard_http_port: 8120,
            num_partitions: 1,
            data_log_path: data_path.clone(),
            data_path,
            app_class_path: None,
            unflush_threshold: 1000,
            unflush_interval: 10_000,
            max_segment_size: 1 << 30,
            max_transfer_size: 1 << 20,
            get_process_thread_count: threads,
            put_process_thread_count: threads,
            delete_policy: DeletePolicy::DEFAULT,
            delete_when: CronExpression::twice_a_day(),
            quartz_thread_count: 5,
            max_checkpoints: 3,
            checkpoint_interval_ms: 3_600_000,
            max_tx_timeout_timer_capacity: 30_000,
            max_tx_timeout_in_seconds: 60,
            flush_tx_log_at_commit: 1,
            accept_publish: true,
            accept_subscribe: true,
            stat: false,
            update_consumer_offsets: false,
            load_message_stores_in_parallel: false,
        }
    }

    pub(super) fn read(section: Option<&Section>, environment: &Environment, problems: &mut Problems) -> Self {
        let d = Self::stand_in(environment);
        let Some(section) = section else {
            problems.missing(None, None, "there is no section [system]; brokerId and others must be set in it");
            return d;
        };
        let mut reader = Reader::new(section, problems);
        let r = &mut reader;
        r.check_keys(SYSTEM_KEYS, SYSTEM_IGNORED, |_| false);
        let data_path = r.path("dataPath").unwrap_or(d.data_path);
        if data_path.as_os_str().is_empty() && r.option("dataPath").is_none() {
            r.require("dataPath"); // there is no home directory to derive it from
        }
        Self {
            broker_id: broker_id(r).unwrap_or(d.broker_id),
            host_name: r.parse("hostName", |host| check_host(host).map(|()| host.to_owned())),
            server_port: r.int("serverPort", 0..=65_535).unwrap_or(d.server_port),
            dashboard_http_port: r.int("dashboardHttpPort", 0..=65_535).unwrap_or(d.dashboard_http_port),
            num_partitions: r.required_int("numPartitions", 1..=MAX_PARTITIONS).unwrap_or(d.num_partitions),
            data_log_path: r.path("dataLogPath").unwrap_or_else(|| data_path.clone()),
            data_path,
            app_class_path: r.path("appClassPath"),
            unflush_threshold: r.required_int("unflushThreshold", INT).unwrap_or(d.unflush_threshold),
            unflush_interval: r.required_int("unflushInterval", INT).unwrap_or(d.unflush_interval),
            max_segment_size: r.required_int("maxSegmentSize", POSITIVE_INT).unwrap_or(d.max_segment_size),
            max_transfer_size: r.required_int("maxTransferSize", POSITIVE_INT).unwrap_or(d.max_transfer_size),
            get_process_thread_count: r
                .int("getProcessThreadCount", POSITIVE_INT)
                .unwrap_or(d.get_process_thread_count),
            put_process_thread_count: r
                .int("putProcessThreadCount", POSITIVE_INT)
                .unwrap_or(d.put_process_thread_count),
            delete_policy: r.quoted("deletePolicy").unwrap_or(d.delete_policy),
            delete_when: r.quoted("deleteWhen").unwrap_or(d.delete_when),
            quartz_thread_count: r.int("quartzThreadCount", POSITIVE_INT).unwrap_or(d.quartz_thread_count),
            max_checkpoints: r.int("maxCheckpoints", POSITIVE_INT).unwrap_or(d.max_checkpoints),
            checkpoint_interval_ms: r.int("checkpointInterval", 1..=i64::MAX).unwrap_or(d.checkpoint_interval_ms),
            max_tx_timeout_timer_capacity: r
                .int("maxTxTimeoutTimerCapacity", POSITIVE_INT)
                .unwrap_or(d.max_tx_timeout_timer_capacity),
            max_tx_timeout_in_seconds: r
                .int("maxTxTimeoutInSeconds", POSITIVE_INT)
                .unwrap_or(d.max_tx_timeout_in_seconds),
            flush_tx_log_at_commit: flush_tx_log_at_commit(r).unwrap_or(d.flush_tx_log_at_commit),
            accept_publish: r.bool("acceptPublish").unwrap_or(d.accept_publish),
            accept_subscribe: r.bool("acceptSubscribe").unwrap_or(d.accept_subscribe),
            stat: r.bool("stat").unwrap_or(d.stat),
            update_consumer_offsets: r.bool("updateConsumerOffsets").unwrap_or(d.update_consumer_offsets),
            load_message_stores_in_parallel: r
                .bool("loadMessageStoresInParallel")
                .unwrap_or(d.load_message_stores_in_parallel),
        }
    }

    /// All keys with the values in force, in the order of [`SYSTEM_KEYS`].
    pub fn entries(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("brokerId", Value::from(self.broker_id.get())),
            ("hostName", Value::from(self.host_name.as_deref())),
            ("serverPort", Value::from(self.server_port)),
            ("dashboardHttpPort", Value::from(self.dashboard_http_port)),
            ("numPartitions", Value::from(self.num_partitions)),
            ("dataPath", Value::from(&self.data_path)),
            ("dataLogPath", Value::from(&self.data_log_path)),
            ("appClassPath", Value::from(self.app_class_path.as_ref())),
            ("unflushThreshold", Value::from(self.unflush_threshold)),
            ("unflushInterval", Value::from(self.unflush_interval)),
            ("maxSegmentSize", Value::from(self.max_segment_size)),
            ("maxTransferSize", Value::from(self.max_transfer_size)),
            ("getProcessThreadCount", Value::from(self.get_process_thread_count)),
            ("putProcessThreadCount", Value::from(self.put_process_thread_count)),
            ("deletePolicy", Value::from(self.delete_policy.to_string())),
            ("deleteWhen", Value::from(self.delete_when.as_str())),
            ("quartzThreadCount", Value::from(self.quartz_thread_count)),
            ("maxCheckpoints", Value::from(self.max_checkpoints)),
            ("checkpointInterval", Value::from(self.checkpoint_interval_ms)),
            ("maxTxTimeoutTimerCapacity", Value::from(self.max_tx_timeout_timer_capacity)),
            ("maxTxTimeoutInSeconds", Value::from(self.max_tx_timeout_in_seconds)),
            ("flushTxLogAtCommit", Value::from(self.flush_tx_log_at_commit)),
            ("acceptPublish", Value::from(self.accept_publish)),
            ("acceptSubscribe", Value::from(self.accept_subscribe)),
            ("stat", Value::from(self.stat)),
            ("updateConsumerOffsets", Value::from(self.update_consumer_offsets)),
            ("loadMessageStoresInParallel", Value::from(self.load_message_stores_in_parallel)),
        ]
    }
}

fn broker_id(reader: &mut Reader<'_>) -> Option<BrokerId> {
    let value: i64 = reader.required_int("brokerId", i64::MIN..=i64::MAX)?;
    let id = BrokerId::new(value);
    if let (None, Some(option)) = (id, reader.option("brokerId")) {
        let message = format!("worker Id can't be greater than 1023 or less than 0 (brokerId={value})");
        reader.error(option, message);
    }
    id
}

fn flush_tx_log_at_commit(reader: &mut Reader<'_>) -> Option<u8> {
    let option = reader.option("flushTxLogAtCommit")?;
    match expr::evaluate(&option.value) {
        Ok(value) if !(0..=2).contains(&value) => {
            let message = format!("Invalid flushLogTxCommit,only supports 0,1 or 2 (flushTxLogAtCommit={value})");
            reader.error(option, message);
            None
        }
        _ => reader.int("flushTxLogAtCommit", 0..=2),
    }
}

#[cfg(test)]
mod tests;
