//! The checkpointer: makes segments durable by themselves, so that files of the commit log can be used again (08 §4).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tracing::{error, info, warn};

use super::commit_log::error::CommitLogError;
use super::commit_log::files::LogFiles;
use super::commit_log::format::Body;
use super::commit_log::pool::{Pool, Sealed};
use super::commit_log::walk::walk;
use super::error::AppendError;
use super::fs::{is_full, read_exact_at};
use super::partition::PartitionLog;
use super::set_aside::{self, Kind};
use crate::common::guard::lock;

/// How soon something that failed for want of space or of descriptors is tried again.
const RETRY_PERIOD: Duration = Duration::from_millis(500);

/// How soon a further file is tried again that could not be made while there are others.
const FILE_RETRY_PERIOD: Duration = Duration::from_secs(10);

/// As long as files are in reserve, the disk is left to the puts for this multiple of the time that a segment's sync
/// took,
const PACE: u32 = 2;

/// but at most for this time.
const PACE_MAX: Duration = Duration::from_millis(100);

/// See the module.
#[derive(Debug)]
pub(in crate::store) struct Checkpointer {
    pool: Arc<Pool>,
    /// A thread runs it.
    has_thread: AtomicBool,
    /// When a file could not be made.
    file_failed: Mutex<Option<Instant>>,
}

/// What a step came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Done,
    Nothing,
    /// A full disk or missing descriptors stand in the way.
    Blocked,
}

impl Checkpointer {
    pub(in crate::store) fn new(pool: Arc<Pool>) -> Self {
        Self { pool, has_thread: AtomicBool::new(false), file_failed: Mutex::default() }
    }

    /// Starts the thread.
    pub(in crate::store) fn spawn(self: &Arc<Self>) -> std::io::Result<thread::JoinHandle<()>> {
        let checkpointer = Arc::clone(self);
        let thread = thread::Builder::new().name("metaq-checkpt".to_owned()).spawn(move || checkpointer.run())?;
        self.has_thread.store(true, Ordering::Release);
        Ok(thread)
    }

    fn run(&self) {
        while self.pool.wait_for_work(RETRY_PERIOD) {
            if self.step() == Step::Blocked {
                thread::sleep(RETRY_PERIOD);
            }
        }
        // Puts that still wait for a file when the store is closed do the work themselves.
        self.has_thread.store(false, Ordering::Release);
    }

    /// For a log that has no file left: does the work itself where no thread does it.
    ///
    /// # Errors
    /// When no thread does it and nothing can be done.
    pub(in crate::store) fn help_out(&self) -> Result<(), AppendError> {
        let alone = !self.has_thread.load(Ordering::Acquire);
        if alone && self.step() == Step::Blocked {
            return Err(AppendError::Closed);
        }
        Ok(())
    }

    /// Checkpoints the oldest full file, or makes a file if one is wanted.
    pub(super) fn step(&self) -> Step {
        let oldest = self.pool.oldest_sealed();
        if self.pool.wants_file() && (oldest.is_none() || self.may_make_file()) {
            match self.make_file(oldest.is_some()) {
                // With a full file that can be checkpointed instead, nobody has to wait for this one.
                Step::Blocked if oldest.is_some() => {}
                step => return step,
            }
        }
        let Some(sealed) = oldest else { return Step::Nothing };
        for partition in sealed.pins.iter() {
            let start = Instant::now();
            match partition.make_checkpoint() {
                Ok(()) => self.pace(start.elapsed()),
                Err(AppendError::Poisoned { .. } | AppendError::Quarantined { .. }) => {
                    if !self.set_aside(&sealed, partition) {
                        return Step::Blocked;
                    }
                }
                Err(AppendError::NoSpace(path)) => {
                    self.pool.note_full(Some(path));
                    return Step::Blocked;
                }
                Err(error) => {
                    warn!(partition = %partition.name(), %error, "a checkpoint failed and is tried again");
                    return Step::Blocked;
                }
            }
        }
        self.pool.release(sealed.number);
        Step::Done
    }

    /// Whether making a file has not failed just now.
    fn may_make_file(&self) -> bool {
        lock(&self.file_failed).is_none_or(|failed| failed.elapsed() >= FILE_RETRY_PERIOD)
    }

    fn make_file(&self, has_another: bool) -> Step {
        match self.pool.make_file() {
            Ok(()) => {
                *lock(&self.file_failed) = None;
                Step::Done
            }
            Err(error) => {
                *lock(&self.file_failed) = Some(Instant::now());
                if is_full(&error) && !has_another {
                    self.pool.note_full(Some(self.pool.dir().to_path_buf()));
                }
                error!(%error, "could not make a further file for the commit log: free space on dataLogPath");
                Step::Blocked
            }
        }
    }

    /// Leaves the disk to the puts for a while.
    fn pace(&self, took: Duration) {
        if self.has_thread.load(Ordering::Acquire) && !self.pool.is_out_of_files() && !self.pool.is_closed() {
            thread::sleep((took * PACE).min(PACE_MAX));
        }
    }

    /// Copies the frames of a poisoned partition out of a full file, so that it does not stop the others: the next start
    /// applies them.
    fn set_aside(&self, sealed: &Sealed, partition: &PartitionLog) -> bool {
        let (fs, dir) = (self.pool.fs(), self.pool.dir());
        let (topic, index) = (partition.topic(), partition.index());
        let result = frames_of(sealed, partition).and_then(|frames| {
            let file = &sealed.file.file;
            let mut frames = frames.into_iter().map(|frame| {
                let mut records = vec![0; frame.len];
                read_exact_at(&**file, &mut records, frame.position)?;
                Ok((frame.segment, frame.offset, Bytes::from(records)))
            });
            let failed = |source| CommitLogError::Io { action: "keep frames in", path: dir.to_path_buf(), source };
            set_aside::append(fs, dir, Kind::Pending, topic, index, &mut frames).map_err(failed)
        });
        match result {
            Ok(()) => {
                let file = set_aside::path(dir, Kind::Pending, topic, index);
                info!(partition = %partition.name(), file = %file.display(), "kept what a poisoned partition had in the commit log");
                true
            }
            Err(error) => {
                if let CommitLogError::Io { source, .. } = &error
                    && is_full(source)
                {
                    // Puts that need the file are refused with the reason instead of waiting.
                    self.pool.note_full(Some(dir.to_path_buf()));
                }
                error!(partition = %partition.name(), %error, "could not keep what a poisoned partition has in the commit log: one of its files cannot be used again until that succeeds");
                false
            }
        }
    }
}

/// Where the records of a frame lie.
struct RecordsAt {
    segment: u64,
    offset: u64,
    position: u64,
    len: usize,
}

/// The frames of a partition in a full file of the log.
fn frames_of(sealed: &Sealed, partition: &PartitionLog) -> Result<Vec<RecordsAt>, CommitLogError> {
    let files = LogFiles::of(&sealed.file.path, &sealed.file.file)?;
    let mut frames = Vec::new();
    walk(&files, &mut |met| {
        match met.frame.body {
            Body::Records { topic, partition: index, segment, offset, records }
                if topic == *partition.topic() && index == partition.index() =>
            {
                let position = met.position + (met.frame.len - records.len()) as u64;
                frames.push(RecordsAt { segment, offset, position, len: records.len() });
            }
            Body::Forget { topic, partition: index } if topic == *partition.topic() && index == partition.index() => {
                frames.clear();
            }
            _ => {}
        }
        Ok::<_, CommitLogError>(())
    })?;
    Ok(frames)
}
