//! The files of a commit log: finding them, their headers, removing them (08 §1).

use std::cmp::Ordering;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::CommitLogError;
use super::format::{DecodedHeader, FileHeader, HEADER_LEN, parse_file_name};
use crate::store::fs::{Access, DataFile, FileSystem, Kind, read_exact_at};

/// A file that belongs to a log.
#[derive(Debug)]
pub(in crate::store) struct LogFile {
    pub(in crate::store) path: PathBuf,
    pub(in crate::store) file: Arc<dyn DataFile>,
    /// Bytes.
    pub(in crate::store) len: u64,
    pub(in crate::store) header: FileHeader,
}

/// A file without a valid header: a spare one, or one whose header was torn when it was about to be used.
#[derive(Debug)]
pub(in crate::store) struct BlankFile {
    pub(in crate::store) path: PathBuf,
    pub(in crate::store) file: Arc<dyn DataFile>,
    /// Bytes.
    pub(in crate::store) len: u64,
}

/// All files of the commit log in a directory.
#[derive(Debug, Default)]
pub(in crate::store) struct LogFiles {
    /// In the order of their numbers.
    pub(in crate::store) used: Vec<LogFile>,
    pub(in crate::store) blank: Vec<BlankFile>,
    /// Files of a version that this release does not know.
    pub(in crate::store) unknown: Vec<(PathBuf, u32)>,
}

impl LogFiles {
    /// One open file of a log, by itself.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(in crate::store) fn of(path: &Path, file: &Arc<dyn DataFile>) -> Result<Self, CommitLogError> {
        let failed =
            |source| CommitLogError::Io { action: "read the commit log file", path: path.to_path_buf(), source };
        let len = file.stamp().map_err(failed)?.len;
        let mut files = Self::default();
        if let DecodedHeader::Valid(header) = read_header(&**file).map_err(failed)? {
            files.used.push(LogFile { path: path.to_path_buf(), file: Arc::clone(file), len, header });
        }
        Ok(files)
    }

    /// Opens the log files in a directory and reads their headers.
    ///
    /// # Errors
    /// When the directory or a file cannot be read.
    pub(in crate::store) fn open(fs: &dyn FileSystem, dir: &Path) -> Result<Self, CommitLogError> {
        let mut files = Self::default();
        for path in list(fs, dir)? {
            let failed = |source| CommitLogError::Io { action: "read the commit log file", path: path.clone(), source };
            let file = fs.open(&path, Access::Read).map_err(failed)?;
            let len = file.stamp().map_err(failed)?.len;
            match read_header(&*file).map_err(failed)? {
                DecodedHeader::Valid(header) => files.used.push(LogFile { path, file, len, header }),
                DecodedHeader::UnknownVersion(version) => files.unknown.push((path, version)),
                DecodedHeader::Invalid => files.blank.push(BlankFile { path, file, len }),
            }
        }
        files.used.sort_by(|a, b| by_number(&a.header, &b.header).then_with(|| a.path.cmp(&b.path)));
        Ok(files)
    }

    /// Whether there is no file at all.
    pub(in crate::store) fn is_empty(&self) -> bool {
        self.used.is_empty() && self.blank.is_empty() && self.unknown.is_empty()
    }

    /// Takes out the files of one log, in case there are several; the spare ones go with the first.
    pub(in crate::store) fn split_off_log(&mut self) -> Option<Self> {
        let log_id = self.used.first()?.header.log_id;
        let (used, others) = std::mem::take(&mut self.used).into_iter().partition(|file| file.header.log_id == log_id);
        self.used = others;
        Some(Self { used, blank: std::mem::take(&mut self.blank), unknown: Vec::new() })
    }

    /// Refuses what does not belong together.
    pub(in crate::store) fn check(&self) -> Result<(), CommitLogError> {
        if let Some((path, version)) = self.unknown.first() {
            return Err(CommitLogError::UnknownVersion { path: path.clone(), version: *version });
        }
        for pair in self.used.windows(2) {
            let [a, b] = pair else { continue };
            let (first, second) = (a.path.clone(), b.path.clone());
            if a.header.log_id != b.header.log_id {
                return Err(CommitLogError::TwoLogs { first, second });
            }
            if a.header.file_number == b.header.file_number {
                return Err(CommitLogError::SameNumber { first, second, number: a.header.file_number });
            }
        }
        Ok(())
    }

    /// Makes what the system holds of the files the same as what the disk holds: after a failed sync in the life of the
    /// last broker it shows bytes that are not on the disk.
    ///
    /// # Errors
    /// When a file cannot be synced.
    pub(in crate::store) fn settle(&self) -> Result<(), CommitLogError> {
        for LogFile { path, file, .. } in &self.used {
            file.sync_data().map_err(|source| CommitLogError::Sync { path: path.clone(), source })?;
            file.drop_cached().map_err(|source| CommitLogError::Io {
                action: "drop the cached pages of",
                path: path.clone(),
                source,
            })?;
        }
        Ok(())
    }

    /// The number that the next file takes at least.
    pub(in crate::store) fn next_number(&self) -> u64 {
        let last = self.used.iter().map(|file| file.header.file_number).max();
        let numbers = self.used.iter().map(|file| &file.path).chain(self.blank.iter().map(|file| &file.path));
        let named = numbers.filter_map(|path| parse_file_name(path.file_name()?.to_str()?)).max();
        last.max(named).map_or(0, |number| number.saturating_add(1))
    }
}

fn by_number(a: &FileHeader, b: &FileHeader) -> Ordering {
    (a.file_number, a.log_id).cmp(&(b.file_number, b.log_id))
}

fn read_header(file: &dyn DataFile) -> io::Result<DecodedHeader> {
    let mut bytes = [0; HEADER_LEN];
    match read_exact_at(file, &mut bytes, 0) {
        Ok(()) => Ok(FileHeader::decode(&bytes)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(DecodedHeader::Invalid),
        Err(error) => Err(error),
    }
}

/// Paths of all log files in a directory, in the order of their names' numbers.
fn list(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<PathBuf>, CommitLogError> {
    let failed = |source| CommitLogError::Io { action: "list", path: dir.to_path_buf(), source };
    let mut found = Vec::new();
    for entry in fs.list(dir).map_err(failed)? {
        let Some(number) = entry.name.to_str().and_then(parse_file_name) else { continue };
        let path = dir.join(&entry.name);
        if !matches!(entry.kind, Kind::File(_)) {
            return Err(CommitLogError::NotAFile(path));
        }
        found.push((number, path));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Removes all log files, blank ones first and then the oldest first, with a sync of the directory after each: what a
/// crash in between leaves is the end of the log. Its beginning would not do: a frame that voids earlier ones must
/// never go before them.
///
/// # Errors
/// When a file cannot be removed. Then the rest is still there, and the next start replays it without harm.
pub(in crate::store) fn remove_files(fs: &dyn FileSystem, dir: &Path) -> Result<usize, CommitLogError> {
    let files = LogFiles::open(fs, dir)?;
    let blank = files.blank.iter().map(|file| &file.path);
    let paths: Vec<_> = blank.chain(files.used.iter().map(|file| &file.path)).collect();
    for path in &paths {
        fs.remove_file(path).and_then(|()| fs.sync_dir(dir)).map_err(|source| CommitLogError::Io {
            action: "remove the commit log file",
            path: (*path).clone(),
            source,
        })?;
    }
    Ok(paths.len())
}
