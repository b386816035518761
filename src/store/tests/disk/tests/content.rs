//! Bytes and lengths.

use std::path::Path;

use super::*;

fn contents(disk: &SimDisk) -> BTreeSet<String> {
    outcomes(disk, |disk| runs(&read(disk, "/f").unwrap()))
}

/// Whether bytes consist of whole sectors of one letter each.
fn is_whole(content: &str) -> bool {
    content.split(' ').all(|run| run[1..].parse::<u64>().unwrap().is_multiple_of(512))
}

#[test]
fn synced_bytes_and_length_survive_exactly() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/f", &[b'a'; 1000]);
    write(&*file, &[b'b'; 700], 600);
    file.set_len(1200).unwrap();
    file.sync_data().unwrap();
    assert_eq!(contents(&disk), set(["a600 b600"]));
}

#[test]
fn each_unsynced_sector_is_old_or_new_or_rarely_torn() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/f", &[b'a'; 1536]);
    write(&*file, &[b'b'; 1536], 0);
    assert_eq!(runs(&bytes(&*file)), "b1536");
    let found = contents(&disk);
    let (whole, torn): (BTreeSet<_>, BTreeSet<_>) = found.into_iter().partition(|content| is_whole(content));
    let expected = set([
        "a1536",
        "b1536",
        "a512 b1024",
        "b512 a1024",
        "a1024 b512",
        "b1024 a512",
        "a512 b512 a512",
        "b512 a512 b512",
    ]);
    assert_eq!(whole, expected);
    assert!(torn.len() > 20, "{torn:?}");
    for content in outcomes(&disk, |disk| read(disk, "/f").unwrap()) {
        for sector in content.chunks(512) {
            let new = sector.iter().take_while(|byte| **byte == b'b').count();
            assert!(sector[new..].iter().all(|byte| *byte == b'a'), "the beginning of a torn sector is new");
        }
    }
}

#[test]
fn a_sector_may_have_been_written_back_between_two_writes() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/f", &[b'a'; 512]);
    write(&*file, &[b'b'; 512], 0);
    write(&*file, &[b'c'; 512], 0);
    let whole: BTreeSet<_> = contents(&disk).into_iter().filter(|content| is_whole(content)).collect();
    assert_eq!(whole, set(["a512", "b512", "c512"]));
}

#[test]
fn an_unsynced_append_has_any_length_it_passed_and_perhaps_zeros_in_it() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/f", &[b'a'; 100]);
    write(&*file, &[b'b'; 500], 100);
    write(&*file, &[b'c'; 700], 600);
    let lens = outcomes(&disk, |disk| read(disk, "/f").unwrap().len());
    assert_eq!(lens, BTreeSet::from([100, 512, 600, 1024, 1300]));
    let found = contents(&disk);
    let some = ["a100", "a100 b500 c700", "a100 01200", "a100 b412 0788", "a100 0412 b88 c700", "a100 b412"];
    let some = set(some);
    assert!(some.is_subset(&found), "some of {some:?} in {found:?}");
    assert!(found.iter().all(|content| content.starts_with("a100")), "synced bytes of a shared sector stay");
}

#[test]
fn what_lies_beyond_a_lost_length_is_gone_for_good() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/f", b"");
    write(&*file, &[b'b'; 1024], 0);
    let grown = outcomes(&disk, |disk| {
        let lost = read(disk, "/f").unwrap().is_empty();
        let file = disk.open(Path::new("/f"), Access::ReadWrite).unwrap();
        file.set_len(1024).unwrap();
        (lost, runs(&bytes(&*file)))
    });
    let after_loss: Vec<_> = grown.iter().filter(|(lost, _)| *lost).collect();
    assert_eq!(after_loss, [&(true, "01024".to_owned())]);
}

#[test]
fn an_unsynced_cut_is_kept_or_lost_as_a_whole() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/f", &[b'a'; 1200]);
    file.set_len(600).unwrap();
    assert_eq!(runs(&bytes(&*file)), "a600");
    assert_eq!(contents(&disk), set(["a600", "a1200"]));
    file.set_len(1200).unwrap();
    assert_eq!(runs(&bytes(&*file)), "a600 0600");
    assert_eq!(contents(&disk), set(["a600", "a1200", "a600 0600"]));
    file.sync_data().unwrap();
    assert_eq!(contents(&disk), set(["a600 0600"]));
}

#[test]
fn bytes_written_over_a_cut_never_bring_back_what_a_kept_cut_removed() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/f", &[b'a'; 1024]);
    file.set_len(0).unwrap();
    write(&*file, &[b'b'; 600], 0);
    let found = contents(&disk);
    let some = set(["", "a1024", "b600", "0600", "b512 088", "0512 b88", "b512"]);
    assert!(some.is_subset(&found), "some of {some:?} in {found:?}");
    for content in outcomes(&disk, |disk| read(disk, "/f").unwrap()) {
        assert!(content.len() == 1024 || !content.contains(&b'a'), "{}", runs(&content));
    }
}

#[test]
fn a_sparse_write_reads_zeros_before_it() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/f", b"x");
    write(&*file, b"y", 3000);
    assert_eq!(runs(&bytes(&*file)), "x1 02999 y1");
    file.sync_data().unwrap();
    assert_eq!(contents(&disk), set(["x1 02999 y1"]));
}

#[test]
fn reads_and_writes_end_where_the_file_and_the_slices_end() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/f", b"0123456789");
    let mut buf = [0; 20];
    assert_eq!(file.read_at(&mut buf, 4).unwrap(), 6);
    assert_eq!(&buf[..6], b"456789");
    assert_eq!(file.read_at(&mut buf, 10).unwrap(), 0);
    assert_eq!(file.read_at(&mut buf, u64::MAX).unwrap(), 0);
    assert_eq!(file.write_at(&[IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"c")], 8).unwrap(), 3);
    assert_eq!(bytes(&*file), b"01234567abc");
    let reader = disk.open(Path::new("/f"), Access::Read).unwrap();
    assert!(reader.write_at(&[IoSlice::new(b"x")], 0).is_err() && reader.set_len(0).is_err());
    assert!(reader.as_file().is_none());
}

#[test]
fn the_stamp_ascends_with_every_change_and_may_fall_back_to_the_synced_one() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/f", b"a");
    let stamp_of = |disk: &SimDisk| disk.open(Path::new("/f"), Access::Read).unwrap().stamp().unwrap().modified_ns;
    let synced = stamp_of(&disk);
    write(&*file, b"b", 0);
    let written = stamp_of(&disk);
    file.set_len(1).unwrap();
    let set = stamp_of(&disk);
    assert!(synced < written && written < set);
    assert_eq!(outcomes(&disk, stamp_of), BTreeSet::from([synced, set]));
    file.sync_data().unwrap();
    assert_eq!(outcomes(&disk, stamp_of), BTreeSet::from([set]));
    let image = disk.power_cut(&mut Rng::with_seed(1));
    write(&*image.open(Path::new("/f"), Access::ReadWrite).unwrap(), b"c", 0);
    assert!(stamp_of(&image) > set, "the clock goes on after a restart");
}

#[test]
fn files_of_zeros_cost_no_memory_and_are_read_back() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "/f", b"");
    let zeros = vec![0; 1 << 20];
    (0..64_u64).for_each(|i| write(&*file, &zeros, i << 20));
    file.sync_data().unwrap();
    assert!(disk.dump().contains("/f: 67108864 bytes, 67108864 durable, 0 sectors dirty"), "{}", disk.dump());
    write(&*file, b"x", (64 << 20) - 1);
    let image = disk.power_cut(&mut Rng::with_seed(1));
    assert_eq!(read(&image, "/f").unwrap().len(), 64 << 20);
}
