//! What several benchmarks need: a store in a directory of its own on a real disk, and groups of messages for it.
#![allow(dead_code, unreachable_pub)]

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use metaq::id::{BrokerId, PartitionIndex, TopicName};
use metaq::message::checksum;
use metaq::store::{AppendGroup, AppendSink, OsFileSystem, PartitionLog, Store, StoreOptions, TopicSettings};
use tempfile::TempDir;

/// Messages of a group: what a connection of `metaq bench put` has under way.
pub const GROUP_LEN: usize = 64;

/// Bytes of a message's body.
pub const BODY_LEN: usize = 256;

/// Every answer waits for a sync.
pub const GROUP_COMMIT: TopicSettings =
    TopicSettings { unflush_threshold: 0, unflush_interval_ms: 10_000, data_path: None };

/// Nothing is synced while a benchmark runs.
pub const PERIODIC: TopicSettings =
    TopicSettings { unflush_threshold: i32::MAX, unflush_interval_ms: i32::MAX, data_path: None };

/// A directory on the disk that holds the build, which is seldom one in memory.
pub fn directory() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Opens the store in a directory.
pub fn open(dir: &Path) -> Store {
    let options = StoreOptions {
        data_path: dir.join("data"),
        topic_data_paths: Vec::new(),
        data_log_path: data_log_path(dir),
        broker_id: BrokerId::new(5).unwrap(),
        max_segment_size: 1 << 30,
        max_transfer_size: 1 << 20,
        free_space_warning_bytes: 0,
        commit_log_file_bytes: 64 << 20,
        commit_log_files: 8,
        topic_settings: Arc::new(|_| GROUP_COMMIT),
    };
    Store::open(options, Arc::new(OsFileSystem)).unwrap()
}

/// The `dataLogPath` of the store in a directory.
pub fn data_log_path(dir: &Path) -> PathBuf {
    dir.join("data")
}

/// Partitions 0 to `count` less 1 of a topic.
pub fn partitions(store: &Store, count: usize, settings: &TopicSettings) -> Vec<Arc<PartitionLog>> {
    let topic = TopicName::new("bench").unwrap();
    let number = |number| PartitionIndex::new(i32::try_from(number).unwrap());
    (0..count).map(|n| store.get_or_create(&topic, number(n), settings).unwrap()).collect()
}

/// Fills an empty group with messages for the partitions in turn, beginning with number `first`.
pub fn fill(group: &mut AppendGroup, partitions: &[Arc<PartitionLog>], first: usize, body: &[u8]) {
    for (partition, token) in partitions.iter().cycle().skip(first % partitions.len()).take(GROUP_LEN).zip(0..) {
        group.push(partition, 0, checksum(body), body, token);
    }
}

/// Fails unless every message was stored.
pub fn check(group: &AppendGroup) {
    for (_, partition, result) in group.results() {
        result.unwrap_or_else(|error| panic!("{}: {error}", partition.name()));
    }
}

/// Hands groups over and takes them back, their buffers used again, as the broker does it.
pub struct Putter {
    sink: Arc<Done>,
    done: Receiver<AppendGroup>,
    partitions: Vec<Arc<PartitionLog>>,
    idle: Vec<AppendGroup>,
    turn: usize,
    body: Vec<u8>,
}

struct Done(Mutex<Sender<AppendGroup>>);

impl AppendSink for Done {
    fn complete(&self, groups: &mut Vec<AppendGroup>) {
        let sender = self.0.lock().unwrap();
        groups.drain(..).for_each(|group| sender.send(group).unwrap());
    }
}

impl Putter {
    /// For messages to these partitions in turn.
    pub fn new(partitions: Vec<Arc<PartitionLog>>) -> Self {
        let (sender, done) = channel();
        let sink = Arc::new(Done(Mutex::new(sender)));
        Self { sink, done, partitions, idle: Vec::new(), turn: 0, body: vec![b'x'; BODY_LEN] }
    }

    /// Stores so many groups, handed over one by one, and waits for all of them.
    pub fn put(&mut self, store: &Store, groups: usize) {
        for _ in 0..groups {
            let sink = Arc::clone(&self.sink) as Arc<dyn AppendSink>;
            let mut group = self.idle.pop().unwrap_or_default().with_sink(sink);
            fill(&mut group, &self.partitions, self.turn, &self.body);
            self.turn += GROUP_LEN;
            store.committer().submit(&mut vec![group]);
        }
        for _ in 0..groups {
            let mut group = self.done.recv().unwrap();
            check(&group);
            group.clear();
            self.idle.push(group);
        }
    }
}
