use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::housekeeping::FreeSpace;
use super::super::{AppendError, Store, StoreError, TopicSettings};
use super::disk::{Failing, SimDisk};
use super::faulty::{FaultyFs, OTHER_VOLUME};
use super::kit::*;
use crate::id::{Offset, PartitionIndex};

fn is_poisoned<T: std::fmt::Debug>(result: &Result<T, AppendError>) -> bool {
    matches!(result, Err(AppendError::Poisoned { .. }))
}

#[test]
fn a_failed_sync_of_the_log_poisons_every_partition_for_good() {
    let bench = Bench::new(|_| {});
    let (partition, other) = (bench.partition("t", 0, &GROUP_COMMIT), bench.partition("t", 1, &PERIODIC));
    put(&bench.store, &partition, b"durable").unwrap();
    bench.wait_for_reserve();
    bench.faults.fail_log_sync.store(true, Ordering::SeqCst);
    let failed = put(&bench.store, &partition, b"lost");
    assert!(is_poisoned(&failed), "{failed:?}");
    let text = failed.unwrap_err().to_string();
    let expected = "partition t-0 takes no more messages until the broker is restarted: sync of the commit log ";
    assert!(text.starts_with(expected), "{text}");

    let syncs = bench.faults.log_syncs.load(Ordering::SeqCst);
    assert!(is_poisoned(&put(&bench.store, &partition, b"later")));
    assert!(is_poisoned(&put(&bench.store, &other, b"later")), "all messages go through the log");
    bench.store.flush();
    assert_eq!(bench.faults.log_syncs.load(Ordering::SeqCst), syncs, "a failed sync is never tried again");
    assert_eq!(bodies(&partition), ["durable"]);
    let health = bench.store.health();
    assert!(!health.is_healthy());
    assert!(health.commit_log_failure.unwrap().starts_with("sync of the commit log "));
    assert!(health.poisoned.is_empty(), "their own files are good");
    assert!(matches!(bench.store.close(), Err(StoreError::LogFailed(_))), "a stop says so");
    let Bench { dir, store, .. } = bench;
    drop(store);
    let store = open(&options(dir.path())).unwrap();
    assert!(!store.recovery().clean_stop);
    let partition = store.get("t", partition.index()).unwrap();
    // A message that was refused may come to light.
    let found = bodies(&partition);
    assert!(found == ["durable"] || found == ["durable", "lost"], "{found:?}");
    put(&store, &partition, b"again").unwrap();
}

#[test]
fn a_committer_that_ends_by_a_fault_refuses_puts_and_shows() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    assert!(!bench.store.committer_failed());
    bench.store.committer().fail();
    assert!(bench.store.committer_failed() && !bench.store.health().is_healthy());
    assert!(matches!(put(&bench.store, &partition, b"x"), Err(AppendError::Closed)));
}

#[test]
fn a_restart_after_a_failed_sync_of_the_log_finds_exactly_what_is_durable() {
    for cut in [false, true] {
        let disk = SimDisk::new(1);
        let store = Store::open(options(Path::new("/")), Arc::new(disk.clone())).unwrap();
        let partition = store.get_or_create(&topic("t"), PartitionIndex::new(0), &GROUP_COMMIT).unwrap();
        put(&store, &partition, b"durable").unwrap();
        wait_for_reserve(&store);
        disk.fail_once(Failing::Sync, |path| path.to_string_lossy().contains("commitlog."));
        put(&store, &partition, b"lost").unwrap_err();
        put(&store, &partition, b"later").unwrap_err();
        let image = if cut { disk.power_cut(&mut fastrand::Rng::with_seed(1)) } else { disk.kill() };
        drop((partition, store));
        let store = Store::open(options(Path::new("/")), Arc::new(image)).unwrap();
        assert_eq!(bodies(&store.get("t", PartitionIndex::new(0)).unwrap()), ["durable"], "power cut: {cut}");
    }
}

#[test]
fn a_failed_write_of_the_log_poisons_every_partition() {
    let bench = Bench::new(|_| {});
    let (partition, other) = (bench.partition("t", 0, &PERIODIC), bench.partition("t", 1, &PERIODIC));
    put(&bench.store, &partition, b"written").unwrap();
    bench.wait_for_reserve();
    bench.faults.fail_log_write.store(true, Ordering::SeqCst);
    let error = put(&bench.store, &partition, b"lost").unwrap_err();
    assert!(error.to_string().contains("write to the commit log "), "{error}");
    assert!(is_poisoned(&put(&bench.store, &other, b"later")));
}

#[test]
fn a_failed_background_sync_poisons_a_periodic_partition() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &TopicSettings { unflush_interval_ms: 20, ..PERIODIC });
    put(&bench.store, &partition, b"x").unwrap();
    wait_until("the first message is flushed", || partition.max_offset() == Offset::new(21));
    bench.wait_for_reserve();
    bench.faults.fail_log_sync.store(true, Ordering::SeqCst);
    // Synced in the background or before the answer of the next message: both fail.
    let _poisoned_already = put(&bench.store, &partition, b"x");
    wait_until("the sync failed", || partition.poison().is_some());
    assert!(is_poisoned(&put(&bench.store, &partition, b"x")));
    assert_eq!(read_all(&partition).len(), 1);
}

#[test]
fn a_device_error_while_a_tail_is_filed_poisons_that_partition_only_and_loses_nothing() {
    let bench = Bench::new(|_| {});
    let (partition, other) = (bench.partition("t", 0, &GROUP_COMMIT), bench.partition("t", 1, &GROUP_COMMIT));
    put(&bench.store, &partition, b"hello").unwrap();
    partition.file_tail().unwrap();
    put(&bench.store, &partition, b"world").unwrap();
    bench.faults.fail_write.store(true, Ordering::SeqCst);
    assert!(is_poisoned(&partition.file_tail()));
    assert_eq!(files(partition.dir()), [("00000000000000000000.meta".to_owned(), 25)], "no bytes are left behind");
    assert!(is_poisoned(&put(&bench.store, &partition, b"refused")));
    put(&bench.store, &other, b"x").unwrap();
    assert_eq!(bodies(&partition), ["hello", "world"]);
    assert_eq!(bench.store.health().poisoned.len(), 1);
    let Bench { dir, store, .. } = bench;
    drop(store);
    let store = open(&options(dir.path())).unwrap();
    assert_eq!(bodies(&store.get("t", partition.index()).unwrap()), ["hello", "world"]);
    assert!(store.health().is_healthy());
}

#[test]
fn messages_of_a_partition_that_is_poisoned_in_the_same_round_are_durable_before_the_answer() {
    let bench = Bench::new(|options| options.max_segment_size = 25);
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    bench.faults.fail_write.store(true, Ordering::SeqCst);
    // It fills the segment, whose roll then fails.
    put(&bench.store, &partition, b"hello").unwrap();
    assert!(partition.poison().is_some());
    assert_eq!(partition.max_offset(), Offset::new(25));
    assert_eq!(bodies(&partition), ["hello"]);
}

#[test]
fn a_failed_sync_of_a_segment_or_its_directory_poisons_that_partition_only_and_is_never_tried_again() {
    for directory in [false, true] {
        let bench = Bench::new(|_| {});
        let (partition, other) = (bench.partition("t", 0, &GROUP_COMMIT), bench.partition("t", 1, &GROUP_COMMIT));
        put(&bench.store, &partition, b"hello").unwrap();
        let fault = if directory { &bench.faults.fail_dir_sync } else { &bench.faults.fail_sync };
        fault.store(true, Ordering::SeqCst);
        assert!(is_poisoned(&partition.make_checkpoint()));
        let syncs = bench.faults.syncs.load(Ordering::SeqCst);
        assert!(is_poisoned(&partition.make_checkpoint()));
        assert_eq!(bench.faults.syncs.load(Ordering::SeqCst), syncs);
        assert!(is_poisoned(&put(&bench.store, &partition, b"x")));
        assert_eq!(bodies(&partition), ["hello"]);
        put(&bench.store, &other, b"x").unwrap();
        other.make_checkpoint().unwrap();
    }
}

#[test]
fn running_out_of_descriptors_poisons_nothing() {
    let bench = Bench::new(|options| options.max_segment_size = 60);
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    put(&bench.store, &bench.partition("first", 0, &GROUP_COMMIT), b"draws the first id").unwrap();
    bench.wait_for_reserve();
    bench.faults.no_descriptors.store(true, Ordering::SeqCst);
    put(&bench.store, &partition, b"hello").unwrap();
    assert!(matches!(partition.make_checkpoint(), Err(AppendError::Io { .. })));
    // It fills the segment; its successor waits for the next message.
    put(&bench.store, &partition, &[b'x'; 40]).unwrap();
    assert!(matches!(put(&bench.store, &partition, b"y"), Err(AppendError::Io { .. })));
    let large = put(&bench.store, &partition, &[b'x'; 70_000]);
    assert!(matches!(large, Err(AppendError::Io { .. })));
    bench.faults.no_descriptors.store(false, Ordering::SeqCst);
    assert_eq!(put(&bench.store, &partition, b"y").unwrap().offset, Offset::new(85));
    assert!(bench.store.health().is_healthy());
}

#[test]
fn a_full_disk_keeps_tails_in_memory_and_refuses_further_messages_until_there_is_space() {
    let bench = Bench::new(|_| {});
    let other_volume = bench.dir.path().join(OTHER_VOLUME);
    let elsewhere = TopicSettings { data_path: Some(other_volume), ..GROUP_COMMIT };
    let (partition, same) = (bench.partition("t", 0, &GROUP_COMMIT), bench.partition("t", 1, &GROUP_COMMIT));
    let other = bench.partition("other", 0, &elsewhere);
    put(&bench.store, &partition, b"hello").unwrap();
    put(&bench.store, &same, b"hello").unwrap();
    same.file_tail().unwrap();
    for left in [0, 1, 19, 20, 24] {
        partition.file_tail().unwrap();
        let before = partition.written_offset();
        bench.wait_for_reserve();
        *bench.faults.space.lock().unwrap() = Some(left);
        put(&bench.store, &partition, b"world").unwrap();
        bench.store.shared.tails.file(&partition);
        assert!(partition.is_full());
        assert_eq!(*bench.faults.space.lock().unwrap(), Some(left), "the part that was written is given back");
        assert_eq!(read_from(&partition, before).len(), 1, "served from memory");
        for refusing in [&partition, &same] {
            let error = put(&bench.store, refusing, b"refused").unwrap_err();
            let dir = refusing.dir().display();
            let text = format!("no space left on {dir}: free space and the broker accepts puts again");
            assert_eq!(error.to_string(), text);
        }
        put(&bench.store, &other, b"accepted").unwrap();
        assert_eq!(bench.store.health().full.len(), 1);
        assert!(bench.store.health().poisoned.is_empty());
        *bench.faults.space.lock().unwrap() = None;
        put(&bench.store, &same, b"space").unwrap();
        assert!(bench.store.health().is_healthy());
    }
    let counts = [&partition, &same, &other].map(|partition| read_all(partition).len());
    assert_eq!(counts, [6, 6, 5]);
    let Bench { dir, store, .. } = bench;
    drop(store);
    let mut options = options(dir.path());
    options.topic_data_paths = vec![dir.path().join(OTHER_VOLUME)];
    let store = open(&options).unwrap();
    let counts = [&partition, &same, &other].map(|partition| {
        let partition = store.get(partition.topic().as_str(), partition.index()).unwrap();
        read_all(&partition).len()
    });
    assert_eq!(counts, [6, 6, 5], "nothing is lost, nothing that was refused is there");
}

#[test]
fn a_partition_that_fails_while_its_tail_waits_for_space_does_not_keep_the_others_waiting() {
    let bench = Bench::new(|_| {});
    let (partition, same) = (bench.partition("t", 0, &GROUP_COMMIT), bench.partition("t", 1, &GROUP_COMMIT));
    put(&bench.store, &partition, b"hello").unwrap();
    put(&bench.store, &same, b"hello").unwrap();
    bench.wait_for_reserve();
    *bench.faults.space.lock().unwrap() = Some(3);
    bench.store.shared.tails.file(&partition);
    assert!(matches!(put(&bench.store, &same, b"refused"), Err(AppendError::NoSpace(_))));
    partition.poison_with("its disk failed");
    *bench.faults.space.lock().unwrap() = None;
    put(&bench.store, &same, b"accepted").unwrap();
}

#[test]
fn a_tail_that_found_the_disk_full_survives_a_kill() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &PERIODIC);
    put(&bench.store, &partition, b"hello").unwrap();
    bench.wait_for_reserve();
    *bench.faults.space.lock().unwrap() = Some(3);
    partition.file_tail().unwrap_err();
    let Bench { dir, store, .. } = bench;
    drop(store);
    let store = open(&options(dir.path())).unwrap();
    assert_eq!(bodies(&store.get("t", partition.index()).unwrap()), ["hello"]);
}

#[test]
fn a_full_disk_at_a_roll_is_no_loss() {
    let bench = Bench::new(|options| options.max_segment_size = 50);
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    put(&bench.store, &partition, b"hello").unwrap();
    bench.wait_for_reserve();
    *bench.faults.space.lock().unwrap() = Some(25);
    put(&bench.store, &partition, b"world").unwrap();
    assert!(matches!(put(&bench.store, &partition, b"again"), Err(AppendError::NoSpace(_))));
    assert_eq!(partition.segments().len(), 1);
    *bench.faults.space.lock().unwrap() = None;
    assert_eq!(put(&bench.store, &partition, b"again").unwrap().offset, Offset::new(50));
    assert_eq!(bodies(&partition), ["hello", "world", "again"]);
    assert_eq!(partition.segments().len(), 2);
}

#[test]
fn a_full_disk_at_the_first_message_is_tried_again() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    bench.wait_for_reserve();
    *bench.faults.space.lock().unwrap() = Some(0);
    assert!(matches!(put(&bench.store, &partition, b"x"), Err(AppendError::NoSpace(_))));
    *bench.faults.space.lock().unwrap() = None;
    assert_eq!(put(&bench.store, &partition, b"x").unwrap().offset, Offset::ZERO);
}

#[test]
fn a_failed_write_that_cannot_be_undone_poisons_and_a_restart_recovers() {
    let bench = Bench::new(|_| {});
    let partition = bench.partition("t", 0, &GROUP_COMMIT);
    put(&bench.store, &partition, b"hello").unwrap();
    partition.file_tail().unwrap();
    put(&bench.store, &partition, b"world").unwrap();
    bench.wait_for_reserve();
    *bench.faults.space.lock().unwrap() = Some(10);
    bench.faults.fail_cut.store(true, Ordering::SeqCst);
    assert!(is_poisoned(&partition.file_tail()));
    assert_eq!(bodies(&partition), ["hello", "world"]);
    let Bench { dir, store, .. } = bench;
    drop(store);
    let store = open(&options(dir.path())).unwrap();
    let partition = store.get("t", partition.index()).unwrap();
    assert_eq!(put(&store, &partition, b"again").unwrap().offset, Offset::new(50));
    assert_eq!(bodies(&partition), ["hello", "world", "again"]);
}

#[test]
fn something_else_under_the_name_of_a_partition_is_told() {
    let bench = Bench::new(|_| {});
    let (file, foreign) = (bench.partition("file", 0, &GROUP_COMMIT), bench.partition("foreign", 0, &GROUP_COMMIT));
    std::fs::write(file.dir(), b"").unwrap();
    std::fs::create_dir(foreign.dir()).unwrap();
    std::fs::write(foreign.dir().join("00000000000000000000.meta"), b"").unwrap();
    let error = put(&bench.store, &file, b"x").unwrap_err();
    assert_eq!(error.to_string(), format!("Path is not a directory:{}", file.dir().display()));
    assert!(matches!(put(&bench.store, &foreign, b"x"), Err(AppendError::ForeignSegments(_))));
    std::fs::remove_file(file.dir()).unwrap();
    put(&bench.store, &file, b"x").unwrap();
    std::fs::remove_dir_all(bench.data()).unwrap();
    let error = put(&bench.store, &bench.partition("new", 0, &GROUP_COMMIT), b"x").unwrap_err();
    assert!(error.to_string().starts_with("Create directory failed:"), "{error}");
}

#[test]
fn low_free_space_is_shown_until_it_recovers() {
    let (fs, free_space) = (FaultyFs::default(), FreeSpace::default());
    free_space.watch("/".into());
    for (free, low) in [(1000, vec![]), (999, vec![999]), (998, vec![998]), (1000, vec![])] {
        fs.faults.free_space.store(free, Ordering::SeqCst);
        free_space.check(&fs, 1000);
        assert_eq!(free_space.low().iter().map(|low| low.free_bytes).collect::<Vec<_>>(), low);
    }
    let bench = Bench::new(|options| options.free_space_warning_bytes = u64::MAX);
    assert_eq!(bench.store.health().low_space.len(), 1, "looked at when the store is opened");
}

/// A mounted file system of its own, taken off at the end.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn mount(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(dir.path())
            .output();
        mount.is_ok_and(|output| output.status.success()).then_some(Self(dir))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_disk_that_is_really_full_loses_and_shifts_nothing() {
    let Some(tmpfs) = Tmpfs::mount("256k") else {
        println!("skipped: a tmpfs cannot be mounted here");
        return;
    };
    let dir = tmpfs.0.path();
    let mut options = options(dir);
    (options.commit_log_file_bytes, options.commit_log_files) = (16 << 10, 2);
    let store = open(&options).unwrap();
    let partition = store.get_or_create(&topic("t"), PartitionIndex::new(0), &GROUP_COMMIT).unwrap();
    let ballast = dir.join("ballast");
    std::fs::write(&ballast, vec![1; 64 * 1024]).unwrap();
    let fill = |store: &Store| {
        let mut stored = 0;
        loop {
            match put(store, &partition, &[b'x'; 3000]) {
                Ok(_) => stored += 1,
                Err(error) => {
                    assert!(matches!(error, AppendError::NoSpace(_)), "{error}");
                    return stored;
                }
            }
        }
    };
    let mut stored = fill(&store);
    assert!(stored > 10, "{stored}");
    std::fs::remove_file(&ballast).unwrap();
    wait_until("messages are accepted again", || put(&store, &partition, &[b'x'; 3000]).is_ok());
    stored += 1;
    for _ in 0..11 {
        // The log may find out a little later.
        wait_until("messages are accepted again", || put(&store, &partition, &[b'x'; 3000]).is_ok());
        stored += 1;
    }
    stored += fill(&store);
    assert_eq!(read_all(&partition).len(), stored);
    assert_eq!(partition.max_offset().get() % 3020, 0);
    drop(partition);
    drop(store);
    // What only the log holds needs space.
    let grown = Command::new("mount").args(["-o", "remount,size=1m"]).arg(dir).status().unwrap();
    assert!(grown.success());
    let store = open(&options).unwrap();
    assert_eq!(read_all(&store.get("t", PartitionIndex::new(0)).unwrap()).len(), stored);
    drop(store);
}
