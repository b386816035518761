//! The server's state on disk, in `<dataLogPath>/transactions/zookeeper`: a snapshot, and the transactions since then in
//! a log. The directory above is locked by the store.
//!
//! | file | |
//! |---|---|
//! | `snapshot` | everything up to some transaction; missing as long as the first log was never full |
//! | `log` | one frame for each sync, each with the transactions that shared it |
//! | `snapshot.new`, `log.new` | one that was being written when the process ended; removed |
//!
//! Both are replaced by renaming a complete, synced file. The snapshot goes first, and what it has already is skipped in
//! the log, so that any moment may be the last.

mod format;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use tracing::{info, warn};

use self::format::{LOG_HEADER_BYTES, LogHeader, frame, read_snapshot, walk, write_snapshot};
use super::change::Transaction;
use super::jute::Reader;
use super::limits::{LOG_BYTES, MAX_FILE_BYTES};
use super::state::State;
use crate::store::{Access, DataFile, FileSystem, Kind, read_exact_at, write_all_at};

const SNAPSHOT: &str = "snapshot";
const LOG: &str = "log";

/// Length beyond which a log does not go on if no snapshot can be written: another round of requests has room, and the
/// next start can read it.
const LONGEST_LOG: u64 = MAX_FILE_BYTES / 2;

/// Why the state cannot be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The system refuses.
    #[error("cannot {action} {}: {source}; see to the disk and the rights, then start again", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Stored bytes are not what was written.
    #[error(
        "{} is damaged: {reason}. It holds the ZooKeeper of local mode: put the whole directory back from a copy, or \
         move it away; then clients and brokers register anew, but consumers lose their offsets",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// The open log.
#[derive(Debug)]
pub(super) struct Journal {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    log: Arc<dyn DataFile>,
    header: LogHeader,
    /// Where the next frame goes.
    end: u64,
    /// Length of the log at which the next snapshot is tried.
    fold_at: u64,
}

impl Journal {
    /// Reads what there is, `log_id` being the mark of a log that is begun. The directory is made if it is missing.
    ///
    /// # Errors
    /// Damage, unless it is a last write that was cut off before anybody was told of it; and whatever the system says.
    pub(super) fn open(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        log_id: u64,
        now: Instant,
    ) -> Result<(Self, State), JournalError> {
        make_dir(&*fs, dir)?;
        for leftover in [SNAPSHOT, LOG].map(|name| temporary(dir, name)) {
            remove_if_there(&*fs, &leftover)?;
        }
        let mut state = State::default();
        let snapshot_path = dir.join(SNAPSHOT);
        let snapshot = read_file(&*fs, &snapshot_path)?;
        let snapshot_bytes = snapshot.as_ref().map_or(0, |bytes| bytes.len() as u64);
        if let Some(bytes) = &snapshot {
            let damaged = |reason| JournalError::Damaged { path: snapshot_path.clone(), reason };
            let content = read_snapshot(bytes).map_err(damaged)?;
            state = State::read(content, now).map_err(|error| damaged(error.to_string()))?;
        }
        let path = dir.join(LOG);
        let Some(bytes) = read_file(&*fs, &path)? else {
            if snapshot.is_some() {
                return Err(JournalError::Damaged { path, reason: "it is missing beside its snapshot".to_owned() });
            }
            let header = LogHeader { log_id, base: 0 };
            let log = write_new_log(&*fs, dir, header)?;
            put_new_log_in_place(&*fs, dir)?;
            let fold_at = fold_point(0);
            return Ok((Self { fs, dir: dir.to_owned(), log, header, end: LOG_HEADER_BYTES, fold_at }, state));
        };
        let damaged = |reason: String| JournalError::Damaged { path: path.clone(), reason };
        let header = LogHeader::read(&bytes).map_err(damaged)?;
        if header.base > state.zxid {
            let reason = format!("it goes on from transaction {:#x}, which {SNAPSHOT} does not reach", header.base);
            return Err(damaged(reason));
        }
        let frames = walk(&bytes, header.log_id).map_err(damaged)?;
        replay(&mut state, &frames.payloads, now).map_err(damaged)?;
        let log = fs.open(&path, Access::ReadWrite).map_err(failed("open", &path))?;
        if frames.end < bytes.len() as u64 {
            let cut = bytes.len() as u64 - frames.end;
            warn!(path = %path.display(), bytes = cut, "cut off a last write that was not finished: nobody was told of it");
            log.set_len(frames.end).map_err(failed("cut", &path))?;
            log.sync_data().map_err(failed("sync", &path))?;
        }
        let fold_at = fold_point(snapshot_bytes);
        Ok((Self { fs, dir: dir.to_owned(), log, header, end: frames.end, fold_at }, state))
    }

    /// Stores transactions durably.
    ///
    /// # Errors
    /// What the system says. Whether they are stored is unknown then, and nothing may be stored any more.
    pub(super) fn append(&mut self, transactions: &[u8]) -> Result<(), JournalError> {
        let path = self.dir.join(LOG);
        let head = frame(self.header.log_id, transactions);
        let mut slices = [io::IoSlice::new(&head), io::IoSlice::new(transactions)];
        write_all_at(&*self.log, &mut slices, self.end).map_err(failed("write", &path))?;
        self.log.sync_data().map_err(failed("sync", &path))?;
        self.end += (head.len() + transactions.len()) as u64;
        Ok(())
    }

    /// Whether the log is so long that it should be [folded](Self::fold).
    pub(super) fn is_long(&self) -> bool {
        self.end >= self.fold_at
    }

    /// Writes a snapshot of the state, which is that after the last transaction, and begins a new log. If there is no
    /// room for either, that is logged and tried again when the log has grown.
    ///
    /// # Errors
    /// When it is unknown which log the disk holds, or the log has become too long without. Nothing may be stored any more then.
    pub(super) fn fold(&mut self, state: &State) -> Result<(), JournalError> {
        let bytes = write_snapshot(state);
        // Another mark, so that frames of the two logs are told apart.
        let header = LogHeader { log_id: self.header.log_id.wrapping_add(1), base: state.zxid };
        let new = self.replace_snapshot(&bytes).and_then(|()| write_new_log(&*self.fs, &self.dir, header));
        let log = match new {
            Ok(log) => log,
            Err(error) => {
                // What there is of it may hold the very bytes that the log needs. If it stays, the next start removes it.
                let _stays = remove_if_there(&*self.fs, &temporary(&self.dir, SNAPSHOT));
                if self.end >= LONGEST_LOG {
                    return Err(error);
                }
                warn!(%error, "no snapshot of the zookeeper of local mode; its log goes on");
                self.fold_at = self.end + LOG_BYTES;
                return Ok(());
            }
        };
        put_new_log_in_place(&*self.fs, &self.dir)?;
        self.log = log;
        self.header = header;
        self.end = LOG_HEADER_BYTES;
        self.fold_at = fold_point(bytes.len() as u64);
        info!(nodes = state.tree.len(), bytes = bytes.len(), "snapshot of the zookeeper of local mode");
        Ok(())
    }

    fn replace_snapshot(&self, bytes: &[u8]) -> Result<(), JournalError> {
        let new = temporary(&self.dir, SNAPSHOT);
        write_file(&*self.fs, &new, bytes)?;
        let path = self.dir.join(SNAPSHOT);
        self.fs.rename(&new, &path).map_err(failed("replace", &path))?;
        self.fs.sync_dir(&self.dir).map_err(failed("sync", &self.dir))
    }
}

/// A snapshot is written when the log is at least as long as the last one, so that both cost about the same.
fn fold_point(snapshot_bytes: u64) -> u64 {
    LOG_BYTES.max(snapshot_bytes)
}

fn replay(state: &mut State, payloads: &[&[u8]], now: Instant) -> Result<(), String> {
    let mut last = 0;
    for payload in payloads {
        let mut r = Reader::new(payload);
        while !r.is_empty() {
            let transaction = Transaction::read(&mut r).map_err(|error| format!("a transaction is none: {error}"))?;
            if transaction.zxid <= last {
                return Err(format!("transaction {:#x} comes after {last:#x}", transaction.zxid));
            }
            last = transaction.zxid;
            state.replay(&transaction, now).map_err(|error| format!("transaction {last:#x}: {error}"))?;
        }
    }
    Ok(())
}

fn failed<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> JournalError + 'a {
    move |source| JournalError::Io { action, path: path.to_owned(), source }
}

fn temporary(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.new"))
}

fn make_dir(fs: &dyn FileSystem, dir: &Path) -> Result<(), JournalError> {
    if fs.kind(dir).map_err(failed("look at", dir))?.is_none() {
        fs.create_dir(dir).map_err(failed("make", dir))?;
    }
    // One that is there may have been made by a process that was killed at once.
    let parent = dir.parent().unwrap_or(dir);
    fs.sync_dir(parent).map_err(failed("sync", parent))
}

fn remove_if_there(fs: &dyn FileSystem, path: &Path) -> Result<(), JournalError> {
    match fs.kind(path).map_err(failed("look at", path))? {
        Some(_) => fs.remove_file(path).map_err(failed("remove", path)),
        None => Ok(()),
    }
}

/// A new file with a content that is durable, in the place of what an earlier attempt left; its name is not durable.
fn write_file(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) -> Result<Arc<dyn DataFile>, JournalError> {
    remove_if_there(fs, path)?;
    let file = fs.create(path).map_err(failed("make", path))?;
    write_all_at(&*file, &mut [io::IoSlice::new(bytes)], 0).map_err(failed("write", path))?;
    file.sync_data().map_err(failed("sync", path))?;
    Ok(file)
}

/// An empty log beside the present one.
fn write_new_log(fs: &dyn FileSystem, dir: &Path, header: LogHeader) -> Result<Arc<dyn DataFile>, JournalError> {
    write_file(fs, &temporary(dir, LOG), &header.bytes())
}

/// Puts it in the place of the present one, if there is one.
fn put_new_log_in_place(fs: &dyn FileSystem, dir: &Path) -> Result<(), JournalError> {
    let path = dir.join(LOG);
    fs.rename(&temporary(dir, LOG), &path).map_err(failed("replace", &path))?;
    fs.sync_dir(dir).map_err(failed("sync", dir))
}

/// What the disk holds of a file: after a failed sync in the life of an earlier process the system may show other bytes.
fn read_file(fs: &dyn FileSystem, path: &Path) -> Result<Option<Vec<u8>>, JournalError> {
    match fs.kind(path).map_err(failed("look at", path))? {
        None => return Ok(None),
        Some(Kind::File(_)) => {}
        Some(_) => return Err(JournalError::Damaged { path: path.to_owned(), reason: "it is no file".to_owned() }),
    }
    let file = fs.open(path, Access::ReadWrite).map_err(failed("open", path))?;
    file.sync_data().map_err(failed("sync", path))?;
    file.drop_cached().map_err(failed("read", path))?;
    let len = file.stamp().map_err(failed("look at", path))?.len;
    if len > MAX_FILE_BYTES {
        let reason = format!("it has {len} bytes, and at most {MAX_FILE_BYTES} are ever written");
        return Err(JournalError::Damaged { path: path.to_owned(), reason });
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    read_exact_at(&*file, &mut bytes, 0).map_err(failed("read", path))?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests;
