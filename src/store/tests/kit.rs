//! Helpers: a store over a temporary directory, puts that wait for their answer, a walk over what is visible.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tempfile::TempDir;

use super::super::{
    AppendError, AppendGroup, AppendSink, Appended, FileSystem, OsFileSystem, PartitionLog, ReadOutcome, Segment,
    Store, StoreError, StoreOptions, TopicSettings,
};
use super::faulty::{Faults, FaultyFs};
use crate::id::{BrokerId, MessageId, Offset, PartitionIndex, TopicName};
use crate::message::{Records, checksum};

/// Nothing here takes that long.
pub(super) const DEADLINE: Duration = Duration::from_secs(20);

pub(super) const GROUP_COMMIT: TopicSettings =
    TopicSettings { unflush_threshold: 0, unflush_interval_ms: 10_000, data_path: None };

/// Never flushes by itself within a test.
pub(super) const PERIODIC: TopicSettings =
    TopicSettings { unflush_threshold: 1_000_000, unflush_interval_ms: 1_000_000, data_path: None };

pub(super) fn topic(name: &str) -> TopicName {
    TopicName::new(name).unwrap()
}

/// Options for a store in `<dir>/data`, all topics in group commit.
pub(super) fn options(dir: &Path) -> StoreOptions {
    StoreOptions {
        data_path: dir.join("data"),
        topic_data_paths: Vec::new(),
        data_log_path: dir.join("data"),
        broker_id: BrokerId::new(5).unwrap(),
        max_segment_size: 1 << 30,
        max_transfer_size: 1 << 20,
        free_space_warning_bytes: 0,
        commit_log_file_bytes: 128 << 10,
        commit_log_files: 4,
        topic_settings: Arc::new(|_| GROUP_COMMIT),
    }
}

pub(super) fn open(options: &StoreOptions) -> Result<Store, StoreError> {
    Store::open(options.clone(), Arc::new(OsFileSystem))
}

/// A store over a directory of its own and a disk that can be made to fail.
pub(super) struct Bench {
    pub(super) dir: TempDir,
    pub(super) store: Store,
    pub(super) faults: Arc<Faults>,
}

impl Bench {
    pub(super) fn new(change: impl FnOnce(&mut StoreOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options(dir.path());
        change(&mut options);
        let fs = FaultyFs::default();
        let faults = Arc::clone(&fs.faults);
        let store = Store::open(options, Arc::new(fs) as Arc<dyn FileSystem>).unwrap();
        Self { dir, store, faults }
    }

    pub(super) fn partition(&self, name: &str, index: i32, settings: &TopicSettings) -> Arc<PartitionLog> {
        self.store.get_or_create(&topic(name), PartitionIndex::new(index), settings).unwrap()
    }

    /// Waits until the commit log has a file in reserve: then only puts use it.
    pub(super) fn wait_for_reserve(&self) {
        wait_for_reserve(&self.store);
    }

    pub(super) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }
}

pub(super) type Answer = Receiver<Vec<Result<Appended, AppendError>>>;

/// Sends the results of each group to whoever waits for it.
struct Results(Mutex<Sender<Vec<Result<Appended, AppendError>>>>);

impl AppendSink for Results {
    fn complete(&self, groups: &mut Vec<AppendGroup>) {
        for group in groups.drain(..) {
            let results = group.results().map(|(_, _, result)| result).collect();
            // Whoever asked may have given up.
            let _ = self.0.lock().unwrap().send(results);
        }
    }
}

/// A group of messages and where its results come out.
pub(super) fn group(puts: Vec<(&Arc<PartitionLog>, Bytes)>) -> (AppendGroup, Answer) {
    let (sender, answer) = channel();
    let mut group = AppendGroup::new(Arc::new(Results(Mutex::new(sender))));
    for (partition, body) in puts {
        group.push_bytes(partition, 0, checksum(&body), body, 0);
    }
    (group, answer)
}

/// Hands a group over without waiting.
pub(super) fn submit(store: &Store, puts: Vec<(&Arc<PartitionLog>, Bytes)>) -> Answer {
    let (group, answer) = group(puts);
    store.committer().submit(&mut vec![group]);
    answer
}

pub(super) fn answer(answer: &Answer) -> Vec<Result<Appended, AppendError>> {
    answer.recv_timeout(DEADLINE).expect("no answer")
}

/// Stores one message and waits for the answer.
pub(super) fn put(store: &Store, partition: &Arc<PartitionLog>, body: &[u8]) -> Result<Appended, AppendError> {
    answer(&submit(store, vec![(partition, Bytes::copy_from_slice(body))])).pop().unwrap()
}

/// Removes the oldest segments of a partition for which `is_due`; returns how many.
pub(super) fn remove_oldest(
    partition: &PartitionLog,
    mut is_due: impl FnMut(&Segment) -> bool,
) -> Result<usize, StoreError> {
    partition.remove_oldest(partition.visible.load(Ordering::Acquire), &mut is_due)
}

/// A message that readers saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) offset: Offset,
    pub(super) id: MessageId,
    pub(super) body: Bytes,
}

/// Every visible record from an offset on; they must be whole and without gaps.
pub(super) fn read_from(partition: &PartitionLog, mut offset: Offset) -> Vec<Seen> {
    let mut seen = Vec::new();
    while let ReadOutcome::Region(region) = partition.read(offset, 1 << 30) {
        let bytes = region.to_bytes().unwrap();
        let mut records = Records::new(bytes, 1 << 30);
        for record in records.by_ref() {
            let record = record.unwrap();
            let offset = offset.checked_add(record.position as u64).unwrap();
            seen.push(Seen { offset, id: record.header.id, body: record.body });
        }
        assert!(records.consumed() > 0, "{}: a record does not fit a transfer at {offset}", partition.name());
        offset = offset.checked_add(records.consumed() as u64).unwrap();
    }
    assert!(matches!(partition.read(offset, 1), ReadOutcome::AtEnd), "{offset} is the end");
    seen
}

pub(super) fn read_all(partition: &PartitionLog) -> Vec<Seen> {
    read_from(partition, partition.min_offset())
}

pub(super) fn bodies(partition: &PartitionLog) -> Vec<String> {
    read_all(partition).into_iter().map(|seen| String::from_utf8(seen.body.to_vec()).unwrap()).collect()
}

pub(super) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(super) fn wait_for_reserve(store: &Store) {
    wait_until("the log has a file in reserve", || !store.pool.is_out_of_files());
}

/// Names and sizes of the files in a partition's directory, in order.
pub(super) fn files(dir: &Path) -> Vec<(String, u64)> {
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len())
    };
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(file).collect();
    files.sort();
    files
}

/// Everything below a directory: paths in order, with the content of files.
pub(super) fn snapshot(dir: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(snapshot(&path));
            all.push((path, None));
        } else {
            all.push((path.clone(), Some(std::fs::read(&path).unwrap())));
        }
    }
    all.sort();
    all
}
