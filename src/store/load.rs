//! Loading what is on disk (02 §10). First everything is looked at and checked, then torn tails are cut.

use std::collections::HashMap;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use tracing::{debug, warn};

use super::commit_log::table::Checkpoint;
use super::error::{InvalidDirectoryName, StoreError};
use super::format::{FileName, parse_directory_name, parse_file_name};
use super::fs::{Access, DataFile, FileSystem, Kind, Stamp, read_exact_at, write_all_at};
use super::load_hints::{LoadHints, ScanPlan};
use super::options::TopicSettingsOf;
use super::partition::{Opened, PartitionLog, Shared};
use super::recovery::{Scan, scan};
use super::replay::Closed;
use super::segment::{Segment, SegmentList};
use crate::id::{PartitionIndex, TopicName};

/// A directory that holds a partition.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) topic: TopicName,
    pub(super) index: PartitionIndex,
    pub(super) dir: PathBuf,
}

/// Lists the partitions in the data paths; one that is found twice, or is `open` elsewhere already, is refused.
pub(super) fn find_partitions(
    fs: &dyn FileSystem,
    data_paths: &[PathBuf],
    open: &[Arc<PartitionLog>],
) -> Result<Vec<Found>, StoreError> {
    let key = |topic: &TopicName, index| (topic.clone(), index);
    let mut places: HashMap<_, PathBuf> =
        open.iter().map(|p| (key(p.topic(), p.index()), p.dir().to_path_buf())).collect();
    let mut found = Vec::new();
    for data_path in data_paths {
        let unreadable = |source| StoreError::Io { action: "list the data path", path: data_path.clone(), source };
        let mut entries = fs.list(data_path).map_err(unreadable)?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries {
            let path = data_path.join(&entry.name);
            if entry.kind != Kind::Directory {
                debug!(path = %path.display(), "not a directory, ignored");
                continue;
            }
            let parsed = match entry.name.to_str() {
                Some(name) => parse_directory_name(name),
                None if entry.name.as_encoded_bytes().contains(&b'-') => Err(InvalidDirectoryName::Encoding),
                None => Ok(None),
            };
            match parsed {
                Ok(None) => debug!(path = %path.display(), "directory without a dash in its name, ignored"),
                Err(reason) => return Err(StoreError::DirectoryName { path, reason }),
                Ok(Some((topic, index))) => {
                    if let Some(first) = places.insert(key(&topic, index), path.clone()) {
                        return Err(StoreError::TwoPlaces { topic, index, first, second: path });
                    }
                    found.push(Found { topic, index, dir: path });
                }
            }
        }
    }
    Ok(found)
}

/// A partition that passed all checks; nothing on disk is changed yet.
#[derive(Debug)]
pub(super) struct Inspected {
    found: Found,
    segments: Vec<Arc<Segment>>,
    last_len: u64,
    pub(super) scan: Scan,
    closed: Option<Closed>,
    /// Known to be intact and durable without a look at the content.
    settled: bool,
    /// The last broker was not stopped cleanly.
    has_log: bool,
    /// Number of the first segment that may not be durable: the log does not vouch for all of it.
    unsynced: usize,
    /// Segments that a roll had begun when the power went off, with their lengths, before what fills the one before them
    /// was durable anywhere. Nothing in them was answered as durable.
    leftovers: Vec<SegmentFile>,
}

/// Inspects partitions on as many threads as the machine has cores. The first error in their order is reported.
pub(super) fn inspect_all(
    fs: &dyn FileSystem,
    found: &[Found],
    hints: &LoadHints,
) -> Result<Vec<Inspected>, StoreError> {
    let next = AtomicUsize::new(0);
    let results: Vec<OnceLock<_>> = found.iter().map(|_| OnceLock::new()).collect();
    let work = || {
        while let Some((found, result)) = {
            let i = next.fetch_add(1, Ordering::Relaxed);
            found.get(i).zip(results.get(i))
        } {
            // Each number is drawn once, so the cell is empty.
            let _empty = result.set(inspect(fs, found, hints));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(found.len());
    thread::scope(|scope| {
        for _ in 1..threads {
            // This thread does the work alone if no other can be had.
            if thread::Builder::new().name("metaq-load".to_owned()).spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    results.into_iter().filter_map(OnceLock::into_inner).collect()
}

fn inspect(fs: &dyn FileSystem, found: &Found, hints: &LoadHints) -> Result<Inspected, StoreError> {
    let key = (found.topic.clone(), found.index);
    let closed = hints.closed.get(&key).cloned();
    let failed = closed.as_ref().is_some_and(|closed| closed.failed);
    let mut files = find_segments(fs, &found.dir)?;
    let broken = |pair: &[SegmentFile]| match pair {
        [first, second] => first.end() != second.start || first.start == second.start,
        _ => false,
    };
    let mut leftovers = Vec::new();
    if let Some(first) = files.windows(2).position(broken) {
        let end = files.get(first).map_or(0, SegmentFile::end);
        let is_gap = files.get(first + 1).is_some_and(|next| next.start > end);
        if is_gap && hints.vouched(&key).is_some_and(|vouched| vouched <= end) {
            leftovers = files.split_off(first + 1);
        } else if !failed && let Some([first, second]) = files.get(first..first + 2) {
            let (first, second) = (first.path.clone(), second.path.clone());
            return Err(StoreError::Discontinuous { first, second });
        }
        // If it failed, what is missing is pending.
        files.truncate(first + 1);
    }
    let mut unsynced = files.len().saturating_sub(1);
    if let Some(vouched) = hints.vouched(&key).filter(|_| !failed) {
        let first = files.partition_point(|file| file.start <= vouched).saturating_sub(1);
        if let Some(torn) = find_torn(fs, &files, first, vouched)? {
            let mut behind = files.split_off(torn + 1);
            behind.append(&mut leftovers);
            leftovers = behind;
        }
        unsynced = first.min(files.len().saturating_sub(1));
    }
    let mut segments = Vec::with_capacity(files.len());
    let last = files.len().saturating_sub(1);
    for (i, SegmentFile { start, path, .. }) in files.iter().enumerate() {
        let access = if i == last { Access::ReadWrite } else { Access::Read };
        let unreadable = |source| StoreError::Unreadable { path: path.clone(), source };
        let file = fs.open(path, access).map_err(unreadable)?;
        segments.push(Arc::new(Segment::new(*start, path.clone(), file)));
    }
    let mut inspected = Inspected {
        found: found.clone(),
        segments,
        last_len: 0,
        scan: Scan::default(),
        closed,
        settled: false,
        has_log: hints.has_log,
        unsynced,
        leftovers,
    };
    if let (Some(file), Some(segment)) = (files.last(), inspected.segments.last()) {
        inspected.last_len = file.len;
        let unreadable = |source| StoreError::Unreadable { path: file.path.clone(), source };
        let stamp = |i: usize| inspected.segments.get(i).map_or(Ok(Stamp::default()), |segment| segment.file().stamp());
        match hints.plan(&key, &found.dir, &files, &stamp).map_err(unreadable)? {
            ScanPlan::Nothing { messages } => {
                inspected.scan = Scan { end: file.len, records: messages, largest_id: None };
                inspected.settled = true;
            }
            ScanPlan::From { position, vouched } => match scan(segment.file(), file.len, position, vouched) {
                Ok(scan) => inspected.scan = scan,
                // Nothing of it is shown.
                Err(_) if failed => {}
                Err(error) => return Err(unreadable(error)),
            },
        }
    }
    Ok(inspected)
}

/// The first segment from `first` on, but the last one, that holds anything but messages behind the offset up to which the log vouches:
/// it was full when the power went off, and its end did not get to the disk.
fn find_torn(
    fs: &dyn FileSystem,
    files: &[SegmentFile],
    first: usize,
    vouched: u64,
) -> Result<Option<usize>, StoreError> {
    for (i, file) in files.iter().enumerate().take(files.len().saturating_sub(1)).skip(first) {
        let position = vouched.saturating_sub(file.start).min(file.len);
        let unreadable = |source| StoreError::Unreadable { path: file.path.clone(), source };
        let opened = fs.open(&file.path, Access::Read).map_err(unreadable)?;
        if position < file.len && scan(&*opened, file.len, position, None).map_err(unreadable)?.end < file.len {
            return Ok(Some(i));
        }
    }
    Ok(None)
}

/// A segment file as the directory shows it.
#[derive(Debug, Clone)]
pub(super) struct SegmentFile {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) path: PathBuf,
}

impl SegmentFile {
    /// Offset behind its last byte; listed files end within the range of offsets.
    pub(super) fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }
}

/// The segment files of a directory in ascending order.
pub(super) fn find_segments(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<SegmentFile>, StoreError> {
    let entries = fs.list(dir).map_err(|source| StoreError::Unreadable { path: dir.to_path_buf(), source })?;
    let mut files = Vec::new();
    for entry in entries {
        let Kind::File(len) = entry.kind else { continue };
        let path = dir.join(&entry.name);
        match parse_file_name(&entry.name.to_string_lossy()) {
            FileName::Foreign => {}
            FileName::Invalid => return Err(StoreError::SegmentName(path)),
            FileName::Negative => return Err(StoreError::NegativeSegment(path)),
            FileName::Segment(start) => {
                if start.checked_add(len).is_none_or(|end| i64::try_from(end).is_err()) {
                    return Err(StoreError::SegmentTooFar(path));
                }
                files.push(SegmentFile { start, len, path });
            }
        }
    }
    files.sort_by(|a, b| (a.start, a.len, &a.path).cmp(&(b.start, b.len, &b.path)));
    Ok(files)
}

impl Inspected {
    /// Cuts the torn tail, makes durable what remains, and opens the partition.
    ///
    /// # Errors
    /// When the tail cannot be cut. If the rest cannot be synced, the partition is poisoned instead: a page of it may
    /// exist in memory only.
    pub(super) fn open(self, shared: &Arc<Shared>, settings: &TopicSettingsOf) -> Result<PartitionLog, StoreError> {
        let Self {
            found: Found { topic, index, dir },
            segments,
            last_len,
            scan,
            closed,
            settled,
            has_log,
            unsynced,
            leftovers,
        } = self;
        let settings = settings(&topic);
        let last = segments.last().cloned();
        let start = last.as_ref().map_or(0, |last| last.start_position());
        let (failed, quarantined) = match closed {
            Some(Closed { reason, failed: true }) => (Some(reason.to_string()), None),
            closed => (None, closed),
        };
        if failed.is_none() {
            put_away(&*shared.fs, &dir, &leftovers)?;
        }
        let mut failure = failed;
        if let Some(last) = last.as_ref().filter(|_| failure.is_none() && !settled) {
            if scan.end < last_len {
                let kept = keep_tail(&*shared.fs, last, scan.end, last_len)?;
                cut(last, scan.end)?;
                let (path, kept) = (last.path().display(), kept.as_deref().map(Path::display));
                warn!(%path, old_len = last_len, new_len = scan.end, kept = kept.map(tracing::field::display), "cut what is behind the last intact message");
            }
            let sync = |segment: &Arc<Segment>| {
                let failed = |error| format!("sync of {} failed: {error}", segment.path().display());
                segment.file().sync_data().map_err(failed)
            };
            let synced = segments.iter().skip(unsynced).try_for_each(sync).and_then(|()| {
                let failed = |error| format!("sync of {} failed: {error}", dir.display());
                shared.fs.sync_dir(&dir).map_err(failed)
            });
            failure = synced.err();
        }
        // Not every removal of a broker that was killed may be durable, though nothing was written since.
        if settled && has_log && failure.is_none() && last.is_some() {
            let synced = shared.fs.sync_dir(&dir);
            failure = synced.err().map(|error| format!("sync of {} failed: {error}", dir.display()));
        }
        let end = start + scan.end;
        let unsynced = segments.get(unsynced).map_or(0, |segment| segment.start_position());
        let durable = if failure.is_some() { unsynced } else { end };
        let segments = SegmentList::new(segments);
        let stamp = last.filter(|_| failure.is_none()).and_then(|last| last.file().stamp().ok());
        // All of it is durable: the next start need not read it unless something is added.
        let checkpoint = stamp.filter(|stamp| stamp.len == scan.end).map(|stamp| Checkpoint {
            topic: topic.clone(),
            partition: index,
            segment: start,
            stamp,
        });
        let opened = Opened { topic, index, dir, segments, end, durable, messages: scan.records, checkpoint };
        let partition = PartitionLog::new(Arc::clone(shared), opened, &settings);
        // Logged there and shown in the store's health; what is durable is served.
        if let Some(reason) = failure {
            let _error = partition.poison_with(&reason);
        } else if let Some(closed) = quarantined {
            partition.quarantine_with(&closed.reason);
        }
        Ok(partition)
    }
}

/// Takes segments out of the way that nothing leads to any more, the newest first: empty ones are removed, others are
/// kept as `<segment>.cut-0`.
fn put_away(fs: &dyn FileSystem, dir: &Path, leftovers: &[SegmentFile]) -> Result<(), StoreError> {
    for SegmentFile { path, len, .. } in leftovers.iter().rev() {
        let mut kept = path.as_os_str().to_owned();
        kept.push(".cut-0");
        let put_away = if *len == 0 { fs.remove_file(path) } else { fs.rename(path, Path::new(&kept)) };
        put_away.and_then(|()| fs.sync_dir(dir)).map_err(|source| StoreError::Io {
            action: "put away the unfinished segment",
            path: path.clone(),
            source,
        })?;
        warn!(path = %path.display(), len, "put away a segment that was begun when the machine lost its power");
    }
    Ok(())
}

/// Bytes that are copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// Keeps what is to be cut off in a file beside the segment, `<segment>.cut-<position>`, unless it is all zeros. What is
/// cut is mostly a message that a crash tore; but a single damaged byte hides every message behind it (02 §11), and those
/// an operator may want back. Readers of the directory ignore such files, the Java broker included.
///
/// # Errors
/// When it cannot be written: nothing is cut then.
fn keep_tail(fs: &dyn FileSystem, segment: &Segment, start: u64, end: u64) -> Result<Option<PathBuf>, StoreError> {
    let mut name = segment.path().as_os_str().to_owned();
    name.push(format!(".cut-{start}"));
    let path = PathBuf::from(name);
    let failed = |source| StoreError::Io {
        action: "keep what is behind the last intact message in",
        path: path.clone(),
        source,
    };
    let read_failed = |source| StoreError::Unreadable { path: segment.path().to_path_buf(), source };
    let mut buffer = vec![0; COPY_BYTES];
    let mut copy: Option<Arc<dyn DataFile>> = None;
    let mut position = start;
    while position < end {
        let len = usize::try_from(end - position).unwrap_or(usize::MAX).min(COPY_BYTES);
        let bytes = &mut buffer[..len];
        read_exact_at(segment.file(), bytes, position).map_err(read_failed)?;
        if copy.is_none() && bytes.iter().any(|&byte| byte != 0) {
            // One of the same name is what an earlier start kept before it was interrupted.
            if fs.kind(&path).map_err(failed)?.is_some() {
                fs.remove_file(&path).map_err(failed)?;
            }
            copy = Some(fs.create(&path).map_err(failed)?);
        }
        if let Some(copy) = &copy {
            write_all_at(&**copy, &mut [IoSlice::new(bytes)], position - start).map_err(failed)?;
        }
        position += len as u64;
    }
    let Some(copy) = copy else { return Ok(None) };
    copy.sync_data().map_err(failed)?;
    if let Some(dir) = path.parent() {
        fs.sync_dir(dir).map_err(failed)?;
    }
    Ok(Some(path))
}

fn cut(segment: &Segment, len: u64) -> Result<(), StoreError> {
    let file: &dyn DataFile = segment.file();
    file.set_len(len).map_err(|source| StoreError::Io {
        action: "cut the torn tail of",
        path: segment.path().to_path_buf(),
        source,
    })
}
