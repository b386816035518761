//! Retention: what happens to segments that have not changed for some time (02 §13).

use std::ops::AddAssign;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use super::error::StoreError;
use super::message_store::Store;
use super::partition::PartitionLog;
use super::segment::Segment;

const NS_IN_MS: i64 = 1_000_000;

/// When a segment is expired, and what becomes of it then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// A segment expires when its last change is longer ago than this many milliseconds; below 0, every one is expired.
    pub max_age_ms: i64,
    /// What becomes of it.
    pub disposal: Disposal,
}

/// What becomes of an expired segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposal {
    /// It is removed.
    Remove,
    /// It is renamed to `<name>.arc`.
    Archive,
    /// It is replaced by `<name>.zip`, an archive with a single entry.
    Compress,
}

/// What was done with expired segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Expired {
    /// Segments that were removed.
    pub removed: u64,
    /// Segments that were archived, compressed or not.
    pub archived: u64,
    /// Bytes of all these segments.
    pub segment_bytes: u64,
    /// Bytes by which the files became less; a reader may hold them up for a while.
    pub freed_bytes: u64,
}

impl AddAssign for Expired {
    fn add_assign(&mut self, more: Self) {
        self.removed += more.removed;
        self.archived += more.archived;
        self.segment_bytes += more.segment_bytes;
        self.freed_bytes += more.freed_bytes;
    }
}

impl RetentionPolicy {
    fn is_expired(&self, modified_ns: i64, now_ms: i64) -> bool {
        now_ms.saturating_sub(modified_ns.div_euclid(NS_IN_MS)) > self.max_age_ms
    }
}

impl Store {
    /// Removes or archives the expired segments of a partition, the oldest first: never the last one, nor what is not
    /// visible yet, nor one behind a segment that is not expired, since that would leave a gap. (The reference looks at
    /// every segment for itself, and does not start over the gap that this may leave.) Adds what was done to `done`; it
    /// is durable.
    ///
    /// Readers that hold a segment may go on reading it. Compressing takes its time; no lock is held meanwhile. Ends
    /// early, between two segments or in the middle of compressing one, when `stop` says so.
    ///
    /// # Errors
    /// When a file cannot be removed, renamed or written, or a directory not be synced. The segment in question stays,
    /// or its archive is complete; those before it are done with.
    pub fn expire_segments(
        &self,
        partition: &PartitionLog,
        policy: RetentionPolicy,
        now: SystemTime,
        stop: &dyn Fn() -> bool,
        done: &mut Expired,
    ) -> Result<(), StoreError> {
        let now_ms = now.duration_since(UNIX_EPOCH).map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
        while !stop() {
            if self.is_closed() {
                return Err(StoreError::Closed);
            }
            let visible = partition.visible.load(Ordering::Acquire);
            let segments = partition.segments();
            let [oldest, next, ..] = &segments[..] else { return Ok(()) };
            if next.start_position() > visible || partition.is_deleted() {
                return Ok(());
            }
            let look_failed = |source| StoreError::Io { action: "look at", path: oldest.path().to_path_buf(), source };
            if !policy.is_expired(oldest.file().stamp().map_err(look_failed)?.modified_ns, now_ms) {
                return Ok(());
            }
            let bytes = next.start_position() - oldest.start_position();
            let kept_bytes = match policy.disposal {
                Disposal::Remove => 0,
                Disposal::Archive => {
                    partition.settle_content(next.start_position())?;
                    bytes
                }
                Disposal::Compress => {
                    partition.settle_content(next.start_position())?;
                    match partition.compress(oldest, &|| stop() || partition.is_deleted()) {
                        Ok(Some(archive_bytes)) => archive_bytes,
                        Ok(None) => return Ok(()),
                        // Its directory may be gone.
                        Err(_) if partition.is_deleted() => return Ok(()),
                        Err(error) => return Err(error),
                    }
                }
            };
            let is_it = &mut |segment: &Segment| segment.start_position() == oldest.start_position();
            let removed = match policy.disposal {
                Disposal::Archive => partition.archive_oldest(visible, is_it),
                Disposal::Remove | Disposal::Compress => partition.remove_oldest(visible, is_it),
            }?;
            if removed == 0 {
                // Its directory cannot be synced any more, or it is being deleted.
                return Ok(());
            }
            match policy.disposal {
                Disposal::Remove => done.removed += 1,
                Disposal::Archive | Disposal::Compress => done.archived += 1,
            }
            done.segment_bytes += bytes;
            done.freed_bytes += bytes.saturating_sub(kept_bytes);
        }
        Ok(())
    }
}
