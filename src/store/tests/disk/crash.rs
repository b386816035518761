//! What a power cut leaves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;

use super::content::{Change, Content, Length, SECTOR, SECTOR_LEN, Sector, ZEROS, cut_sector, place, put};
use super::directory::{Directory, Ino, Names, apply};
use super::inode::{Inode, Inodes, Node, ROOT};

/// One of so many sectors that were on their way is torn, in files of which some are lost.
const TORN_ONE_OF: u32 = 16;

/// How much of what was not synced had got to the disk. Drawn anew for each file and each directory, since with
/// independent odds alone a large file would never be kept or lost as a whole.
#[derive(Clone, Copy)]
enum Fate {
    Lost,
    Kept,
    /// Each part with this probability.
    Mixed(f64),
}

impl Fate {
    fn draw(rng: &mut Rng) -> Self {
        match rng.u32(0..8) {
            0 | 1 => Self::Lost,
            2 | 3 => Self::Kept,
            4 => Self::Mixed(0.1),
            5 => Self::Mixed(0.9),
            _ => Self::Mixed(0.5),
        }
    }

    fn keeps(self, rng: &mut Rng) -> bool {
        match self {
            Self::Lost => false,
            Self::Kept => true,
            Self::Mixed(probability) => rng.f64() < probability,
        }
    }
}

impl Content {
    /// The file after a power cut.
    pub(super) fn after_power_cut(&self, rng: &mut Rng) -> Self {
        let (kept_lengths, len) = self.surviving_length(rng);
        let fate = Fate::draw(rng);
        let mut durable = self.durable.clone();
        for (&index, changes) in &self.dirty {
            let versions = self.versions(index, changes, kept_lengths);
            put(&mut durable, index, survivor(&versions, fate, rng));
        }
        let (last, _) = place(len);
        drop(durable.split_off(&(last + 1)));
        let end = durable.remove(&last);
        put(&mut durable, last, cut_sector(end, last, len));
        let modified_ns = if rng.bool() { self.modified_ns } else { self.durable_modified_ns };
        Self { len, durable_len: len, durable, modified_ns, durable_modified_ns: modified_ns, ..Self::default() }
    }

    /// How many changes of the length were kept, and the length. They are kept in their order.
    fn surviving_length(&self, rng: &mut Rng) -> (usize, u64) {
        let all = self.lengths.len();
        let (kept, between) = match Fate::draw(rng) {
            Fate::Lost => (0, false),
            Fate::Kept => (all, false),
            Fate::Mixed(_) => (rng.usize(0..=all), rng.bool()),
        };
        let len = kept.checked_sub(1).map_or(self.durable_len, |last| self.lengths[last].bytes());
        match self.lengths.get(kept) {
            Some(&Length::Written(next)) if between => {
                let passed = rng.u64(len..next).next_multiple_of(SECTOR);
                (kept, if passed < next { passed } else { len })
            }
            _ => (kept, len),
        }
    }

    /// Every state in which a sector may be on the disk, oldest first.
    fn versions(&self, index: u64, changes: &[Change], kept_lengths: usize) -> Vec<Sector> {
        let mut versions = vec![self.durable.get(&index).cloned()];
        for change in changes {
            match change {
                Change::Write(written) => versions.push(written.clone()),
                Change::Cut(length) if *length < kept_lengths => {
                    let len = self.lengths[*length].bytes();
                    versions = versions.into_iter().map(|version| cut_sector(version, index, len)).collect();
                }
                Change::Cut(_) => {}
            }
        }
        versions
    }
}

fn survivor(versions: &[Sector], fate: Fate, rng: &mut Rng) -> Sector {
    let newest = versions.len() - 1;
    let chosen = match fate {
        Fate::Lost => 0,
        Fate::Kept => newest,
        Fate::Mixed(_) if fate.keeps(rng) => newest,
        // Older states may have got to the disk before the newest was written.
        Fate::Mixed(_) => rng.usize(0..=newest.saturating_sub(1)),
    };
    if matches!(fate, Fate::Mixed(_)) && chosen > 0 && rng.u32(0..TORN_ONE_OF) == 0 {
        return torn(&versions[chosen - 1], &versions[chosen], rng.usize(1..SECTOR_LEN));
    }
    versions[chosen].clone()
}

fn torn(old: &Sector, new: &Sector, at: usize) -> Sector {
    let bytes = |sector: &Sector| sector.as_deref().map_or(ZEROS, |bytes| *bytes);
    let mut mixed = bytes(old);
    mixed[..at].copy_from_slice(&bytes(new)[..at]);
    Some(Arc::new(mixed))
}

/// All files and directories after a power cut.
pub(super) fn after_power_cut(inodes: &Inodes, rng: &mut Rng) -> BTreeMap<Ino, Inode> {
    let mut names: BTreeMap<Ino, Names> = BTreeMap::new();
    for (&ino, inode) in &inodes.table {
        if let Node::Directory(directory) = &inode.node {
            names.insert(ino, directory.durable.clone());
        }
    }
    let mut fates = BTreeMap::new();
    let survivors = inodes.journal.survivors(|operation| {
        let fate = *fates.entry(operation[0].dir).or_insert_with(|| Fate::draw(rng));
        fate.keeps(rng)
    });
    for edit in survivors.into_iter().flatten() {
        apply(names.entry(edit.dir).or_default(), edit);
    }
    let mut left = BTreeMap::new();
    let mut found: Vec<(Ino, PathBuf)> = vec![(ROOT, PathBuf::from("/"))];
    while let Some((ino, path)) = found.pop() {
        let Some(inode) = inodes.table.get(&ino) else { continue };
        let node = match &inode.node {
            Node::File(content) => Node::File(content.after_power_cut(rng)),
            Node::Directory(_) => {
                let names = names.remove(&ino).unwrap_or_default();
                found.extend(names.iter().map(|(name, &ino)| (ino, Path::join(&path, name))));
                Node::Directory(Directory { durable: names.clone(), names })
            }
        };
        left.insert(ino, Inode::new(node, path));
    }
    left
}
