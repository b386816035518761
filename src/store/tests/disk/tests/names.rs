//! Names in directories.

use std::io::ErrorKind;
use std::path::Path;

use super::*;

fn trees(disk: &SimDisk) -> BTreeSet<String> {
    outcomes(disk, |disk| tree(disk).join(" "))
}

/// What names stand for, by content.
fn named(disk: &SimDisk) -> BTreeSet<String> {
    outcomes(disk, |disk| {
        let name = |path: String| format!("{path}={}", String::from_utf8(read(disk, &path).unwrap()).unwrap());
        tree(disk).into_iter().map(name).collect::<Vec<_>>().join(" ")
    })
}

#[test]
fn a_synced_file_has_no_durable_name_until_its_directory_is_synced() {
    let disk = SimDisk::new(1);
    let file = create(&disk, "/a");
    write(&*file, b"1", 0);
    file.sync_data().unwrap();
    assert_eq!(named(&disk), set(["", "/a=1"]));
    sync_dir(&disk, "/");
    assert_eq!(named(&disk), set(["/a=1"]));
}

#[test]
fn a_new_file_may_keep_its_name_without_its_content() {
    let disk = SimDisk::new(1);
    let file = create(&disk, "/a");
    sync_dir(&disk, "/");
    write(&*file, b"1", 0);
    assert_eq!(named(&disk), set(["/a=", "/a=\0", "/a=1"]));
}

#[test]
fn operations_on_different_names_are_kept_in_any_subset() {
    let disk = SimDisk::new(1);
    durable(&disk, "/old", b"");
    create(&disk, "/a");
    create(&disk, "/b");
    remove(&disk, "/old");
    let expected = set(["", "/a", "/b", "/a /b", "/old", "/a /old", "/b /old", "/a /b /old"]);
    assert_eq!(trees(&disk), expected);
}

#[test]
fn operations_on_the_same_name_are_kept_in_their_order() {
    let disk = SimDisk::new(1);
    create(&disk, "/a");
    rename(&disk, "/a", "/b");
    assert_eq!(trees(&disk), set(["", "/a", "/b"]));
    create(&disk, "/a");
    assert_eq!(trees(&disk), set(["", "/a", "/b", "/a /b"]));
    remove(&disk, "/b");
    assert_eq!(tree(&disk), ["/a"]);
    assert_eq!(trees(&disk), set(["", "/a", "/b", "/a /b"]));
    sync_dir(&disk, "/");
    assert_eq!(trees(&disk), set(["/a"]));
}

#[test]
fn a_name_that_was_given_away_is_not_taken_before_that_is_on_the_disk() {
    let disk = SimDisk::new(1);
    durable(&disk, "/a", b"1");
    rename(&disk, "/a", "/b");
    let new = create(&disk, "/a");
    write(&*new, b"2", 0);
    new.sync_data().unwrap();
    assert_eq!(named(&disk), set(["/a=1", "/b=1", "/a=2 /b=1"]));
}

#[test]
fn a_rename_over_a_file_leaves_the_old_or_the_new_one() {
    let disk = SimDisk::new(1);
    durable(&disk, "/a", b"old");
    durable(&disk, "/a.tmp", b"new");
    rename(&disk, "/a.tmp", "/a");
    assert_eq!(read(&disk, "/a").unwrap(), b"new");
    assert_eq!(named(&disk), set(["/a=old /a.tmp=new", "/a=new"]));
    sync_dir(&disk, "/");
    assert_eq!(named(&disk), set(["/a=new"]));
}

#[test]
fn a_removed_file_may_come_back_with_its_durable_content() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/a", b"1");
    remove(&disk, "/a");
    drop(file);
    assert_eq!(tree(&disk), [""; 0]);
    create(&disk, "/a");
    assert_eq!(named(&disk), set(["", "/a=1", "/a="]));
    sync_dir(&disk, "/");
    assert_eq!(named(&disk), set(["/a="]));
}

#[test]
fn a_rename_between_directories_is_whole_and_either_sync_keeps_it() {
    for synced in [None, Some("/x"), Some("/y")] {
        let disk = SimDisk::new(1);
        make_dir(&disk, "/x");
        make_dir(&disk, "/y");
        sync_dir(&disk, "/");
        durable(&disk, "/x/a", b"");
        create(&disk, "/x/other");
        rename(&disk, "/x/a", "/y/a");
        let lost = ["/x/ /x/a /y/", "/x/ /x/a /x/other /y/"];
        let kept = ["/x/ /x/other /y/ /y/a", "/x/ /y/ /y/a"];
        let expected = match synced {
            None => set(lost.into_iter().chain(kept)),
            Some("/y") => set(kept),
            Some(_) => set(["/x/ /x/other /y/ /y/a"]),
        };
        synced.into_iter().for_each(|dir| sync_dir(&disk, dir));
        assert_eq!(trees(&disk), expected, "synced {synced:?}");
    }
}

#[test]
fn a_sync_brings_along_what_its_operations_need_in_other_directories() {
    let disk = SimDisk::new(1);
    make_dir(&disk, "/x");
    make_dir(&disk, "/y");
    sync_dir(&disk, "/");
    create(&disk, "/x/a");
    rename(&disk, "/x/a", "/x/b");
    rename(&disk, "/x/b", "/y/c");
    create(&disk, "/x/a");
    sync_dir(&disk, "/y");
    assert_eq!(trees(&disk), set(["/x/ /y/ /y/c", "/x/ /x/a /y/ /y/c"]));
}

#[test]
fn what_is_below_a_lost_directory_is_gone_however_well_it_was_synced() {
    let disk = SimDisk::new(1);
    make_dir(&disk, "/x");
    make_dir(&disk, "/x/y");
    durable(&disk, "/x/y/a", b"1");
    sync_dir(&disk, "/x");
    assert_eq!(trees(&disk), set(["", "/x/ /x/y/ /x/y/a"]));
    sync_dir(&disk, "/");
    assert_eq!(trees(&disk), set(["/x/ /x/y/ /x/y/a"]));
    remove(&disk, "/x/y/a");
    disk.remove_dir(Path::new("/x/y")).unwrap();
    assert_eq!(tree(&disk), ["/x/"]);
    assert_eq!(trees(&disk), set(["/x/", "/x/ /x/y/", "/x/ /x/y/ /x/y/a"]));
}

#[test]
fn a_handle_outlives_the_name_and_only_then_the_content_is_freed() {
    let disk = SimDisk::new(1);
    disk.set_capacity(100);
    let root = Path::new("/");
    let file = durable(&disk, "/a", b"12345");
    remove(&disk, "/a");
    write(&*file, b"6", 5);
    file.sync_data().unwrap();
    assert_eq!(bytes(&*file), b"123456");
    assert_eq!(disk.free_space(root).unwrap(), 94);
    drop(file);
    assert_eq!(disk.free_space(root).unwrap(), 100);
    sync_dir(&disk, "/");
    assert_eq!(trees(&disk), set([""]));
}

#[test]
fn wrong_paths_are_refused_as_by_a_real_file_system() {
    let disk = SimDisk::new(1);
    make_dir(&disk, "/d");
    let file = create(&disk, "/d/f");
    let kind = |result: std::io::Result<()>| result.unwrap_err().kind();
    let (d, f, nowhere) = (Path::new("/d"), Path::new("/d/f"), Path::new("/x/y"));
    assert_eq!(kind(disk.create(f).map(drop)), ErrorKind::AlreadyExists);
    assert_eq!(kind(disk.create_dir(d)), ErrorKind::AlreadyExists);
    assert_eq!(kind(disk.create(nowhere).map(drop)), ErrorKind::NotFound);
    assert_eq!(kind(disk.create(Path::new("/d/f/g")).map(drop)), ErrorKind::NotADirectory);
    assert_eq!(kind(disk.open(nowhere, Access::Read).map(drop)), ErrorKind::NotFound);
    assert_eq!(kind(disk.open(d, Access::Read).map(drop)), ErrorKind::IsADirectory);
    assert_eq!(kind(disk.list(f).map(drop)), ErrorKind::NotADirectory);
    assert_eq!(kind(disk.remove_file(d)), ErrorKind::IsADirectory);
    assert_eq!(kind(disk.remove_file(nowhere)), ErrorKind::NotFound);
    assert_eq!(kind(disk.remove_dir(f)), ErrorKind::NotADirectory);
    assert_eq!(kind(disk.remove_dir(d)), ErrorKind::DirectoryNotEmpty);
    assert_eq!(kind(disk.rename(nowhere, f)), ErrorKind::NotFound);
    assert_eq!(kind(disk.rename(d, Path::new("/e"))), ErrorKind::Unsupported);
    assert_eq!(kind(disk.sync_dir(f)), ErrorKind::NotADirectory);
    assert_eq!(disk.kind(nowhere).unwrap(), None);
    assert_eq!(disk.kind(f).unwrap(), Some(Kind::File(0)));
    assert_eq!(disk.kind(Path::new("/d/../d/./f")).unwrap(), Some(Kind::File(0)));
    rename(&disk, "/d/f", "/d/f");
    write(&*file, b"1", 0);
    assert_eq!(read(&disk, "/d/f").unwrap(), b"1");
}
