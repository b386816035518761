//! Data directories that a broker on the JVM left behind: every message is there, no more and no fewer, they can be
//! appended to, and nothing else in them changes.
#![cfg(feature = "broker")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use metaq::id::{BrokerId, Offset, PartitionIndex};
use metaq::message::{Records, checksum};
use metaq::store::{
    AppendError, AppendGroup, AppendSink, Appended, OsFileSystem, PartitionLog, ReadOutcome, Store, StoreOptions,
    TopicSettings,
};
use serde_json::{Value, json};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/data").join(name)
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// All files below a directory with length and checksum of their content.
/// Everything but what Java ignores: the record of a clean stop.
fn snapshot(dir: &Path) -> Vec<(PathBuf, usize, i32)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(snapshot(&path));
        } else if !path.ends_with("transactions/clean.stop") {
            let content = fs::read(&path).unwrap();
            files.push((path, content.len(), checksum(&content)));
        }
    }
    files.sort();
    files
}

fn open(data: &Path) -> Store {
    let settings = TopicSettings { unflush_threshold: 0, unflush_interval_ms: 10_000, data_path: None };
    let options = StoreOptions {
        data_path: data.to_path_buf(),
        topic_data_paths: Vec::new(),
        data_log_path: data.to_path_buf(),
        broker_id: BrokerId::new(1).unwrap(),
        max_segment_size: 16_384,
        max_transfer_size: 1 << 20,
        free_space_warning_bytes: 0,
        commit_log_file_bytes: 1 << 20,
        commit_log_files: 4,
        topic_settings: Arc::new(move |_| settings.clone()),
    };
    Store::open(options, Arc::new(OsFileSystem)).unwrap()
}

/// Every visible message of a partition in the form of the recorded list.
fn messages(partition: &PartitionLog) -> Vec<Value> {
    let (mut offset, mut messages) = (partition.min_offset(), Vec::new());
    while let ReadOutcome::Region(region) = partition.read(offset, 1 << 20) {
        let mut records = Records::new(region.to_bytes().unwrap(), 1 << 20);
        for record in records.by_ref() {
            let record = record.unwrap();
            let body = record.decode_body().unwrap();
            let head = &body.payload[..body.payload.len().min(16)];
            messages.push(json!({
                "topic": partition.topic().as_str(),
                "partition": partition.index().get(),
                "segment": region.segment().path().file_name().unwrap().to_str().unwrap(),
                "offset": offset.checked_add(record.position as u64).unwrap().get(),
                "id": record.header.id.get(),
                "flag": record.header.flag,
                "attribute": body.attribute.as_deref(),
                "payload_len": body.payload.len(),
                "payload_head": String::from_utf8_lossy(head),
                "checksum": record.header.checksum,
                "checksum_ok": true,
            }));
        }
        offset = offset.checked_add(records.consumed() as u64).unwrap();
    }
    messages
}

fn recorded(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(fixture(name).join("messages.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn stored(store: &Store) -> Vec<Value> {
    sorted(store.partitions().iter().flat_map(|partition| messages(partition)).collect())
}

fn sorted(mut messages: Vec<Value>) -> Vec<Value> {
    messages.sort_by_key(|m| (m["topic"].to_string(), m["partition"].as_i64(), m["offset"].as_i64()));
    messages
}

struct Results(Mutex<mpsc::Sender<Result<Appended, AppendError>>>);

impl AppendSink for Results {
    fn complete(&self, groups: &mut Vec<AppendGroup>) {
        for group in groups.drain(..) {
            for (_, _, result) in group.results() {
                self.0.lock().unwrap().send(result).unwrap();
            }
        }
    }
}

fn put(store: &Store, partition: &Arc<PartitionLog>, body: &[u8]) -> Appended {
    let (sender, answer) = mpsc::channel();
    let mut group = AppendGroup::new(Arc::new(Results(Mutex::new(sender))));
    group.push(partition, 0, checksum(body), body, 0);
    store.committer().submit(&mut vec![group]);
    answer.recv_timeout(Duration::from_secs(20)).unwrap().unwrap()
}

#[test]
fn every_recorded_message_is_read_back_and_no_file_is_changed() {
    for name in ["01-multi-segment", "02-journal-killed", "04-journal-checkpoint-rolled"] {
        let dir = tempfile::tempdir().unwrap();
        copy_dir(&fixture(name).join("data"), dir.path());
        let before = snapshot(dir.path());
        let store = open(dir.path());
        // The list of 01 was made after a clean stop, those of 02 and 04 hold what is in the segments.
        assert_eq!(stored(&store), sorted(recorded(name)), "{name}");
        assert!(store.health().journal_warning.unwrap().contains("redo.1"), "{name}");
        store.close().unwrap();
        let mut after = snapshot(dir.path());
        after.retain(|(path, ..)| !path.ends_with("clean.stop"));
        assert_eq!(after, before, "{name}");
    }
}

#[test]
fn a_directory_can_be_appended_to_rolled_and_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    copy_dir(&fixture("01-multi-segment").join("data"), dir.path());
    let mut expected = recorded("01-multi-segment");
    let before = snapshot(dir.path());
    let store = open(dir.path());
    let partition = store.get("meta-test", PartitionIndex::new(0)).unwrap();
    let (mut end, mut last_id) = (partition.max_offset(), None);
    assert_eq!(end, Offset::new(77_270 + 6_130));
    for i in 0..40 {
        let appended = put(&store, &partition, format!("appended {i:02} {}", "x".repeat(488)).as_bytes());
        assert_eq!(appended.offset, end);
        assert!(appended.id.get() > 0 && Some(appended.id) > last_id, "ours ascend behind the negative ones");
        (end, last_id) = (end.checked_add(520).unwrap(), Some(appended.id));
    }
    store.close().unwrap();

    // 20 records of 520 bytes more fill the last segment; the next one has the name that the reference gives it.
    let next = dir.path().join("meta-test-0").join(format!("{:020}.meta", 77_270 + 6_130 + 20 * 520));
    assert!(next.is_file(), "{}", next.display());
    for (path, len, sum) in before {
        assert_eq!(checksum(&fs::read(&path).unwrap()[..len]), sum, "{} was changed", path.display());
    }

    let store = open(dir.path());
    let now = stored(&store);
    let is_appended = |m: &Value| m["payload_head"].as_str().unwrap().starts_with("appended ");
    let (appended, old): (Vec<_>, Vec<_>) = now.into_iter().partition(is_appended);
    expected = sorted(expected);
    assert_eq!(old, expected);
    assert_eq!(appended.len(), 40);
    let partition = store.get("meta-test", PartitionIndex::new(0)).unwrap();
    assert_eq!(partition.max_offset(), end);
}
