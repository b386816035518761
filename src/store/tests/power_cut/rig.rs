//! Does at random what a broker does, one thing after the other.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use fastrand::Rng;

use super::super::disk::SimDisk;
use super::super::kit::{Answer, Seen, group, options, remove_oldest, topic};
use super::model::{Model, position};
use crate::id::{MessageId, PartitionIndex, TopicName};
use crate::store::{
    Disposal, Expired, LARGE_RECORD_BYTES, PartitionLog, RetentionPolicy, Segment, Store, StoreError, StoreOptions,
    TopicSettings,
};

type Key = (&'static str, i32);

const PARTITIONS: [Key; 6] = [("group", 0), ("group", 1), ("elsewhere", 0), ("count", 0), ("count", 1), ("time", 0)];

/// Things done before the power goes off at the latest.
const MOST_STEPS: usize = 60;

fn settings(topic: &TopicName) -> TopicSettings {
    let (unflush_threshold, data_path) = match topic.as_str() {
        "group" => (0, None),
        "elsewhere" => (-1, Some(PathBuf::from("/elsewhere"))),
        "count" => (3, None),
        _ => (1_000_000, None),
    };
    TopicSettings { unflush_threshold, unflush_interval_ms: 1_000_000, data_path }
}

fn is_group_commit(key: Key) -> bool {
    settings(&topic(key.0)).unflush_threshold <= 0
}

/// See the module.
pub(super) struct Rig {
    disk: SimDisk,
    options: StoreOptions,
    store: Option<Store>,
    models: BTreeMap<Key, Model>,
    /// A time that goes on with every look at it.
    clock: Arc<AtomicU64>,
    last_id: MessageId,
    sent: u64,
    traces: bool,
}

impl Rig {
    pub(super) fn new(seed: u64, rng: &mut Rng) -> Self {
        let options = StoreOptions {
            topic_data_paths: vec![PathBuf::from("/elsewhere")],
            max_segment_size: rng.u64(200..6000),
            commit_log_file_bytes: rng.u64(20_000..60_000),
            commit_log_files: rng.usize(2..5),
            topic_settings: Arc::new(settings),
            ..options("/".as_ref())
        };
        let models = PARTITIONS.iter().map(|&key| (key, Model::default())).collect();
        let clock = Arc::new(AtomicU64::new(1_700_000_000_000));
        let disk = SimDisk::new(seed);
        let last_id = MessageId::new(i64::MIN);
        let traces = std::env::var_os("METAQ_SEED").is_some();
        let mut rig = Self { disk, options, store: None, models, clock, last_id, sent: 0, traces };
        rig.store = Some(rig.open().unwrap());
        rig
    }

    fn open(&self) -> Result<Store, StoreError> {
        let clock = Arc::clone(&self.clock);
        let clock = Box::new(move || clock.fetch_add(1, Ordering::Relaxed));
        Store::open_without_threads(self.options.clone(), Arc::new(self.disk.clone()), clock)
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    /// For the run of a single seed: what happens.
    fn trace(&self, text: impl Fn() -> String) {
        if self.traces {
            println!("{:>5} {}", self.disk.operations(), text());
        }
    }

    fn find(&self, key: Key) -> Option<Arc<PartitionLog>> {
        self.store().get(key.0, PartitionIndex::new(key.1))
    }

    fn find_any(&self, rng: &mut Rng) -> Option<(Key, Arc<PartitionLog>)> {
        let key = PARTITIONS[rng.usize(0..PARTITIONS.len())];
        self.find(key).map(|partition| (key, partition))
    }

    pub(super) fn work_until_the_power_is_off(&mut self, rng: &mut Rng) {
        let operations = if rng.bool() { 1..60 } else { 1..500 };
        self.disk.power_off_after(rng.u64(operations));
        for _ in 0..rng.usize(1..MOST_STEPS) {
            self.step(rng);
            if self.disk.is_off() {
                break;
            }
        }
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.u32(0..100) {
            0..60 => self.put(rng),
            60..72 => {
                if let Some((key, partition)) = self.find_any(rng) {
                    self.trace(|| format!("file {key:?}"));
                    self.store().shared.tails.file(&partition);
                }
            }
            72..82 => {
                self.trace(|| "checkpoint".into());
                self.store().checkpointer.step();
            }
            82..87 => {
                self.trace(|| "flush".into());
                self.store().flush();
            }
            87..90 => self.remove_oldest(rng),
            90..93 => self.expire(rng),
            93..95 => self.delete(rng),
            95..97 => self.restart(rng),
            _ => {}
        }
        self.note_visible();
    }

    fn note_visible(&mut self) {
        if self.store.is_none() {
            return;
        }
        for key in PARTITIONS {
            if let Some(partition) = self.find(key).filter(|_| !self.models[&key].deleting) {
                self.models.get_mut(&key).unwrap().note_visible(&partition);
            }
        }
    }

    /// A body that there is no other of, unless it is empty.
    fn body(&mut self, rng: &mut Rng) -> Bytes {
        self.sent += 1;
        let len = match rng.u32(0..60) {
            0..8 => return Bytes::new(),
            8 => rng.usize(LARGE_RECORD_BYTES - 40..LARGE_RECORD_BYTES + 9000),
            9..20 => rng.usize(8..2500),
            _ => rng.usize(8..200),
        };
        let mut body = self.sent.to_be_bytes().to_vec();
        body.resize(len, rng.u8(..));
        body.into()
    }

    fn put(&mut self, rng: &mut Rng) {
        let mut waiting: Vec<(Vec<(Key, Bytes)>, Answer)> = Vec::new();
        for _ in 0..rng.usize(1..4) {
            let mut puts = Vec::new();
            for _ in 0..rng.usize(1..7) {
                let key = PARTITIONS[rng.usize(0..PARTITIONS.len())];
                // What became of one that is half deleted is found out at the next start.
                if !self.models[&key].deleting {
                    puts.push((key, self.body(rng)));
                }
            }
            let partition = |&(key, ref body): &(Key, Bytes)| {
                let topic = topic(key.0);
                let partition = self.store().get_or_create(&topic, PartitionIndex::new(key.1), &settings(&topic));
                (partition.unwrap(), body.clone())
            };
            let partitions: Vec<_> = puts.iter().map(partition).collect();
            let (group, answer) = group(partitions.iter().map(|(partition, body)| (partition, body.clone())).collect());
            self.store().committer().submit(&mut vec![group]);
            waiting.push((puts, answer));
        }
        self.store().committer().run_waiting();
        for (puts, answer) in waiting {
            let results = answer.try_recv().expect("an answer");
            for ((key, body), result) in puts.into_iter().zip(results) {
                self.trace(|| {
                    format!("put {} bytes to {key:?}: {:?}", body.len(), result.as_ref().map(|put| put.offset).ok())
                });
                let model = self.models.get_mut(&key).unwrap();
                let Ok(appended) = result else {
                    assert!(self.disk.is_off(), "{:?}", result.unwrap_err());
                    model.maybe.push(body);
                    continue;
                };
                assert!(appended.id > self.last_id, "ids ascend");
                self.last_id = appended.id;
                assert_eq!(position(appended.offset), model.end(), "offsets are dense");
                model.records.push(Seen { offset: appended.offset, id: appended.id, body });
                if is_group_commit(key) {
                    model.durable = model.end();
                }
            }
        }
    }

    fn remove_oldest(&mut self, rng: &mut Rng) {
        self.take_out(rng, |_, partition, most| {
            let mut count = 0;
            let due = |_: &Segment| {
                count += 1;
                count <= most
            };
            remove_oldest(partition, due).map(drop)
        });
    }

    /// Retention, archives included.
    fn expire(&mut self, rng: &mut Rng) {
        let disposal = *rng.choice(&[Disposal::Remove, Disposal::Archive, Disposal::Compress]).unwrap();
        self.take_out(rng, |store, partition, most| {
            let looks = Cell::new(0);
            let stop = || looks.replace(looks.get() + 1) >= most;
            let policy = RetentionPolicy { max_age_ms: -1, disposal };
            store.expire_segments(partition, policy, SystemTime::now(), &stop, &mut Expired::default())
        });
    }

    /// Takes at most so many of the oldest segments out of some partition.
    fn take_out(
        &mut self,
        rng: &mut Rng,
        take_out: impl FnOnce(&Store, &PartitionLog, usize) -> Result<(), StoreError>,
    ) {
        let Some((key, partition)) = self.find_any(rng).filter(|(key, _)| !self.models[key].deleting) else { return };
        let model = self.models.get_mut(&key).unwrap();
        let most = rng.usize(1..4);
        model.starts.extend(partition.segments().iter().map(|segment| position(segment.start())).take(most + 1));
        let taken_out = take_out(self.store(), &partition, most);
        self.trace(|| format!("took segments out of {key:?}: {taken_out:?}"));
        let model = self.models.get_mut(&key).unwrap();
        if taken_out.is_ok() {
            let start = position(partition.min_offset());
            model.starts = [start].into();
            model.records.retain(|record| position(record.offset) >= start);
        }
    }

    fn delete(&mut self, rng: &mut Rng) {
        let key = PARTITIONS[rng.usize(0..PARTITIONS.len())];
        let old = self.find(key);
        let deleted = self.store().delete_partition(key.0, PartitionIndex::new(key.1));
        self.trace(|| format!("deleted {key:?}: {deleted:?}"));
        let model = self.models.get_mut(&key).unwrap();
        match deleted {
            Ok(true) => {
                *model = Model::default();
                assert!(old.unwrap().is_deleted());
            }
            Ok(false) => assert!(old.is_none()),
            Err(_) => {
                assert!(self.disk.is_off());
                model.deleting = true;
            }
        }
    }

    /// A clean stop, or one that is none.
    fn restart(&mut self, rng: &mut Rng) {
        let store = self.store.take().unwrap();
        let clean = rng.bool();
        self.trace(|| format!("restart, clean: {clean}"));
        let closed = clean.then(|| store.close());
        for (key, model) in &mut self.models {
            if let Some(partition) = store.get(key.0, PartitionIndex::new(key.1)).filter(|_| !model.deleting) {
                model.note_visible(&partition);
            }
        }
        if self.disk.is_off() {
            self.store = Some(store);
            return;
        }
        if let Some(closed) = closed {
            closed.unwrap();
        } else {
            self.disk = self.disk.kill();
        }
        drop(store);
        // Neither loses anything.
        self.models.values_mut().for_each(|model| model.durable = model.end());
        match self.open() {
            Ok(store) => self.store = Some(store),
            Err(_) if self.disk.is_off() => return,
            Err(error) => panic!("{error}\n{}", self.disk.dump()),
        }
        assert_eq!(self.store().recovery().clean_stop, clean);
        self.check();
        if rng.bool() {
            self.disk.power_off_after(rng.u64(1..200));
        }
    }

    pub(super) fn cut_power_and_recover(&mut self, rng: &mut Rng) {
        let store = self.store.take();
        // Seldom only the process dies, at this very operation.
        let mut is_kill = rng.u32(0..8) == 0;
        self.trace(|| format!("power cut, only a kill: {is_kill}\n{}", self.disk.dump()));
        self.disk = if is_kill { self.disk.kill() } else { self.disk.power_cut(rng) };
        drop(store);
        while rng.bool() {
            self.disk.power_off_after(rng.u64(0..80));
            is_kill = false;
            // Whether it is ready before or not.
            let recovering = self.open();
            self.trace(|| format!("power cut during recovery: {:?}", recovering.as_ref().map(drop)));
            self.disk = self.disk.power_cut(rng);
        }
        if is_kill {
            // The system still has everything that was written.
            self.models.values_mut().for_each(|model| model.durable = model.end());
        }
        self.store = Some(self.open().unwrap_or_else(|error| panic!("{error}\n{}", self.disk.dump())));
        self.check();
    }

    fn check(&mut self) {
        self.trace(|| format!("started: {:#?}", self.store().recovery()));
        for key in PARTITIONS {
            let partition = self.find(key);
            self.models.get_mut(&key).unwrap().check_after_start(partition.as_deref());
            let last = self.models[&key].records.last().map(|last| last.id);
            // What was not answered may have a later one.
            self.last_id = self.last_id.max(last.unwrap_or(self.last_id));
        }
        assert!(self.store().health().is_healthy(), "{:?}", self.store().health());
    }
}
