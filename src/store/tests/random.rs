//! Random schedules of puts, rolls, crashes and torn tails, checked against a model.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use fastrand::Rng;

use super::super::{PartitionLog, Store, StoreOptions, TopicSettings};
use super::kit::*;
use crate::id::{MessageId, Offset, PartitionIndex};
use crate::message::HEADER_LEN;

const PARTITIONS: usize = 5;
const RESTARTS: usize = 6;

fn settings(index: usize) -> TopicSettings {
    let (unflush_threshold, unflush_interval_ms) =
        [(0, 1000), (-1, 1000), (3, 1_000_000), (1000, 5), (1_000_000, 1_000_000)][index];
    TopicSettings { unflush_threshold, unflush_interval_ms, data_path: None }
}

/// What must be in a partition.
#[derive(Default)]
struct Model {
    records: Vec<Seen>,
    /// End of what was answered as durable.
    durable: Offset,
}

impl Model {
    fn end(&self) -> Offset {
        let end = |last: &Seen| last.offset.checked_add((HEADER_LEN + last.body.len()) as u64).unwrap();
        self.records.last().map_or(Offset::ZERO, end)
    }

    /// After a restart everything is there that was written: a crash of the process loses nothing.
    fn check_after_restart(&mut self, partition: &PartitionLog) {
        assert_eq!(partition.max_offset(), partition.written_offset());
        assert_eq!(read_all(partition), self.records, "{}", partition.name());
        assert_eq!(self.end(), partition.max_offset());
        self.durable = partition.max_offset();
    }
}

fn body(rng: &mut Rng) -> Bytes {
    let len = match rng.u32(0..20) {
        0 => 0,
        1 => rng.usize(60_000..140_000),
        _ => rng.usize(0..600),
    };
    Bytes::from(std::iter::repeat_with(|| rng.u8(..)).take(len).collect::<Vec<_>>())
}

fn put_some(
    rng: &mut Rng,
    store: &Store,
    partitions: &[Arc<PartitionLog>],
    models: &mut [Model],
    last: &mut MessageId,
) {
    let groups: Vec<_> = (0..rng.usize(1..6))
        .map(|_| {
            let puts: Vec<_> = (0..rng.usize(0..12)).map(|_| (rng.usize(0..partitions.len()), body(rng))).collect();
            let answer = submit(store, puts.iter().map(|(i, body)| (&partitions[*i], body.clone())).collect());
            (puts, answer)
        })
        .collect();
    for (puts, group) in groups {
        let results = answer(&group);
        assert_eq!(results.len(), puts.len());
        for ((i, body), appended) in puts.into_iter().zip(results) {
            let (appended, model) = (appended.unwrap(), &mut models[i]);
            assert_eq!(appended.index, partitions[i].index());
            assert_eq!(appended.offset, model.end(), "offsets are dense");
            assert!(appended.id > *last, "ids ascend");
            *last = appended.id;
            model.records.push(Seen { offset: appended.offset, id: appended.id, body });
            if settings(i).unflush_threshold <= 0 {
                model.durable = model.end();
            }
        }
    }
    for (partition, model) in partitions.iter().zip(models) {
        let visible = partition.max_offset();
        assert!(model.durable <= visible && visible <= partition.written_offset());
        // What a reader could see must survive as well.
        model.durable = visible;
    }
}

/// What a power cut may leave of a segment's bytes behind those that were synced in it.
fn damage(rng: &mut Rng, dir: &Path, synced: u64) {
    // Not what earlier starts kept of torn tails.
    let Some((name, len)) = files(dir).into_iter().rfind(|(name, _)| name.ends_with(".meta")) else { return };
    let path = dir.join(&name);
    let start: u64 = name.trim_end_matches(".meta").parse().unwrap();
    let keep = synced.saturating_sub(start).min(len);
    let cut = rng.u64(keep..=len);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    match rng.u32(0..5) {
        0 => {}
        1 => file.set_len(cut).unwrap(),
        2 => {
            file.set_len(cut).unwrap();
            file.set_len(len + rng.u64(0..100)).unwrap();
        }
        3 => {
            file.set_len(len + rng.u64(1..5000)).unwrap();
        }
        _ => {
            let len = rng.usize(1..3000);
            let garbage: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(len).collect();
            OpenOptions::new().append(true).open(&path).unwrap().write_all(&garbage).unwrap();
        }
    }
}

fn open_partitions(options: &StoreOptions) -> (Store, Vec<Arc<PartitionLog>>) {
    let store = open(options).unwrap();
    let index = |i: usize| PartitionIndex::new(i32::try_from(i).unwrap());
    let partition = |i| {
        let partition = store.get_or_create(&topic("t"), index(i), &settings(i)).unwrap();
        partition.set_settings(&settings(i));
        partition
    };
    let partitions = (0..PARTITIONS).map(partition).collect();
    (store, partitions)
}

fn run(seed: u64) {
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    options.max_segment_size = rng.u64(500..20_000);
    let mut models: Vec<Model> = (0..PARTITIONS).map(|_| Model::default()).collect();
    let mut last = MessageId::new(i64::MIN);
    for _ in 0..RESTARTS {
        let (store, partitions) = open_partitions(&options);
        for (partition, model) in partitions.iter().zip(&mut models) {
            model.check_after_restart(partition);
        }
        for _ in 0..rng.usize(0..8) {
            put_some(&mut rng, &store, &partitions, &mut models, &mut last);
        }
        if rng.u32(0..3) == 0 {
            store.close().unwrap();
            continue;
        }
        drop(store);
        for partition in &partitions {
            if partition.dir().is_dir() {
                damage(&mut rng, partition.dir(), partition.checkpointed.load(Ordering::Acquire));
            }
        }
    }
    let (_store, partitions) = open_partitions(&options);
    for (partition, model) in partitions.iter().zip(&mut models) {
        model.check_after_restart(partition);
    }
    assert!(fs::read_dir(dir.path().join("data")).unwrap().count() <= PARTITIONS + 1);
}

#[test]
fn what_was_written_survives_crashes_and_torn_segments() {
    let first = std::env::var("METAQ_SEED").ok().and_then(|seed| seed.parse().ok());
    let base = first.unwrap_or_else(|| fastrand::u64(0..u64::MAX - 20));
    (base..base + 5).for_each(run);
}
