//! The files of the commit log: made once, full of zeros, and used again and again (08 §1, §4).

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tracing::{info, warn};

use super::format::file_name;
use crate::common::guard::lock;
use crate::store::error::AppendError;
use crate::store::fs::{Access, DataFile, FileSystem, Kind, write_all_at};
use crate::store::health::LogFileCounts;
use crate::store::partition::PartitionLog;

/// Bytes of zeros that are written at once into a new file.
const FILL_BYTES: usize = 1 << 20;

/// Files that are made before the checkpointer falls behind: one in use and its successor.
const MIN_FILES: usize = 2;

/// A file on disk, whatever it is used for.
#[derive(Debug, Clone)]
pub(in crate::store) struct LogFile {
    pub(in crate::store) path: PathBuf,
    pub(in crate::store) file: Arc<dyn DataFile>,
    /// The same file opened once more for each lane of syncs: the kernel reports a failed write-back once to each
    /// opening.
    pub(in crate::store) lanes: Arc<[Arc<dyn DataFile>]>,
}

/// A file that is full: it can be used again when everything in it is durable in the segments.
#[derive(Debug, Clone)]
pub(in crate::store) struct Sealed {
    pub(in crate::store) file: LogFile,
    pub(in crate::store) number: u64,
    /// The partitions that have frames in it.
    pub(in crate::store) pins: Arc<[Arc<PartitionLog>]>,
}

/// Sizes of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct PoolLimits {
    pub(in crate::store) file_bytes: u64,
    pub(in crate::store) max_files: usize,
    /// Syncs that may run at the same time.
    pub(in crate::store) lanes: usize,
}

/// See the module.
#[derive(Debug)]
pub(in crate::store) struct Pool {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    limits: PoolLimits,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// In the order in which they became free: their headers stay until they are used again, so that the numbers on disk
    /// must never have a gap.
    free: VecDeque<LogFile>,
    sealed: VecDeque<Sealed>,
    /// Files that exist.
    files: usize,
    next_number: u64,
    /// Why no file can be made or given free at present.
    full: Option<PathBuf>,
    /// Puts had to wait for a file this many times.
    waits: u64,
    closed: bool,
}

impl Pool {
    /// A pool without files.
    pub(in crate::store) fn new(fs: Arc<dyn FileSystem>, dir: &Path, limits: PoolLimits, next_number: u64) -> Self {
        let state = State {
            free: VecDeque::new(),
            sealed: VecDeque::new(),
            files: 0,
            next_number,
            full: None,
            waits: 0,
            closed: false,
        };
        let max_files = limits.max_files.max(MIN_FILES);
        let limits = PoolLimits { max_files, ..limits };
        Self { fs, dir: dir.to_path_buf(), limits, state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(in crate::store) fn fs(&self) -> &dyn FileSystem {
        &*self.fs
    }

    /// Where the files lie.
    pub(in crate::store) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(in crate::store) fn file_bytes(&self) -> u64 {
        self.limits.file_bytes
    }

    /// The number of the next use of a file.
    pub(in crate::store) fn draw_number(&self) -> u64 {
        let mut state = lock(&self.state);
        state.next_number += 1;
        state.next_number - 1
    }

    /// The number that the next use of a file will have.
    pub(in crate::store) fn next_number(&self) -> u64 {
        lock(&self.state).next_number
    }

    /// Times that puts had to wait because the log was full.
    pub(in crate::store) fn waits(&self) -> u64 {
        lock(&self.state).waits
    }

    /// How many files there are, and what for.
    pub(in crate::store) fn counts(&self) -> LogFileCounts {
        let state = lock(&self.state);
        LogFileCounts { all: state.files, free: state.free.len(), full: state.sealed.len() }
    }

    /// A file to use next, if there is one.
    pub(in crate::store) fn take(&self) -> Option<LogFile> {
        let file = lock(&self.state).free.pop_front();
        // The checkpointer may want to make another one.
        self.changed.notify_all();
        file
    }

    /// Waits a while for a file to become free.
    ///
    /// # Errors
    /// When there is none for want of space on a disk.
    pub(in crate::store) fn wait(&self, first: bool) -> Result<(), AppendError> {
        let mut state = lock(&self.state);
        if first {
            state.waits += 1;
        }
        if let Some(path) = &state.full {
            return Err(AppendError::NoSpace(path.clone()));
        }
        if state.free.is_empty() {
            let wait = self.changed.wait_timeout(state, Duration::from_millis(50));
            drop(wait.unwrap_or_else(PoisonError::into_inner));
        }
        Ok(())
    }

    /// Takes a full file until it is checkpointed.
    pub(in crate::store) fn seal(&self, sealed: Sealed) {
        lock(&self.state).sealed.push_back(sealed);
        self.changed.notify_all();
    }

    /// The oldest full file; it stays until it is [released](Self::release).
    pub(in crate::store) fn oldest_sealed(&self) -> Option<Sealed> {
        lock(&self.state).sealed.front().cloned()
    }

    /// Gives the oldest full file free.
    pub(in crate::store) fn release(&self, number: u64) {
        let mut state = lock(&self.state);
        if state.sealed.front().is_some_and(|sealed| sealed.number == number)
            && let Some(sealed) = state.sealed.pop_front()
        {
            state.free.push_back(sealed.file);
            state.full = None;
        }
        self.changed.notify_all();
    }

    /// Notes that a disk is full, or no longer.
    pub(in crate::store) fn note_full(&self, path: Option<PathBuf>) {
        lock(&self.state).full = path;
        self.changed.notify_all();
    }

    /// The disk that is full, if that keeps files from being made or given free.
    pub(in crate::store) fn full(&self) -> Option<PathBuf> {
        lock(&self.state).full.clone()
    }

    /// Whether there is no file in reserve.
    pub(in crate::store) fn is_out_of_files(&self) -> bool {
        lock(&self.state).free.is_empty()
    }

    /// Whether a further file should be made.
    pub(in crate::store) fn wants_file(&self) -> bool {
        let state = lock(&self.state);
        let wanted = if state.sealed.is_empty() { MIN_FILES } else { self.limits.max_files };
        state.free.is_empty() && state.files < wanted
    }

    /// Makes a file, full of zeros and durable: writing to it later costs the file system no bookkeeping.
    ///
    /// # Errors
    /// Whatever the system says; what was made of the file is removed.
    pub(in crate::store) fn make_file(&self) -> io::Result<()> {
        let path = self.dir.join(file_name(self.draw_number()));
        if self.fs.kind(&path)?.is_some_and(|kind| matches!(kind, Kind::File(_))) {
            self.fs.remove_file(&path)?;
        }
        let made = self.fill_new(&path).inspect_err(|_| match self.fs.remove_file(&path) {
            Err(removal) if removal.kind() != io::ErrorKind::NotFound => {
                warn!(path = %path.display(), %removal, "could not remove an unfinished file of the commit log");
            }
            _ => {}
        })?;
        let mut state = lock(&self.state);
        state.files += 1;
        state.full = None;
        state.free.push_back(made);
        info!(files = state.files, bytes = self.limits.file_bytes, "made a file for the commit log");
        self.changed.notify_all();
        Ok(())
    }

    /// Creates a file full of zeros, with an opening for each lane of syncs.
    fn fill_new(&self, path: &Path) -> io::Result<LogFile> {
        let file = self.fs.create(path)?;
        self.fill(&*file)?;
        self.fs.sync_dir(&self.dir)?;
        let lanes = (0..self.limits.lanes).map(|_| self.fs.open(path, Access::ReadWrite));
        let lanes = lanes.collect::<io::Result<Vec<_>>>()?.into();
        Ok(LogFile { path: path.to_path_buf(), file, lanes })
    }

    fn fill(&self, file: &dyn DataFile) -> io::Result<()> {
        let zeros = vec![0; FILL_BYTES];
        let mut position = 0;
        while position < self.limits.file_bytes {
            let len = usize::try_from(self.limits.file_bytes - position).unwrap_or(FILL_BYTES).min(FILL_BYTES);
            write_all_at(file, &mut [IoSlice::new(zeros.get(..len).unwrap_or(&zeros))], position)?;
            position += len as u64;
        }
        file.sync_data()
    }

    /// Lets the checkpointer wait until there may be something to do, at most for `at_most`; false at the end.
    pub(in crate::store) fn wait_for_work(&self, at_most: Duration) -> bool {
        let has_work = |state: &State| !state.sealed.is_empty() || (state.free.is_empty() && state.files < MIN_FILES);
        let state = lock(&self.state);
        let (state, _) = self
            .changed
            .wait_timeout_while(state, at_most, |state| !state.closed && !has_work(state))
            .unwrap_or_else(PoisonError::into_inner);
        !state.closed
    }

    pub(in crate::store) fn close(&self) {
        lock(&self.state).closed = true;
        self.changed.notify_all();
    }

    pub(in crate::store) fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }
}
