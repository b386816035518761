//! `<dataLogPath>/transactions/ids`: up to which millisecond message ids may have been given out.
//!
//! Two slots are written in turn, in place: a torn write damages one and leaves the other. Big-endian: magic `MQID`,
//! version (4 bytes), sequence (8), reserved milliseconds since the epoch of ids (8), CRC-32 of all that (4).

use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, BufMut};

use super::fs::{Access, DataFile, FileSystem, Kind, read_exact_at, write_all_at};

const FILE_NAME: &str = "ids";
const TEMPORARY_NAME: &str = "ids.tmp";
const MAGIC: &[u8; 4] = b"MQID";
const VERSION: u32 = 1;
const SLOT_LEN: usize = 28;
/// One sector each, so that a torn write never reaches the other one.
const SLOT_DISTANCE: u64 = 512;

/// The open state file.
#[derive(Debug)]
pub(super) struct IdFile {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    file: Option<Arc<dyn DataFile>>,
    sequence: u64,
}

/// What a state file said.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) enum Reserved {
    /// There is none yet.
    Missing,
    /// No slot is intact.
    Damaged,
    /// Ids of all milliseconds up to this one may have been given out.
    UpTo(u64),
}

impl IdFile {
    /// Opens the state file in a directory without making one.
    ///
    /// # Errors
    /// When it exists and cannot be opened or read.
    pub(super) fn open(fs: Arc<dyn FileSystem>, dir: &Path) -> io::Result<(Self, Reserved)> {
        let mut opened = Self { fs, dir: dir.to_path_buf(), file: None, sequence: 0 };
        let path = opened.path();
        let reserved = match opened.fs.kind(&path)? {
            None => Reserved::Missing,
            Some(Kind::File(_)) => {
                let file = opened.fs.open(&path, Access::ReadWrite)?;
                match [0, 1].into_iter().filter_map(|slot| read_slot(&*file, slot)).max() {
                    Some((sequence, reserved)) => {
                        // A broker that was killed may have given it its name and no more.
                        opened.fs.sync_dir(dir)?;
                        opened.file = Some(file);
                        opened.sequence = sequence;
                        Reserved::UpTo(reserved)
                    }
                    None => Reserved::Damaged,
                }
            }
            Some(_) => return Err(io::Error::other("not a regular file")),
        };
        Ok((opened, reserved))
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.join(FILE_NAME)
    }

    /// Writes and syncs a reservation.
    pub(super) fn write(&mut self, reserved: u64) -> io::Result<()> {
        let sequence = self.sequence + 1;
        let slot = encode_slot(sequence, reserved);
        match &self.file {
            Some(file) => {
                let position = (sequence % 2) * SLOT_DISTANCE;
                write_all_at(&**file, &mut [IoSlice::new(&slot)], position)?;
                file.sync_data()?;
            }
            None => self.file = Some(self.create(sequence, &slot)?),
        }
        self.sequence = sequence;
        Ok(())
    }

    /// Makes the file under another name first: it is never seen half written.
    fn create(&self, sequence: u64, slot: &[u8]) -> io::Result<Arc<dyn DataFile>> {
        let temporary = self.dir.join(TEMPORARY_NAME);
        if self.fs.kind(&temporary)?.is_some() {
            self.fs.remove_file(&temporary)?;
        }
        let file = self.fs.create(&temporary)?;
        write_all_at(&*file, &mut [IoSlice::new(slot)], (sequence % 2) * SLOT_DISTANCE)?;
        file.sync_data()?;
        self.fs.rename(&temporary, &self.path())?;
        self.fs.sync_dir(&self.dir)?;
        Ok(file)
    }
}

fn encode_slot(sequence: u64, reserved: u64) -> Vec<u8> {
    let mut slot = Vec::with_capacity(SLOT_LEN);
    slot.put_slice(MAGIC);
    slot.put_u32(VERSION);
    slot.put_u64(sequence);
    slot.put_u64(reserved);
    slot.put_u32(crc32fast::hash(&slot));
    slot
}

/// Sequence and reservation of a slot, `None` if it is not intact.
fn read_slot(file: &dyn DataFile, slot: u64) -> Option<(u64, u64)> {
    let mut bytes = [0; SLOT_LEN];
    read_exact_at(file, &mut bytes, slot * SLOT_DISTANCE).ok()?;
    let (content, mut crc) = bytes.split_at_checked(SLOT_LEN - 4)?;
    let mut fields = content.strip_prefix(MAGIC)?;
    let intact = crc.get_u32() == crc32fast::hash(content) && fields.get_u32() == VERSION;
    intact.then(|| (fields.get_u64(), fields.get_u64()))
}

#[cfg(test)]
mod tests {
    use super::super::fs::OsFileSystem;
    use super::*;

    fn open(dir: &Path) -> (IdFile, Reserved) {
        IdFile::open(Arc::new(OsFileSystem), dir).unwrap()
    }

    #[test]
    fn the_last_reservation_is_read_back_and_a_torn_one_leaves_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let (mut ids, reserved) = open(dir.path());
        assert_eq!(reserved, Reserved::Missing);
        for reserved in [100, 200, 300] {
            ids.write(reserved).unwrap();
            assert_eq!(open(dir.path()).1, Reserved::UpTo(reserved));
        }
        let path = ids.path();
        let mut content = std::fs::read(&path).unwrap();
        content[512 + 20] ^= 1;
        std::fs::write(&path, &content).unwrap();
        let (mut ids, reserved) = open(dir.path());
        assert_eq!(reserved, Reserved::UpTo(200), "slot 1 held the third");
        ids.write(400).unwrap();
        assert_eq!(open(dir.path()).1, Reserved::UpTo(400));
    }

    #[test]
    fn a_damaged_file_is_told_and_replaced() {
        for content in [&b""[..], b"MQID", &[0; 1024], b"not a state file at all, but long enough to hold a slot"] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join(FILE_NAME), content).unwrap();
            std::fs::write(dir.path().join(TEMPORARY_NAME), content).unwrap();
            let (mut ids, reserved) = open(dir.path());
            assert_eq!(reserved, Reserved::Damaged);
            ids.write(7).unwrap();
            assert_eq!(open(dir.path()).1, Reserved::UpTo(7));
        }
    }
}
