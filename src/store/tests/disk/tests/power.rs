//! The power switch, restarts and locks.

use std::path::Path;
use std::thread;

use super::*;

fn locked(disk: &SimDisk) -> Option<Box<dyn crate::store::DirLock>> {
    disk.lock_dir(Path::new("/")).unwrap()
}

#[test]
fn operations_are_counted_and_after_the_last_one_everything_fails() {
    let disk = SimDisk::new(1);
    let root = Path::new("/");
    let file = durable(&disk, "/a", b"1");
    assert_eq!(disk.operations(), 4, "create, write, sync, sync of the directory");
    disk.power_off_after(2);
    write(&*file, b"2", 1);
    file.set_len(1).unwrap();
    assert!(!disk.is_off());
    assert!(file.sync_data().is_err());
    assert!(disk.is_off());
    assert_eq!(disk.operations(), 7);
    let mut buf = [0; 1];
    let nothing_works = [
        file.read_at(&mut buf, 0).is_err(),
        file.write_at(&[IoSlice::new(b"x")], 0).is_err(),
        file.sync_data().is_err(),
        file.set_len(0).is_err(),
        file.stamp().is_err(),
        file.drop_cached().is_err(),
        disk.open(Path::new("/a"), Access::Read).is_err(),
        disk.create(Path::new("/b")).is_err(),
        disk.list(root).is_err(),
        disk.kind(root).is_err(),
        disk.create_dir(Path::new("/c")).is_err(),
        disk.sync_dir(root).is_err(),
        disk.rename(Path::new("/a"), Path::new("/b")).is_err(),
        disk.remove_file(Path::new("/a")).is_err(),
        disk.remove_dir(root).is_err(),
        disk.free_space(root).is_err(),
        disk.identity(root).is_err(),
        disk.lock_dir(root).is_err(),
    ];
    assert!(nothing_works.iter().all(|failed| *failed), "{nothing_works:?}");
    assert_eq!(disk.operations(), 7);
}

#[test]
fn an_interrupted_write_may_have_written_any_part() {
    let make = |seed| {
        let disk = SimDisk::new(seed);
        let file = durable(&disk, "/f", b"");
        disk.power_off_after(0);
        assert!(file.write_at(&[IoSlice::new(b"12345")], 0).is_err());
        disk
    };
    let lens = outcomes_of(make, |disk| read(disk, "/f").unwrap().len());
    assert_eq!(lens, BTreeSet::from([0, 1, 2, 3, 4]));
}

#[test]
fn an_interrupted_sync_may_have_synced_nothing_something_or_all() {
    let make = |seed| {
        let disk = SimDisk::new(seed);
        let file = durable(&disk, "/f", &[b'a'; 1024]);
        write(&*file, &[b'b'; 1024], 0);
        disk.power_off_after(0);
        assert!(file.sync_data().is_err());
        disk
    };
    let found = outcomes_of(make, |disk| runs(&read(disk, "/f").unwrap()));
    assert!(set(["a1024", "b1024", "a512 b512", "b512 a512"]).is_subset(&found), "{found:?}");
}

#[test]
fn an_interrupted_operation_on_a_name_happened_or_not() {
    type Act = fn(&SimDisk) -> bool;
    let acts: [(&str, Act); 4] = [
        ("/a /b", |disk| disk.create(Path::new("/b")).is_err()),
        ("/a /b/", |disk| disk.create_dir(Path::new("/b")).is_err()),
        ("/b", |disk| disk.rename(Path::new("/a"), Path::new("/b")).is_err()),
        ("", |disk| disk.remove_file(Path::new("/a")).is_err()),
    ];
    for (done, act) in acts {
        let make = |seed| {
            let disk = SimDisk::new(seed);
            durable(&disk, "/a", b"");
            disk.power_off_after(0);
            assert!(act(&disk));
            disk
        };
        assert_eq!(outcomes_of(make, |disk| tree(disk).join(" ")), set(["/a", done]));
    }
}

#[test]
fn one_run_gives_many_images_and_equal_seeds_equal_ones() {
    let run = || {
        let disk = SimDisk::new(7);
        let file = durable(&disk, "/f", &[b'a'; 5000]);
        write(&*file, &[b'b'; 9000], 100);
        create(&disk, "/g");
        disk.power_off_after(0);
        assert!(file.write_at(&[IoSlice::new(&[b'c'; 3000])], 0).is_err());
        disk
    };
    let look = |disk: &SimDisk| (tree(disk), read(disk, "/f").map(|content| runs(&content)), disk.dump());
    let (one, two) = (run(), run());
    let images: Vec<_> = (0..50).map(|seed| look(&one.power_cut(&mut Rng::with_seed(seed)))).collect();
    let again: Vec<_> = (0..50).map(|seed| look(&two.power_cut(&mut Rng::with_seed(seed)))).collect();
    assert_eq!(images, again);
    assert!(images.iter().collect::<BTreeSet<_>>().len() > 25);
}

#[test]
fn a_power_cut_frees_locks_and_leaves_old_handles_without_power() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/f", b"1");
    let lock = locked(&disk).expect("free");
    assert!(locked(&disk).is_none());
    let image = disk.power_cut(&mut Rng::with_seed(1));
    assert!(disk.is_off() && !image.is_off());
    assert_eq!(image.operations(), 0);
    let new_lock = locked(&image).expect("free after a restart");
    drop(lock);
    assert!(locked(&image).is_none(), "the lock of the old machine means nothing");
    drop(new_lock);
    assert!(locked(&image).is_some());
    assert!(file.write_at(&[IoSlice::new(b"2")], 0).is_err());
    drop(file);
    assert_eq!(read(&image, "/f").unwrap(), b"1");
    // All that is on the image is durable.
    assert_eq!(outcomes(&image, |disk| read(disk, "/f").unwrap()), BTreeSet::from([b"1".to_vec()]));
}

#[test]
fn a_killed_process_loses_handles_and_locks_and_nothing_else() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/f", b"1");
    let held = create(&disk, "/held");
    remove(&disk, "/held");
    create(&disk, "/g");
    write(&*file, b"23", 0);
    let lock = locked(&disk).expect("free");
    let dump = disk.dump();
    let next = disk.kill();
    assert_eq!(next.dump(), dump);
    assert!(file.sync_data().is_err() && held.stamp().is_err());
    assert!(locked(&next).is_some());
    drop(lock);
    assert_eq!((tree(&next), read(&next, "/f").unwrap()), (vec!["/f".to_owned(), "/g".to_owned()], b"23".to_vec()));
    let contents = outcomes(&next, |disk| (tree(disk).len(), read(disk, "/f").unwrap()));
    assert!(contents.len() >= 4, "what was not durable is still not durable: {contents:?}");
}

#[test]
fn directories_have_an_identity_whatever_path_leads_there() {
    let disk = SimDisk::new(1);
    make_dir(&disk, "/d");
    let identity = |path: &str| disk.identity(Path::new(path)).unwrap();
    assert_eq!(identity("/d"), identity("/d/../d/."));
    assert_ne!(identity("/d"), identity("/"));
}

#[test]
fn a_dump_names_what_is_not_durable() {
    let disk = SimDisk::new(1);
    make_dir(&disk, "/d");
    let file = durable(&disk, "/d/a", &[1; 10]);
    write(&*file, &[2; 1000], 5);
    durable(&disk, "/d/b", b"");
    remove(&disk, "/d/b");
    let expected = "/d: directory, name not durable
/d/a: 1005 bytes, 10 durable, 2 sectors dirty, 0 forgotten by a failed sync
/d/b: 0 bytes, 0 durable, 0 sectors dirty, 0 forgotten by a failed sync, removed, still on the disk
2 operations on names are not durable
";
    assert_eq!(disk.dump(), expected);
}

#[test]
fn threads_share_a_disk() {
    let disk = SimDisk::new(1);
    thread::scope(|scope| {
        for i in 0..4_u8 {
            let disk = &disk;
            scope.spawn(move || {
                let file = create(disk, &format!("/{i}"));
                for position in 0..200 {
                    write(&*file, &[i], position);
                }
                file.sync_data().unwrap();
                sync_dir(disk, "/");
            });
        }
    });
    let image = disk.power_cut(&mut Rng::with_seed(1));
    for i in 0..4 {
        assert_eq!(read(&image, &format!("/{i}")).unwrap(), vec![i; 200]);
    }
}
