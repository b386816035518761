//! A partition: its marks, its segments and its state. Reading is in `read`, the place of the next record in `write`, the
//! way from the tail to the segments in `filing`, removal in `removal`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use tracing::{error, info, warn};

use super::commit_log::table::Checkpoint;
use super::error::AppendError;
use super::fs::FileSystem;
use super::options::TopicSettings;
use super::segment::{Segment, SegmentList};
use super::tail::Tails;
use super::times::StoreTimes;
use super::volume::{Volume, Volumes};
use super::waiters::Waiters;
use crate::id::{Offset, PartitionIndex, TopicName};

/// What the partitions of a store share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) max_segment_size: u64,
    pub(super) max_transfer_size: u64,
    pub(super) tails: Arc<Tails>,
    pub(super) volumes: Volumes,
    pub(super) times: StoreTimes,
    /// Why the commit log ended: then no partition takes messages any more.
    pub(super) log_poison: OnceLock<Arc<str>>,
}

impl Shared {
    pub(super) fn new(fs: Arc<dyn FileSystem>, max_segment_size: u64, max_transfer_size: u64) -> Self {
        Self {
            fs,
            max_segment_size: max_segment_size.max(1),
            max_transfer_size,
            tails: Arc::default(),
            volumes: Volumes::default(),
            times: StoreTimes::default(),
            log_poison: OnceLock::new(),
        }
    }
}

/// The log of one partition.
///
/// Its positions: what is *visible* is durable, in the commit log or in the segments; what is *filed* is in the segment
/// files, though perhaps not durably; what is *checkpointed* is durable there; what is *written* has an offset. The
/// bytes from filed to written are in the tail.
///
/// Readers take no lock unless they reach into the tail: they load the visible mark, then a snapshot of the segment
/// list. The list is always published before the mark moves into a new segment, so every byte below the mark is found.
/// Offsets are given out by the holder of the round only.
#[derive(Debug)]
pub struct PartitionLog {
    topic: TopicName,
    index: PartitionIndex,
    /// `<topic>-<partition>`, as it stands in directories and error texts.
    name: Arc<str>,
    dir: PathBuf,
    pub(super) shared: Arc<Shared>,
    pub(super) volume: Arc<Volume>,
    pub(super) segments: ArcSwap<SegmentList>,
    /// Start of the last segment, or [`NO_SEGMENT`]; for the holder of the round.
    pub(super) last_segment: AtomicU64,
    /// End of what a crash cannot take back; readers see nothing beyond.
    pub(super) visible: AtomicU64,
    /// End of what is in the segment files. Moved with `filing` held.
    pub(super) filed: AtomicU64,
    /// End of what is durable in the segment files themselves. Moved with `sync` held.
    pub(super) checkpointed: AtomicU64,
    /// End of what was written.
    pub(super) written: AtomicU64,
    pub(super) messages: AtomicU64,
    /// Messages written in periodic flush so far,
    pub(super) to_flush: AtomicU64,
    /// and how many of them the last syncs covered. Syncs overlap, so that no number of them can be subtracted.
    flushed: AtomicU64,
    unflush_threshold: AtomicI32,
    unflush_interval_ms: AtomicI32,
    /// One writer to the segment files at a time; taken before `tail`.
    pub(super) filing: Mutex<()>,
    pub(super) tail: Mutex<Vec<u8>>,
    /// One sync of the segment files at a time: the kernel reports a failed write-back to one of several concurrent
    /// syncs only. Taken before `filing`.
    pub(super) sync: Mutex<Entries>,
    /// The commit log's list of partitions to make visible has it. Changed by the holder of the round.
    pub(super) in_dirty_list: AtomicBool,
    /// The newest file of the commit log that has frames of it. Changed by the holder of the round.
    pub(super) pinned_file: AtomicU64,
    pub(super) checkpoint: Mutex<Option<Checkpoint>>,
    opened: Instant,
    /// When the last sync ended, in milliseconds after `opened`.
    last_sync_ms: AtomicU64,
    /// The flusher knows that there is something to flush.
    flush_scheduled: AtomicBool,
    poison: OnceLock<Poison>,
    full: AtomicBool,
    tail_failed: AtomicBool,
    pub(super) deleted: AtomicBool,
    pub(super) waiters: Waiters,
    /// It is on the flusher's list of partitions that a reader waits for.
    pub(super) flush_asked: AtomicBool,
}

/// Why a partition takes no more messages.
#[derive(Debug, Clone)]
struct Poison {
    reason: Arc<str>,
    /// A restart does not help: messages are in quarantine, and an operator has to decide.
    quarantined: bool,
}

/// A partition without segments.
pub(super) const NO_SEGMENT: u64 = u64::MAX;

/// Which directory entries of a partition are durable.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Entries {
    /// That of its directory.
    pub(super) directory: bool,
    /// Those of all segments that begin at or before this offset.
    pub(super) segments_up_to: Option<u64>,
    /// A segment was removed and that may not be durable: nothing else is removed before it is.
    pub(super) unsettled_removal: bool,
    /// The partition was deleted, its frames are void: nothing has to become durable any more.
    pub(super) discarded: bool,
}

/// The state in which a partition starts.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) topic: TopicName,
    pub(super) index: PartitionIndex,
    pub(super) dir: PathBuf,
    pub(super) segments: SegmentList,
    /// End of the last segment.
    pub(super) end: u64,
    /// End of what is durable.
    pub(super) durable: u64,
    pub(super) messages: u64,
    /// Its last segment, if all of it is durable.
    pub(super) checkpoint: Option<Checkpoint>,
}

impl PartitionLog {
    pub(super) fn new(shared: Arc<Shared>, opened: Opened, settings: &TopicSettings) -> Self {
        let Opened { topic, index, dir, segments, end, durable, messages, checkpoint } = opened;
        let volume = shared.volumes.of(&*shared.fs, dir.parent().unwrap_or(&dir));
        // What was found at the start was synced, entries included.
        let found = segments.last().map(|last| last.start_position());
        let entries = Entries { directory: found.is_some(), segments_up_to: found, ..Entries::default() };
        Self {
            name: format!("{topic}-{index}").into(),
            topic,
            index,
            dir,
            volume,
            shared,
            sync: Mutex::new(entries),
            segments: ArcSwap::from_pointee(segments),
            last_segment: AtomicU64::new(found.unwrap_or(NO_SEGMENT)),
            visible: AtomicU64::new(durable),
            filed: AtomicU64::new(end),
            checkpointed: AtomicU64::new(durable),
            written: AtomicU64::new(end),
            messages: AtomicU64::new(messages),
            to_flush: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            unflush_threshold: AtomicI32::new(settings.unflush_threshold),
            unflush_interval_ms: AtomicI32::new(settings.unflush_interval_ms),
            filing: Mutex::new(()),
            tail: Mutex::default(),
            in_dirty_list: AtomicBool::new(false),
            pinned_file: AtomicU64::new(0),
            checkpoint: Mutex::new(checkpoint),
            opened: Instant::now(),
            last_sync_ms: AtomicU64::new(0),
            flush_scheduled: AtomicBool::new(false),
            poison: OnceLock::new(),
            full: AtomicBool::new(false),
            tail_failed: AtomicBool::new(false),
            deleted: AtomicBool::new(false),
            waiters: Waiters::default(),
            flush_asked: AtomicBool::new(false),
        }
    }

    /// Its topic.
    pub fn topic(&self) -> &TopicName {
        &self.topic
    }

    /// Its number.
    pub fn index(&self) -> PartitionIndex {
        self.index
    }

    /// `<topic>-<partition>`.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its directory; made by the first append.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Start of the oldest segment, 0 without any (02 §5).
    pub fn min_offset(&self) -> Offset {
        offset(self.min_position(&self.segments.load()))
    }

    /// The visible mark: end of what a crash cannot take back (02 §5).
    pub fn max_offset(&self) -> Offset {
        offset(self.visible.load(Ordering::Acquire))
    }

    /// End of what was written, durable or not.
    pub fn written_offset(&self) -> Offset {
        offset(self.written.load(Ordering::Acquire))
    }

    /// Messages found in the last segment at the start, and stored since (02 §20).
    pub fn message_count(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// Bytes of all segments, unflushed ones included.
    pub fn size_bytes(&self) -> u64 {
        let written = self.written.load(Ordering::Acquire);
        written.saturating_sub(self.min_position(&self.segments.load()))
    }

    /// The segments as they are now, oldest first.
    pub fn segments(&self) -> Vec<Arc<Segment>> {
        self.segments.load().iter().cloned().collect()
    }

    /// How many segments there are.
    pub fn segment_count(&self) -> usize {
        self.segments.load().iter().len()
    }

    /// Takes over changed settings; the data path of an existing partition does not change.
    pub fn set_settings(&self, settings: &TopicSettings) {
        self.unflush_threshold.store(settings.unflush_threshold, Ordering::Relaxed);
        self.unflush_interval_ms.store(settings.unflush_interval_ms, Ordering::Relaxed);
    }

    /// Why it takes no more messages, if so: until a restart, or until an operator has decided about what is in
    /// quarantine, as the reason says.
    pub fn poison(&self) -> Option<&Arc<str>> {
        self.own_poison().or_else(|| self.shared.log_poison.get())
    }

    /// Whether its data were deleted: a new one has to be made for further messages.
    pub fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Relaxed)
    }

    /// Whether the last append, or the last attempt to file one, found the disk full.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Why its own files failed, if they did, and not the commit log.
    pub(super) fn own_poison(&self) -> Option<&Arc<str>> {
        self.poison.get().map(|poison| &poison.reason)
    }

    pub(super) fn is_poisoned_itself(&self) -> bool {
        self.own_poison().is_some()
    }

    /// Whether its tail waits for space on the disk.
    pub(super) fn tail_failed(&self) -> bool {
        self.tail_failed.load(Ordering::Relaxed)
    }

    pub(super) fn note_tail_failed(&self, failed: bool) {
        if self.tail_failed.swap(failed, Ordering::Relaxed) != failed {
            if failed { self.volume.tail_failed() } else { self.volume.tail_recovered() }
        }
    }

    pub(super) fn min_position(&self, segments: &SegmentList) -> u64 {
        segments.first().map_or(0, |segment| segment.start_position())
    }

    pub(super) fn segment_list(&self) -> Guard<Arc<SegmentList>> {
        self.segments.load()
    }

    /// Whether an answer waits for a sync (02 §7).
    pub(super) fn is_group_commit(&self) -> bool {
        self.unflush_threshold.load(Ordering::Relaxed) <= 0
    }

    /// Whether something was written that is not durable and may become so.
    pub(super) fn is_dirty(&self) -> bool {
        self.visible.load(Ordering::Acquire) < self.written.load(Ordering::Acquire) && self.poison().is_none()
    }

    /// Time until unflushed messages must be synced, zero if by count or by age they must be now (02 §6).
    pub(super) fn flush_due_in(&self, now: Instant) -> Duration {
        let threshold = u64::try_from(self.unflush_threshold.load(Ordering::Relaxed)).unwrap_or(0);
        if self.unflushed() > threshold {
            return Duration::ZERO;
        }
        let interval = u64::try_from(self.unflush_interval_ms.load(Ordering::Relaxed)).unwrap_or(0);
        let age = self.age_ms(now).saturating_sub(self.last_sync_ms.load(Ordering::Relaxed));
        Duration::from_millis(interval.saturating_sub(age))
    }

    /// Messages written in periodic flush that no sync has covered.
    pub(super) fn unflushed(&self) -> u64 {
        let flushed = self.flushed.load(Ordering::Relaxed);
        self.to_flush.load(Ordering::Relaxed).saturating_sub(flushed)
    }

    fn age_ms(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.opened).as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether the flusher must be told that there is something to flush: true once until it looks.
    pub(super) fn needs_scheduling(&self) -> bool {
        self.is_dirty() && !self.flush_scheduled.swap(true, Ordering::SeqCst)
    }

    /// The flusher's look: time until the next sync of what is unflushed, `None` if nothing is.
    pub(super) fn next_flush(&self, now: Instant) -> Option<Duration> {
        // Before looking: what is written afterwards is told anew.
        self.flush_scheduled.swap(false, Ordering::SeqCst);
        self.is_dirty().then(|| self.flush_due_in(now)).inspect(|wait| {
            if !wait.is_zero() {
                self.flush_scheduled.store(true, Ordering::SeqCst);
            }
        })
    }

    /// What a sync of the commit log that begins now makes durable.
    pub(super) fn about_to_sync(&self) -> Unsynced {
        // The count first: what is counted lies below the end.
        let messages = self.to_flush.load(Ordering::Relaxed);
        Unsynced { end: self.written.load(Ordering::Acquire), messages }
    }

    /// Takes note that it became durable.
    pub(super) fn synced(&self, what: Unsynced) {
        self.mark_visible(what.end);
        self.flushed.fetch_max(what.messages, Ordering::Relaxed);
        self.last_sync_ms.store(self.age_ms(Instant::now()), Ordering::Relaxed);
    }

    /// Lets readers see what lies before `end`, which a crash cannot take back any more, and wakes who waits for it.
    pub(super) fn mark_visible(&self, end: u64) {
        if self.visible.fetch_max(end, Ordering::SeqCst) < end {
            self.waiters.wake();
        }
    }

    /// Wakes who waits for messages, to look at what else has changed.
    pub(super) fn wake_waiters(&self) {
        self.waiters.wake();
    }

    /// Whether messages are there that readers see only after a periodic flush (02 §6).
    pub(super) fn awaits_flush(&self) -> bool {
        !self.is_group_commit() && self.is_dirty()
    }

    /// Whether a reader waits for messages that only a flush makes visible. For whoever has just written: a reader who
    /// begins to wait at the same time sees what was written, or is seen here.
    pub(super) fn is_flush_awaited(&self) -> bool {
        if !self.awaits_flush() {
            return false;
        }
        fence(Ordering::SeqCst);
        self.waiters.any()
    }

    /// Ends writing until a restart: what the kernel holds of the file can no longer be trusted.
    pub(super) fn poison_with(&self, reason: &str) -> AppendError {
        if self.poison.set(Poison { reason: reason.into(), quarantined: false }).is_ok() {
            error!(
                partition = %self.name,
                reason,
                "partition poisoned: it serves what is durable and takes no more messages until a restart"
            );
        }
        self.poison_error()
    }

    /// Ends writing until an operator has decided about messages that are in quarantine.
    pub(super) fn quarantine_with(&self, reason: &str) {
        if self.poison.set(Poison { reason: reason.into(), quarantined: true }).is_ok() {
            error!(
                partition = %self.name,
                reason,
                "partition in quarantine: it serves what is in its segments and takes no more messages"
            );
        }
    }

    pub(super) fn poison_error(&self) -> AppendError {
        let partition = Arc::clone(&self.name);
        match self.poison.get().cloned() {
            Some(Poison { reason, quarantined: true }) => AppendError::Quarantined { partition, reason },
            Some(Poison { reason, quarantined: false }) => AppendError::Poisoned { partition, reason },
            None => {
                let reason = self.shared.log_poison.get().cloned();
                let reason = reason.unwrap_or_else(|| "its messages could not be made durable".into());
                AppendError::Poisoned { partition, reason }
            }
        }
    }

    /// Remembers whether the disk is full and says so once each time that changes.
    pub(super) fn note_full(&self, full: bool) {
        if self.full.load(Ordering::Relaxed) == full {
            return;
        }
        self.full.store(full, Ordering::Relaxed);
        if full {
            warn!(partition = %self.name, dir = %self.dir.display(), "no space left: puts are refused until there is");
        } else {
            info!(partition = %self.name, "there is space again: puts are accepted");
        }
    }
}

/// What waits for a sync of the commit log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unsynced {
    pub(super) end: u64,
    messages: u64,
}

/// Positions are at most 2^63-1: appending and loading refuse what lies beyond.
pub(super) fn offset(position: u64) -> Offset {
    Offset::new(position.cast_signed())
}
