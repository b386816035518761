//! Tests of the simulated disk itself: it keeps what it promises, and spares nothing that it may lose.

mod content;
mod faults;
mod names;
mod power;
mod random;
mod store;

use std::collections::BTreeSet;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;

use super::SimDisk;
use crate::store::{Access, DataFile, FileSystem, Kind, read_exact_at, write_all_at};

/// Power cuts of one state: enough that every outcome with odds of a percent comes up.
const CUTS: u64 = 3000;

fn create(disk: &SimDisk, path: &str) -> Arc<dyn DataFile> {
    disk.create(Path::new(path)).unwrap()
}

/// A file with a durable name and durable content.
fn durable(disk: &SimDisk, path: &str, content: &[u8]) -> Arc<dyn DataFile> {
    let file = create(disk, path);
    write(&*file, content, 0);
    file.sync_data().unwrap();
    sync_dir(disk, Path::new(path).parent().unwrap().to_str().unwrap());
    file
}

fn write(file: &dyn DataFile, content: &[u8], position: u64) {
    write_all_at(file, &mut [IoSlice::new(content)], position).unwrap();
}

fn sync_dir(disk: &SimDisk, path: &str) {
    disk.sync_dir(Path::new(path)).unwrap();
}

fn make_dir(disk: &SimDisk, path: &str) {
    disk.create_dir(Path::new(path)).unwrap();
}

fn rename(disk: &SimDisk, from: &str, to: &str) {
    disk.rename(Path::new(from), Path::new(to)).unwrap();
}

fn remove(disk: &SimDisk, path: &str) {
    disk.remove_file(Path::new(path)).unwrap();
}

fn bytes(file: &dyn DataFile) -> Vec<u8> {
    let mut content = vec![0xee; usize::try_from(file.stamp().unwrap().len).unwrap()];
    read_exact_at(file, &mut content, 0).unwrap();
    content
}

/// Content of a file, `None` if there is none.
fn read(disk: &SimDisk, path: &str) -> Option<Vec<u8>> {
    let path = Path::new(path);
    disk.kind(path).unwrap()?;
    Some(bytes(&*disk.open(path, Access::Read).unwrap()))
}

/// Every path that the disk shows, directories with a slash at the end.
fn tree(disk: &SimDisk) -> Vec<String> {
    let mut found = vec!["/".to_owned()];
    let mut next = 0;
    while let Some(dir) = found.get(next).cloned() {
        next += 1;
        if dir.ends_with('/') {
            for entry in disk.list(Path::new(&dir)).unwrap() {
                let slash = if entry.kind == Kind::Directory { "/" } else { "" };
                found.push(format!("{dir}{}{slash}", entry.name.to_str().unwrap()));
            }
        }
    }
    found.remove(0);
    found.sort();
    found
}

/// What is seen after many different power cuts of the same state.
fn outcomes<T: Ord>(disk: &SimDisk, look: impl Fn(&SimDisk) -> T) -> BTreeSet<T> {
    outcomes_of(|_| disk.clone(), look)
}

/// What is seen after power cuts of disks made from many seeds.
fn outcomes_of<T: Ord>(make: impl Fn(u64) -> SimDisk, look: impl Fn(&SimDisk) -> T) -> BTreeSet<T> {
    (0..CUTS).map(|seed| look(&make(seed).would_leave(&mut Rng::with_seed(seed)))).collect()
}

/// Runs of equal bytes: `a3 b2` for `aaabb`.
fn runs(bytes: &[u8]) -> String {
    let run = |run: &[u8]| format!("{}{}", if run[0] == 0 { '0' } else { char::from(run[0]) }, run.len());
    bytes.chunk_by(|a, b| a == b).map(run).collect::<Vec<_>>().join(" ")
}

fn set<'a>(all: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    all.into_iter().map(str::to_owned).collect()
}
