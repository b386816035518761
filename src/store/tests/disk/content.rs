//! Content of a file: what is on the disk, and what is only in the cache.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use std::sync::Arc;

use fastrand::Rng;

/// Bytes that a disk writes as a whole, nearly always.
pub(super) const SECTOR_LEN: usize = 512;
pub(super) const SECTOR: u64 = SECTOR_LEN as u64;
pub(super) const ZEROS: [u8; SECTOR_LEN] = [0; SECTOR_LEN];

/// One sector; `None` is all zeros.
pub(super) type Sector = Option<Arc<[u8; SECTOR_LEN]>>;

/// What happened to a sector and is not on the disk yet.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// It was written; these are the bytes of the whole sector since.
    Write(Sector),
    /// The file was cut at or before its end, by the length change of this index.
    Cut(usize),
}

/// A change of a file's length that is not on the disk yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Length {
    /// It grew by being written: it passed every sector's end on its way.
    Written(u64),
    /// It was set in one step.
    Set(u64),
}

impl Length {
    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::Written(len) | Self::Set(len) => len,
        }
    }
}

/// Bytes, length and time of a file, on the disk and in the cache.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) len: u64,
    pub(super) durable_len: u64,
    /// Changes of the length since the last good sync. They reach the disk in this order.
    pub(super) lengths: Vec<Length>,
    /// Sectors on the disk that are not all zeros.
    pub(super) durable: BTreeMap<u64, Arc<[u8; SECTOR_LEN]>>,
    /// Changes of sectors, oldest first, that a sync would bring to the disk.
    pub(super) dirty: BTreeMap<u64, Vec<Change>>,
    /// Sectors that a failed sync left in the cache as if they were on the disk. Newer than all in `dirty`.
    pub(super) forgotten: BTreeMap<u64, Sector>,
    pub(super) modified_ns: i64,
    pub(super) durable_modified_ns: i64,
}

impl Content {
    pub(super) fn new(now_ns: i64) -> Self {
        Self { modified_ns: now_ns, durable_modified_ns: now_ns, ..Self::default() }
    }

    /// A sector as a reader sees it.
    fn sector(&self, index: u64) -> Sector {
        match self.forgotten.get(&index) {
            Some(forgotten) => forgotten.clone(),
            None => self.settled(index),
        }
    }

    /// A sector as a good sync would leave it.
    fn settled(&self, index: u64) -> Sector {
        let changes = self.dirty.get(&index).map_or(&[][..], Vec::as_slice);
        // Nothing before the last write matters.
        let from = changes.iter().rposition(|change| matches!(change, Change::Write(_))).unwrap_or(0);
        changes[from..].iter().fold(self.durable.get(&index).cloned(), |sector, change| match change {
            Change::Write(written) => written.clone(),
            Change::Cut(length) => cut_sector(sector, index, self.lengths[*length].bytes()),
        })
    }

    pub(super) fn read(&self, buf: &mut [u8], position: u64) -> usize {
        let count = buf.len().min(to_usize(self.len.saturating_sub(position)));
        let mut done = 0;
        while done < count {
            let (index, from) = place(position + done as u64);
            let part = &mut buf[done..count.min(done + SECTOR_LEN - from)];
            match self.sector(index) {
                Some(bytes) => part.copy_from_slice(&bytes[from..from + part.len()]),
                None => part.fill(0),
            }
            done += part.len();
        }
        count
    }

    /// Writes the first `count` bytes of `bufs`.
    pub(super) fn write(&mut self, bufs: &[IoSlice<'_>], count: usize, position: u64, now_ns: i64) {
        if count == 0 {
            return;
        }
        if !self.is_blank_fill(bufs, position, count) {
            self.write_sectors(bufs, count, position);
        }
        let end = position + count as u64;
        if end > self.len {
            self.lengths.push(Length::Written(end));
            self.len = end;
        }
        self.modified_ns = now_ns;
    }

    /// Whether zeros are written where there is nothing else: files full of zeros cost next to nothing.
    fn is_blank_fill(&self, bufs: &[IoSlice<'_>], position: u64, count: usize) -> bool {
        let sectors = place(position).0..=place(position + count as u64).0;
        self.durable.range(sectors.clone()).next().is_none()
            && self.dirty.range(sectors.clone()).next().is_none()
            && self.forgotten.range(sectors).next().is_none()
            && bufs.iter().all(|buf| buf.chunks(SECTOR_LEN).all(|chunk| *chunk == ZEROS[..chunk.len()]))
    }

    fn write_sectors(&mut self, bufs: &[IoSlice<'_>], count: usize, position: u64) {
        let bytes: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).take(count).collect();
        let mut done = 0;
        while done < count {
            let (index, from) = place(position + done as u64);
            let part = &bytes[done..count.min(done + SECTOR_LEN - from)];
            let old = self.sector(index);
            let mut new = old.as_deref().map_or(ZEROS, |old| *old);
            new[from..from + part.len()].copy_from_slice(part);
            self.change(index, &old, (new != ZEROS).then(|| Arc::new(new)));
            done += part.len();
        }
    }

    fn change(&mut self, index: u64, old: &Sector, new: Sector) {
        let forgotten = self.forgotten.remove(&index).is_some();
        let last = self.dirty.get(&index).and_then(|changes| changes.last());
        // Bytes that make no difference cost nothing, so that files full of zeros stay small.
        if forgotten || matches!(last, Some(Change::Cut(_))) || *old != new {
            self.dirty.entry(index).or_default().push(Change::Write(new));
        }
    }

    pub(super) fn set_len(&mut self, len: u64, now_ns: i64) {
        self.modified_ns = now_ns;
        if len == self.len {
            return;
        }
        self.lengths.push(Length::Set(len));
        let cut = self.lengths.len() - 1;
        if len < self.len {
            let (first, _) = place(len);
            let mut touched: BTreeSet<u64> = self.durable.range(first..).map(|(&index, _)| index).collect();
            touched.extend(self.dirty.range(first..).map(|(&index, _)| index));
            touched.extend(self.forgotten.range(first..).map(|(&index, _)| index));
            for index in touched {
                if let Some(forgotten) = self.forgotten.get_mut(&index) {
                    *forgotten = cut_sector(forgotten.take(), index, len);
                }
                self.dirty.entry(index).or_default().push(Change::Cut(cut));
            }
        }
        self.len = len;
    }

    /// A good sync: all that is dirty is on the disk. What an earlier failed one forgot is not.
    pub(super) fn sync(&mut self) {
        let dirty: Vec<u64> = self.dirty.keys().copied().collect();
        for index in dirty {
            self.write_back(index);
        }
        self.durable_len = self.len;
        self.lengths.clear();
        self.durable_modified_ns = self.modified_ns;
    }

    fn write_back(&mut self, index: u64) {
        let sector = self.settled(index);
        self.dirty.remove(&index);
        put(&mut self.durable, index, sector);
    }

    /// A failed sync: written sectors pass for clean without being on the disk, except that `partly` lets half of them
    /// get there. Length and cuts are metadata and stay dirty.
    pub(super) fn fail_sync(&mut self, mut partly: Option<&mut Rng>) {
        let dirty: Vec<u64> = self.dirty.keys().copied().collect();
        for index in dirty {
            if partly.as_mut().is_some_and(|rng| rng.bool()) {
                self.write_back(index);
                continue;
            }
            let seen = self.sector(index);
            let changes = self.dirty.entry(index).or_default();
            let written = changes.iter().any(|change| matches!(change, Change::Write(_)));
            changes.retain(|change| matches!(change, Change::Cut(_)));
            if changes.is_empty() {
                self.dirty.remove(&index);
            }
            if written {
                self.forgotten.insert(index, seen);
            }
        }
    }

    /// Forgets clean pages: what a failed sync left in the cache only is gone.
    pub(super) fn drop_cached(&mut self) {
        self.forgotten.clear();
    }
}

/// Index of a sector and position within it.
pub(super) fn place(position: u64) -> (u64, usize) {
    (position / SECTOR, to_usize(position % SECTOR))
}

pub(super) fn put(sectors: &mut BTreeMap<u64, Arc<[u8; SECTOR_LEN]>>, index: u64, sector: Sector) {
    match sector {
        Some(bytes) => sectors.insert(index, bytes),
        None => sectors.remove(&index),
    };
}

/// What a cut of the file to `len` bytes leaves of a sector.
pub(super) fn cut_sector(sector: Sector, index: u64, len: u64) -> Sector {
    let keep = len.saturating_sub(index * SECTOR);
    match sector {
        Some(mut bytes) if keep > 0 => {
            if keep < SECTOR {
                Arc::make_mut(&mut bytes)[to_usize(keep)..].fill(0);
            }
            Some(bytes)
        }
        _ => None,
    }
}

pub(super) fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
