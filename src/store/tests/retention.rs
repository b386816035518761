//! Retention: what is removed and archived, and what a crash or a failing disk leaves of that.

use std::cell::Cell;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::super::fs::read_exact_at;
use super::super::{
    Access, Disposal, Expired, FileSystem, Kind, OsFileSystem, PartitionLog, ReadOutcome, RetentionPolicy, Store,
    StoreError,
};
use super::disk::{Failing, SimDisk};
use super::kit::*;
use crate::id::{Offset, PartitionIndex};
use crate::message::Records;

const P0: PartitionIndex = PartitionIndex::new(0);

const ALL_DISPOSALS: [Disposal; 3] = [Disposal::Remove, Disposal::Archive, Disposal::Compress];

/// Everything but the last segment is expired.
fn at_once(disposal: Disposal) -> RetentionPolicy {
    RetentionPolicy { max_age_ms: -1, disposal }
}

fn expire(store: &Store, partition: &PartitionLog, policy: RetentionPolicy) -> Result<Expired, StoreError> {
    let mut done = Expired::default();
    let result = store.expire_segments(partition, policy, SystemTime::now(), &|| false, &mut done);
    result.map(|()| done)
}

fn read(fs: &dyn FileSystem, path: &Path) -> Vec<u8> {
    let file = fs.open(path, Access::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.stamp().unwrap().len).unwrap()];
    read_exact_at(&*file, &mut bytes, 0).unwrap();
    bytes
}

/// The only entry of an archive; its checksum is right.
fn unzip(archive: &[u8]) -> Vec<u8> {
    let field =
        |at: usize, len: usize| archive[at..at + len].iter().rev().fold(0, |n, &byte| n << 8 | usize::from(byte));
    assert_eq!(field(0, 4), 0x0403_4b50, "the header is there");
    assert_eq!(field(archive.len() - 22, 4), 0x0605_4b50, "the end is there");
    let start = 30 + field(26, 2) + field(28, 2);
    let mut content = Vec::new();
    let mut inflate = flate2::read::DeflateDecoder::new(&archive[start..start + field(18, 4)]);
    inflate.read_to_end(&mut content).unwrap();
    assert_eq!((content.len(), crc32fast::hash(&content) as usize), (field(22, 4), field(14, 4)));
    content
}

/// Bodies of the messages in the archives of a directory, which must all be whole; nothing unfinished is left.
fn archived(fs: &dyn FileSystem, dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs.list(dir).unwrap().into_iter().map(|entry| entry.name).collect();
    names.sort();
    let mut bodies = Vec::new();
    for path in names.iter().map(|name| dir.join(name)) {
        let content = match path.extension().unwrap().to_str().unwrap() {
            "arc" => read(fs, &path),
            "zip" => unzip(&read(fs, &path)),
            "meta" => continue,
            _ => panic!("{} is left", path.display()),
        };
        let mut records = Records::new(Bytes::from(content.clone()), 1 << 30);
        bodies.extend(records.by_ref().map(|r| String::from_utf8(r.unwrap().body.to_vec()).unwrap()));
        assert_eq!(records.consumed(), content.len());
    }
    bodies
}

fn bodies_of(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("message {i:03}")).collect()
}

fn fill(store: &Store, partition: &Arc<PartitionLog>, count: usize) {
    for body in bodies_of(count) {
        put(store, partition, body.as_bytes()).unwrap();
    }
}

#[test]
fn expired_segments_are_removed_or_archived_and_the_last_one_stays() {
    for disposal in ALL_DISPOSALS {
        let bench = Bench::new(|options| options.max_segment_size = 60);
        let partition = bench.partition("t", 0, &GROUP_COMMIT);
        fill(&bench.store, &partition, 9);
        let before = files(partition.dir());
        let contents: Vec<_> =
            before.iter().map(|(name, _)| std::fs::read(partition.dir().join(name)).unwrap()).collect();
        let held = partition.segments().remove(0);
        let done = expire(&bench.store, &partition, at_once(disposal)).unwrap();
        assert_eq!((done.removed + done.archived, done.segment_bytes), (4, 4 * 62), "{disposal:?}");
        assert_eq!((done.archived > 0, partition.segments().len()), (disposal != Disposal::Remove, 1));
        let left = files(partition.dir());
        let names: Vec<_> = left.iter().map(|(name, _)| name.as_str()).collect();
        let suffix = match disposal {
            Disposal::Remove => None,
            Disposal::Archive => Some("arc"),
            Disposal::Compress => Some("zip"),
        };
        let mut expected: Vec<_> =
            before[..4].iter().filter_map(|(name, _)| Some(format!("{name}.{}", suffix?))).collect();
        expected.push(before[4].0.clone());
        assert_eq!(names, expected);
        for (content, (name, len)) in contents.iter().zip(&left).take(expected.len() - 1) {
            let archive = std::fs::read(partition.dir().join(name)).unwrap();
            assert_eq!(archive.len() as u64, *len);
            assert!(*content == if disposal == Disposal::Compress { unzip(&archive) } else { archive }, "{name}");
        }
        let kept: u64 = left.iter().map(|(_, len)| len).sum();
        let freed = before.iter().map(|(_, len)| len).sum::<u64>().saturating_sub(kept);
        assert!(disposal == Disposal::Compress || done.freed_bytes == freed);
        let mut start = [0; 11];
        held.file().read_at(&mut start, 20).unwrap();
        assert_eq!(&start, b"message 000", "whoever holds it reads on");
        assert!(matches!(partition.read(Offset::ZERO, 10), ReadOutcome::BelowMin(min) if min == Offset::new(4 * 62)));
        let Bench { dir, store, .. } = bench;
        drop((partition, store));
        let store = open(&options(dir.path())).unwrap();
        assert_eq!(bodies(&store.get("t", P0).unwrap()), bodies_of(9)[8..]);
    }
}

#[test]
fn a_segment_is_expired_when_it_is_older_than_the_time_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let options = {
        let mut o = options(dir.path());
        o.max_segment_size = 60;
        o
    };
    let store = open(&options).unwrap();
    let partition = store.get_or_create(&topic("t"), P0, &GROUP_COMMIT).unwrap();
    fill(&store, &partition, 7);
    let age_times = [1_700_000_000_u64, 1_700_000_100, 1_700_000_050, 1_700_000_000];
    store.close().unwrap();
    for ((name, _), seconds) in files(partition.dir()).iter().zip(age_times) {
        let file = std::fs::File::options().write(true).open(partition.dir().join(name)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }
    drop((partition, store));
    // A process that is killed: the next start recovers, and touches no segment but the last.
    drop(open(&options).unwrap());
    let store = open(&options).unwrap();
    let partition = store.get("t", P0).unwrap();
    let policy = RetentionPolicy { max_age_ms: 60_000, disposal: Disposal::Remove };
    let expire_at = |seconds, ms| {
        let mut done = Expired::default();
        let now = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(ms);
        store.expire_segments(&partition, policy, now, &|| false, &mut done).unwrap();
        done.removed
    };
    assert_eq!(expire_at(1_700_000_060, 0), 0, "not yet: it is exactly as old as that");
    assert_eq!(expire_at(1_700_000_060, 1), 1);
    assert_eq!(expire_at(1_700_000_155, 0), 0, "the third is expired, but not the second");
    assert_eq!(expire_at(1_700_000_160, 1), 2);
    assert_eq!(expire_at(1_900_000_000, 0), 0, "the last one stays");
}

#[test]
fn an_archive_of_the_same_name_is_never_overwritten() {
    for disposal in [Disposal::Archive, Disposal::Compress] {
        let bench = Bench::new(|options| options.max_segment_size = 60);
        for _ in 0..3 {
            let partition = bench.partition("t", 0, &GROUP_COMMIT);
            fill(&bench.store, &partition, 3);
            expire(&bench.store, &partition, at_once(disposal)).unwrap();
            assert!(bench.store.delete_partition("t", P0).unwrap());
        }
        let dir = bench.data().join("t-0");
        let suffix = if disposal == Disposal::Archive { "arc" } else { "zip" };
        let names: Vec<_> = files(&dir).into_iter().map(|(name, _)| name).collect();
        let expected = ["1.", "2.", ""].map(|n| format!("00000000000000000000.meta.{n}{suffix}"));
        assert_eq!(names, expected);
        assert_eq!(archived(&OsFileSystem, &dir).len(), 6);
    }
}

#[test]
fn a_segment_that_was_taken_out_of_its_archive_is_not_archived_twice() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    options.max_segment_size = 60;
    let store = open(&options).unwrap();
    let partition = store.get_or_create(&topic("t"), P0, &GROUP_COMMIT).unwrap();
    fill(&store, &partition, 7);
    expire(&store, &partition, at_once(Disposal::Compress)).unwrap();
    store.close().unwrap();
    let names = || files(partition.dir()).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let archives = names();
    for seconds in [1_700_000_000, 1_700_000_100] {
        let youngest = archives.iter().rev().find(|name| name.ends_with(".zip")).unwrap();
        let segment = partition.dir().join(youngest.strip_suffix(".zip").unwrap());
        std::fs::write(&segment, unzip(&read(&OsFileSystem, &partition.dir().join(youngest)))).unwrap();
        let file = std::fs::File::options().write(true).open(&segment).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        let store = open(&options).unwrap();
        let partition = store.get("t", P0).unwrap();
        assert_eq!((partition.segments().len(), bodies(&partition).len()), (2, 3));
        assert_eq!(expire(&store, &partition, at_once(Disposal::Compress)).unwrap().archived, 1);
        store.close().unwrap();
        assert_eq!(names(), archives);
    }
}

#[test]
fn a_full_disk_keeps_the_segment_and_says_so() {
    let disk = SimDisk::new(1);
    let options = {
        let mut o = options(Path::new("/"));
        o.max_segment_size = 60;
        o
    };
    let store = Store::open(options, Arc::new(disk.clone())).unwrap();
    let partition = store.get_or_create(&topic("t"), P0, &GROUP_COMMIT).unwrap();
    fill(&store, &partition, 5);
    partition.make_checkpoint().unwrap();
    disk.set_capacity(0);
    let error = expire(&store, &partition, at_once(Disposal::Compress)).unwrap_err();
    assert!(error.to_string().starts_with("no space left for the archive"), "{error}");
    assert_eq!((bodies(&partition), archived(&disk, partition.dir())), (bodies_of(5), vec![]));
    disk.set_capacity(u64::MAX);
    expire(&store, &partition, at_once(Disposal::Compress)).unwrap();
    assert_eq!([archived(&disk, partition.dir()), bodies(&partition)].concat(), bodies_of(5));
}

#[test]
fn compressing_can_be_stopped_and_leaves_nothing_unfinished() {
    let bench = Bench::new(|options| options.max_segment_size = 1 << 20);
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    let body = vec![b'x'; 70_000];
    for _ in 0..20 {
        put(&bench.store, &partition, &body).unwrap();
    }
    let before = files(partition.dir());
    let looks = Cell::new(0);
    let stop = || looks.replace(looks.get() + 1) == 2;
    let mut done = Expired::default();
    let policy = at_once(Disposal::Compress);
    bench.store.expire_segments(&partition, policy, SystemTime::now(), &stop, &mut done).unwrap();
    assert_eq!((looks.get(), done, files(partition.dir())), (3, Expired::default(), before));
    bench.store.close().unwrap();
    let closed = bench.store.expire_segments(&partition, policy, SystemTime::now(), &|| false, &mut done);
    assert!(matches!(closed, Err(StoreError::Closed)));
}

/// A store on a simulated disk with a few segments, without threads, so that operations come in one order.
fn on_disk(disk: &SimDisk) -> (Store, Arc<PartitionLog>) {
    let mut options = options(Path::new("/"));
    options.max_segment_size = 60;
    let clock = AtomicU64::new(1_700_000_000_000);
    let clock = Box::new(move || clock.fetch_add(1, Ordering::Relaxed));
    let store = Store::open_without_threads(options, Arc::new(disk.clone()), clock).unwrap();
    let partition = store.get_or_create(&topic("t"), P0, &GROUP_COMMIT).unwrap();
    (store, partition)
}

fn fill_without_threads(store: &Store, partition: &Arc<PartitionLog>, count: usize) {
    for body in bodies_of(count) {
        let answer = submit(store, vec![(partition, Bytes::from(body))]);
        store.committer().run_waiting();
        answer.try_recv().unwrap().remove(0).unwrap();
    }
}

/// Archives and the partition have every message between them: none is lost, and after another run none is twice.
fn check(disk: &SimDisk, store: &Store, partition: &PartitionLog, disposal: Disposal, what: &str) {
    expire(store, partition, at_once(disposal)).unwrap_or_else(|error| panic!("{what}: {error}"));
    let dir = PathBuf::from("/data/t-0");
    let mut found = archived(disk, &dir);
    found.extend(bodies(partition));
    let expected = bodies_of(7);
    if disposal == Disposal::Remove {
        assert_eq!(found, expected[6..], "{what}");
    } else {
        assert_eq!(found, expected, "{what}");
    }
    assert_eq!(partition.segments().len(), 1, "{what}");
}

#[test]
fn whatever_fails_once_loses_nothing_and_the_next_run_goes_on() {
    const KINDS: [Failing; 7] = [
        Failing::Write,
        Failing::Sync,
        Failing::PartialSync,
        Failing::Create,
        Failing::Rename,
        Failing::Remove,
        Failing::SyncDir,
    ];
    let mut failures = 0;
    for disposal in ALL_DISPOSALS {
        for kind in KINDS {
            for nth in 0.. {
                let disk = SimDisk::new(nth);
                let (store, partition) = on_disk(&disk);
                fill_without_threads(&store, &partition, 7);
                // Its failure would poison the partition, which other tests are about.
                partition.make_checkpoint().unwrap();
                let seen = AtomicU64::new(0);
                disk.fail_once(kind, move |path| {
                    path.starts_with("/data/t-0") && seen.fetch_add(1, Ordering::Relaxed) == nth
                });
                let first = expire(&store, &partition, at_once(disposal));
                if disk.faults_left() > 0 {
                    first.unwrap();
                    break;
                }
                failures += 1;
                let what = format!("{disposal:?} {kind:?} {nth}: {:?}", first.as_ref().err());
                assert!(partition.poison().is_none(), "{what}");
                check(&disk, &store, &partition, disposal, &what);
            }
        }
    }
    assert!(failures > 40, "{failures}");
}

#[test]
fn a_power_cut_at_any_operation_leaves_each_segment_or_its_archive() {
    for disposal in ALL_DISPOSALS {
        for operation in 0.. {
            let disk = SimDisk::new(operation);
            let (store, partition) = on_disk(&disk);
            fill_without_threads(&store, &partition, 7);
            disk.power_off_after(operation);
            let finished = expire(&store, &partition, at_once(disposal)).is_ok();
            if finished && !disk.is_off() {
                assert!(operation > 8, "{operation} operations");
                break;
            }
            let mut rng = fastrand::Rng::with_seed(operation);
            for image in 0..12 {
                let disk = if image == 0 { disk.kill() } else { disk.power_cut(&mut rng) };
                let what = format!("{disposal:?}, operation {operation}, image {image}\n{}", disk.dump());
                let (store, partition) = on_disk(&disk);
                assert_eq!(bodies(&partition).last(), bodies_of(7).last(), "{what}");
                check(&disk, &store, &partition, disposal, &what);
            }
            drop((partition, store));
        }
    }
}

#[test]
fn an_archive_that_a_crash_left_beside_its_segment_is_found_to_be_the_same() {
    let disk = SimDisk::new(3);
    let (store, partition) = on_disk(&disk);
    fill_without_threads(&store, &partition, 7);
    disk.fail_once(Failing::Remove, |path| path.extension().is_some_and(|extension| extension == "meta"));
    expire(&store, &partition, at_once(Disposal::Compress)).unwrap_err();
    let zip = partition.segments()[0].path().with_extension("meta.zip");
    assert!(matches!(disk.kind(&zip), Ok(Some(Kind::File(_)))) && partition.segments().len() == 4);
    check(&disk, &store, &partition, Disposal::Compress, "after the failed removal");
}
