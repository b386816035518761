//! `stats` (01 §10).

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::Processor;
use crate::broker::identity::VERSION;
use crate::broker::realtime::Kind;
use crate::broker::refusal::Refusal;
use crate::broker::topics::settings_of;
use crate::config::MAX_FILE_BYTES;
use crate::id::TopicName;
use crate::protocol::{Response, Stats, Status};
use crate::store::PartitionLog;

const HELP: [&str; 6] = [
    "*EMPTY* Returns broker info.",
    "help Returns help menu.",
    "topics Returns topics statistics detail info.",
    "offsets Returns partitions detail info.",
    "realtime Returns realtime statistics detail info.",
    "config Returns broker's config file content.",
];

/// The lines of an answer.
struct Lines(String);

impl Lines {
    fn new() -> Self {
        Self("STATS\r\n".to_owned())
    }

    fn line(&mut self, text: impl Display) {
        // Writing to a text cannot fail.
        let _ = write!(self.0, "{text}\r\n");
    }

    fn pair(&mut self, key: &str, value: impl Display) {
        self.line(format_args!("{key} {value}"));
    }

    fn end(mut self) -> String {
        self.line("END");
        self.0
    }
}

impl Processor {
    pub(super) fn stats(&self, stats: &Stats, out: &mut BytesMut) {
        let body = match stats.item.trim() {
            "reset" => {
                self.reset_statistics();
                Ok(self.lines(|lines| lines.line("reset ok")).into())
            }
            item => self.stats_text(item),
        };
        match body {
            Ok(body) => Response::result(Status::SUCCESS, body, stats.opaque).encode(out),
            Err(refusal) => self.refuse(&refusal, stats.opaque, out),
        }
    }

    /// Starts the realtime statistics over.
    pub(in crate::broker) fn reset_statistics(&self) {
        self.realtime.reset();
    }

    /// The text of an item; changes nothing.
    pub(in crate::broker) fn stats_text(&self, item: &str) -> Result<Bytes, Refusal<'static>> {
        Ok(match item {
            "" => self.broker_stats().into(),
            "help" => self.lines(|lines| HELP.iter().for_each(|line| lines.line(line))).into(),
            "topics" => self.lines(|lines| self.topics_stats(lines)).into(),
            "offsets" => self.lines(|lines| self.offsets_stats(lines)).into(),
            "realtime" => self.lines(|lines| self.realtime_stats(lines)).into(),
            "config" => self.config_file()?,
            topic => self.lines(|lines| self.topic_stats(topic, lines)).into(),
        })
    }

    fn lines(&self, write: impl FnOnce(&mut Lines)) -> String {
        let mut lines = Lines::new();
        write(&mut lines);
        lines.end()
    }

    fn broker_stats(&self) -> String {
        let partitions = self.store.partitions();
        let by_topic = by_topic(&partitions);
        let config = self.topics.config();
        let without_data = config.topics.iter().filter(|topic| !by_topic.contains_key(&topic.name)).count();
        self.lines(|lines| {
            lines.pair("pid", std::process::id());
            lines.pair("broker_id", self.identity.id);
            lines.pair("port", self.identity.url.port());
            lines.pair("uptime", self.started.elapsed().as_secs());
            lines.pair("version", VERSION);
            lines.pair("slave", false);
            lines.pair("curr_connections", self.counters.open_connections());
            lines.pair("threads", thread_count());
            lines.pair("cmd_put", self.counters.puts.get());
            lines.pair("cmd_get", self.counters.gets.get());
            lines.pair("cmd_offset", self.counters.offset_queries.get());
            for transactions in ["tx_begin", "tx_xa_begin", "tx_commit", "tx_rollback"] {
                lines.pair(transactions, 0);
            }
            lines.pair("get_miss", self.counters.missed_gets.get());
            lines.pair("put_failed", self.counters.failed_puts.get());
            lines.pair("total_messages", partitions.iter().map(|log| log.message_count()).sum::<u64>());
            lines.pair("topics", by_topic.len() + without_data);
            lines.pair("config_checksum", config.checksum);
        })
    }

    fn topics_stats(&self, lines: &mut Lines) {
        let partitions = self.store.partitions();
        let by_topic = by_topic(&partitions);
        let config = self.topics.config();
        for (topic, logs) in &by_topic {
            let settings = settings_of(&config, topic);
            lines.line(format_args!(
                "{topic} partitions {} message_count {} message_bytes {} accept_publish {} accept_subscribe {}",
                logs.len(),
                message_count(logs),
                size_bytes(logs),
                settings.accept_publish,
                settings.accept_subscribe,
            ));
        }
        for topic in config.topics.iter().filter(|topic| !by_topic.contains_key(&topic.name)) {
            lines.line(format_args!("{} *Empty*", topic.name));
        }
    }

    fn offsets_stats(&self, lines: &mut Lines) {
        for log in self.store.partitions() {
            lines.line(format_args!(
                "{} part {} min_offset {} max_offset {}",
                log.topic(),
                log.index(),
                log.min_offset(),
                log.max_offset(),
            ));
        }
    }

    fn realtime_stats(&self, lines: &mut Lines) {
        for kind in Kind::ALL {
            lines.line(format_args!("realtime_{} {}", kind.name(), self.realtime.total(kind)));
        }
    }

    fn topic_stats(&self, topic: &str, lines: &mut Lines) {
        let partitions = self.store.partitions();
        let logs: Vec<_> = partitions.iter().filter(|log| log.topic().as_str() == topic).collect();
        let is_configured = self.topics.config().topics.configured(topic).is_some();
        let result_code = match (logs.is_empty(), is_configured) {
            (false, _) => 0,
            (true, true) => 2,
            (true, false) => 1,
        };
        lines.line(topic);
        lines.pair("resultCode", result_code);
        lines.pair("partitions", logs.len());
        lines.pair("message_count", message_count(&logs));
        lines.pair("bytes", size_bytes(&logs));
        for kind in Kind::ALL {
            lines.line(format_args!("topic_realtime_{} {}", kind.name(), self.realtime.of_topic(kind, topic)));
        }
    }

    /// The configuration file as it is now; slaves fetch it from their master.
    pub(in crate::broker) fn config_file(&self) -> Result<Bytes, Refusal<'static>> {
        let config = self.topics.config();
        let Some(path) = &config.path else {
            return Err(Refusal::Stats("Config file not found:the configuration was not read from a file".to_owned()));
        };
        let read = || {
            let mut bytes = Vec::new();
            // No more than a configuration can have; whatever else the path may lead to by now.
            File::open(path)?.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
            Ok::<_, io::Error>(bytes)
        };
        match read() {
            Ok(bytes) => Ok(bytes.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Refusal::Stats(format!("Config file not found:{}", path.display())))
            }
            Err(error) => Err(Refusal::Stats(format!("Read config file error:{error}"))),
        }
    }
}

fn by_topic(partitions: &[Arc<PartitionLog>]) -> BTreeMap<&TopicName, Vec<&Arc<PartitionLog>>> {
    let mut topics: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for log in partitions {
        topics.entry(log.topic()).or_default().push(log);
    }
    topics
}

fn message_count(logs: &[&Arc<PartitionLog>]) -> u64 {
    logs.iter().map(|log| log.message_count()).sum()
}

fn size_bytes(logs: &[&Arc<PartitionLog>]) -> u64 {
    logs.iter().map(|log| log.size_bytes()).sum()
}

/// Threads of the process; 0 where the system does not tell.
fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}
