use std::path::{Path, PathBuf};
use std::time::Instant;

use super::*;
use crate::id::{BrokerId, PartitionIndex};
use crate::store::{OsFileSystem, StoreOptions, TopicSettings};

const DEADLINE: Duration = Duration::from_secs(20);

/// Rules that can be changed.
#[derive(Debug)]
struct Rules(Mutex<RetentionRule>);

impl Rules {
    fn new(when: &str, policy: &str) -> Arc<Self> {
        let rules = Arc::new(Self(Mutex::new(rule("* * * * * ?", "delete,168"))));
        rules.set(when, policy);
        rules
    }

    fn set(&self, when: &str, policy: &str) {
        *self.0.lock().unwrap() = rule(when, policy);
    }
}

impl RetentionRules for Rules {
    fn configured(&self) -> Vec<TopicName> {
        vec![TopicName::new("a").unwrap()]
    }

    fn rule(&self, _: &TopicName) -> RetentionRule {
        self.0.lock().unwrap().clone()
    }
}

fn rule(when: &str, policy: &str) -> RetentionRule {
    RetentionRule { when: when.parse().unwrap(), policy: policy.parse().unwrap() }
}

/// Partition 0 of each topic with two segments of 100 bytes and an empty last one.
fn store(dir: &Path, topics: &[&str]) -> Arc<Store> {
    for topic in topics {
        let partition = dir.join(format!("{topic}-0"));
        std::fs::create_dir_all(&partition).unwrap();
        for (start, len) in [(0, 100), (100, 100), (200, 0)] {
            std::fs::write(partition.join(format!("{start:020}.meta")), vec![b'x'; len]).unwrap();
        }
    }
    let settings = TopicSettings { unflush_threshold: 0, unflush_interval_ms: 1000, data_path: None };
    let options = StoreOptions {
        data_path: dir.to_path_buf(),
        topic_data_paths: Vec::new(),
        data_log_path: dir.to_path_buf(),
        broker_id: BrokerId::new(0).unwrap(),
        max_segment_size: 100,
        max_transfer_size: 1 << 20,
        free_space_warning_bytes: 0,
        commit_log_file_bytes: 1 << 20,
        commit_log_files: 2,
        topic_settings: Arc::new(move |_| settings.clone()),
    };
    Arc::new(Store::open(options, Arc::new(OsFileSystem)).unwrap())
}

fn wait_for(retention: &Retention, what: &str, condition: impl Fn(&RetentionTotals) -> bool) -> RetentionTotals {
    let started = Instant::now();
    loop {
        let totals = retention.handle().totals();
        if condition(&totals) {
            return totals;
        }
        assert!(started.elapsed() < DEADLINE, "waited in vain for {what}: {totals:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_changed_configuration_counts_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let rules = Rules::new("0 0 0 1 1 ? 2200", "delete,-1");
    let retention =
        Retention::start(Arc::clone(&rules) as Arc<dyn RetentionRules>, store(dir.path(), &["a", "b"])).unwrap();
    let totals = wait_for(&retention, "the first timetable", |totals| totals.next_run.is_some());
    assert_eq!((totals.runs, totals.running, totals.last_run), (0, false, None));
    rules.set("* * * * * ?", "delete,-1");
    retention.handle().configuration_changed();
    let totals = wait_for(&retention, "a run", |totals| totals.runs > 0);
    assert_eq!(
        (totals.segments_removed, totals.segments_archived, totals.bytes_freed, totals.failures),
        (4, 0, 400, 0)
    );
    assert!(totals.last_run.is_some() && totals.last_duration.is_some());
    rules.set("0 0 0 1 1 ? 2020", "delete,-1");
    retention.handle().configuration_changed();
    wait_for(&retention, "no next run", |totals| totals.next_run.is_none());
    retention.stop();
    let runs = retention.handle().totals().runs;
    retention.stop();
    assert_eq!(retention.handle().totals().runs, runs, "it has stopped");
}

/// Everything is archived until there is an archive, then nothing more.
#[derive(Debug)]
struct OneArchive(PathBuf);

impl RetentionRules for OneArchive {
    fn configured(&self) -> Vec<TopicName> {
        Vec::new()
    }

    fn rule(&self, _: &TopicName) -> RetentionRule {
        rule("* * * * * ?", if self.0.exists() { "archive,168" } else { "archive,-1" })
    }
}

#[test]
fn a_changed_policy_counts_in_the_middle_of_a_partition() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path(), &["a"]);
    let archive = dir.path().join("a-0/00000000000000000000.meta.arc");
    let retention = Retention::start(Arc::new(OneArchive(archive)), store).unwrap();
    let totals = wait_for(&retention, "two runs", |totals| totals.runs > 1);
    assert_eq!((totals.segments_archived, totals.failures), (1, 0));
    retention.stop();
}

#[test]
fn a_partition_that_fails_is_counted_and_the_others_are_dealt_with() {
    let dir = tempfile::tempdir().unwrap();
    let rules = Rules::new("* * * * * ?", "archive,-1,true");
    let store = store(dir.path(), &["a", "b", "c"]);
    let segment = store.get("b", PartitionIndex::new(0)).unwrap().segments()[0].path().to_path_buf();
    // No file can be made where a directory is.
    let obstacle = PathBuf::from(format!("{}.zip.tmp", segment.display()));
    std::fs::create_dir(&obstacle).unwrap();
    let retention = Retention::start(rules, Arc::clone(&store)).unwrap();
    let totals = wait_for(&retention, "two runs", |totals| totals.runs > 1);
    assert_eq!(totals.segments_archived, 4);
    assert!(totals.failures >= 2, "{totals:?}");
    assert!(segment.exists());
    std::fs::remove_dir(&obstacle).unwrap();
    wait_for(&retention, "what stood in the way is gone", |totals| totals.segments_archived == 6);
    retention.stop();
}
