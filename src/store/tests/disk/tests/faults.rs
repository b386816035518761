//! Failures on request, and a full disk.

use std::io::ErrorKind;
use std::path::Path;

use rustix::io::Errno;

use super::super::Failing;
use super::*;

fn is_eio<T>(result: std::io::Result<T>) -> bool {
    result.err().is_some_and(|error| error.raw_os_error() == Some(Errno::IO.raw_os_error()))
}

#[test]
fn after_a_failed_sync_readers_see_bytes_that_no_later_sync_writes() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/f", &[b'a'; 512]);
    write(&*file, &[b'b'; 1024], 0);
    disk.fail_once(Failing::Sync, |path| path == Path::new("/f"));
    assert!(is_eio(file.sync_data()));
    assert_eq!(disk.faults_left(), 0);
    assert_eq!(runs(&bytes(&*file)), "b1024");
    let lens = outcomes(&disk, |disk| runs(&read(disk, "/f").unwrap()));
    assert_eq!(lens, set(["a512", "a512 0512"]), "the length is metadata");
    file.sync_data().unwrap();
    assert_eq!(runs(&bytes(&*file)), "b1024");
    assert_eq!(outcomes(&disk, |disk| runs(&read(disk, "/f").unwrap())), set(["a512 0512"]));
}

#[test]
fn dropping_cached_pages_shows_what_a_failed_sync_lost_and_keeps_dirty_ones() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/f", &[b'a'; 1536]);
    write(&*file, &[b'b'; 1024], 0);
    disk.fail_once(Failing::Sync, |_| true);
    assert!(is_eio(file.sync_data()));
    write(&*file, &[b'c'; 256], 512);
    write(&*file, &[b'd'; 512], 1024);
    assert_eq!(runs(&bytes(&*file)), "b512 c256 b256 d512");
    file.drop_cached().unwrap();
    assert_eq!(runs(&bytes(&*file)), "a512 c256 b256 d512", "a sector that was written again is dirty as a whole");
    file.sync_data().unwrap();
    file.drop_cached().unwrap();
    let image = disk.power_cut(&mut Rng::with_seed(1));
    assert_eq!(runs(&read(&image, "/f").unwrap()), "a512 c256 b256 d512");
}

#[test]
fn a_cut_stays_dirty_over_a_failed_sync() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/f", &[b'a'; 600]);
    write(&*file, &[b'b'; 600], 0);
    file.set_len(100).unwrap();
    write(&*file, &[b'c'; 100], 100);
    disk.fail_once(Failing::Sync, |_| true);
    assert!(is_eio(file.sync_data()));
    file.set_len(150).unwrap();
    assert_eq!(runs(&bytes(&*file)), "b100 c50");
    file.sync_data().unwrap();
    file.drop_cached().unwrap();
    assert_eq!(runs(&bytes(&*file)), "a100 050");
}

#[test]
fn a_partly_failed_sync_writes_some_sectors() {
    let make = |seed| {
        let disk = SimDisk::new(seed);
        let file = durable(&disk, "/f", &[b'a'; 1024]);
        write(&*file, &[b'b'; 1024], 0);
        disk.fail_once(Failing::PartialSync, |_| true);
        assert!(is_eio(file.sync_data()));
        assert_eq!(runs(&bytes(&*file)), "b1024");
        file.drop_cached().unwrap();
        disk
    };
    let found = outcomes_of(make, |disk| runs(&read(disk, "/f").unwrap()));
    assert_eq!(found, set(["a1024", "b1024", "a512 b512", "b512 a512"]));
}

#[test]
fn a_failing_write_takes_a_part_and_only_the_named_file_is_met() {
    let lens: BTreeSet<_> = (0..CUTS)
        .map(|seed| {
            let disk = SimDisk::new(seed);
            let (file, other) = (create(&disk, "/f"), create(&disk, "/other"));
            disk.fail_once(Failing::Write, |path| path.ends_with("f"));
            write(&*other, b"12345", 0);
            assert!(is_eio(file.write_at(&[IoSlice::new(b"12345")], 0)));
            let len = bytes(&*file).len();
            write(&*file, b"12345", 0);
            assert_eq!((bytes(&*file), bytes(&*other)), (b"12345".to_vec(), b"12345".to_vec()));
            len
        })
        .collect();
    assert_eq!(lens, BTreeSet::from([0, 1, 2, 3, 4]));
}

#[test]
fn every_kind_of_failure_strikes_once_and_changes_nothing() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/f", b"1");
    make_dir(&disk, "/d");
    let (f, g) = (Path::new("/f"), Path::new("/g"));
    let before = disk.dump();
    for failing in [Failing::SetLen, Failing::Create, Failing::Create, Failing::Rename, Failing::Remove] {
        disk.fail_once(failing, |_| true);
    }
    disk.fail_once(Failing::Remove, |path| path.ends_with("d"));
    disk.fail_once(Failing::SyncDir, |path| path == Path::new("/"));
    assert!(is_eio(file.set_len(0)));
    assert!(is_eio(disk.create(g)) && is_eio(disk.create_dir(g)));
    assert!(is_eio(disk.rename(f, g)));
    assert!(is_eio(disk.remove_file(f)) && is_eio(disk.remove_dir(Path::new("/d"))));
    assert!(is_eio(disk.sync_dir(Path::new("/"))));
    assert_eq!((disk.dump(), disk.faults_left()), (before, 0));
    assert_eq!(outcomes(&disk, |disk| tree(disk).join(" ")), set(["/f", "/d/ /f"]), "not synced");
    let disk = disk.power_cut(&mut Rng::with_seed(3));
    rename(&disk, "/f", "/g");
    create(&disk, "/f");
    remove(&disk, "/f");
    sync_dir(&disk, "/");
}

#[test]
fn a_full_disk_takes_what_fits_and_more_when_space_is_freed() {
    let disk = SimDisk::new(1);
    let root = Path::new("/");
    disk.set_capacity(1000);
    let (a, b) = (create(&disk, "/a"), create(&disk, "/b"));
    write(&*a, &[1; 600], 0);
    assert_eq!(disk.free_space(root).unwrap(), 400);
    assert_eq!(b.write_at(&[IoSlice::new(&[2; 300]), IoSlice::new(&[3; 300])], 0).unwrap(), 400);
    let full = |result: std::io::Result<()>| result.unwrap_err().kind() == ErrorKind::StorageFull;
    assert!(full(b.write_at(&[IoSlice::new(b"x")], 400).map(drop)));
    assert!(full(b.set_len(401)) && full(disk.create(Path::new("/c")).map(drop)));
    write(&*b, &[4; 400], 0);
    a.set_len(500).unwrap();
    assert_eq!(b.write_at(&[IoSlice::new(&[5; 200])], 350).unwrap(), 150);
    remove(&disk, "/a");
    assert_eq!(disk.free_space(root).unwrap(), 0, "still open");
    drop(a);
    assert_eq!(disk.free_space(root).unwrap(), 500);
    disk.set_capacity(100);
    assert_eq!(disk.free_space(root).unwrap(), 0);
    assert_eq!(disk.kill().free_space(root).unwrap(), 0, "the capacity belongs to the disk");
}

#[test]
fn short_writes_take_the_limit_at_most() {
    let disk = SimDisk::new(1);
    disk.set_short_writes(Some(7));
    let file = create(&disk, "/f");
    assert_eq!(file.write_at(&[IoSlice::new(b"0123"), IoSlice::new(b"456789")], 0).unwrap(), 7);
    assert_eq!(bytes(&*file), b"0123456");
    write(&*file, b"abcdefghij", 0);
    assert_eq!(bytes(&*file), b"abcdefghij");
    disk.set_short_writes(None);
    assert_eq!(file.write_at(&[IoSlice::new(b"0123456789")], 0).unwrap(), 10);
}
