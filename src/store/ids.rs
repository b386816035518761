//! Message ids (02 §15): `(wall clock ms − 1303895660503) << 22 | broker << 12 | sequence`.
//!
//! They ascend whatever the clock does. More than 4 096 in a millisecond, or a clock that steps back, borrow from the
//! milliseconds to come.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::{info, warn};

use super::id_file::{IdFile, Reserved};
use crate::common::guard::lock;
use crate::id::{BrokerId, MessageId};

/// Milliseconds of 1970 at which the time of ids begins.
const EPOCH_MS: u64 = 1_303_895_660_503;
const TIME_SHIFT: u32 = 22;
const BROKER_SHIFT: u32 = 12;
const MAX_SEQUENCE: u64 = (1 << BROKER_SHIFT) - 1;

/// How far ids may run ahead of the clock without a warning. Each kill puts them ahead by what was reserved, so a few in a
/// row are no reason to look at the clock.
const AHEAD_WARNING_MS: u64 = 10 * 60 * 1000;

/// The state file is written this far ahead of the ids given out, hence at most once in half this time.
const RESERVE_MS: u64 = 10_000;

/// Times beyond this one, about ten years before ids turn negative, are a broken clock or a damaged header (a checksum
/// does not cover the id) and are not followed.
const MAX_CREDIBLE_MS: u64 = (1 << 41) - 10 * 366 * 86_400_000;

/// Tells the milliseconds since 1970.
pub(super) type WallClock = Box<dyn Fn() -> u64 + Send + Sync>;

/// Gives out message ids; shared by everything in the broker that stores messages.
pub struct IdGenerator {
    broker: u64,
    clock: WallClock,
    state: Mutex<State>,
    /// Taken after `state`, or alone.
    file: Mutex<FileState>,
}

#[derive(Debug)]
struct State {
    /// Millisecond and sequence of the last id.
    last_ms: u64,
    sequence: u64,
    /// The state file covers ids up to this millisecond.
    reserved_ms: u64,
    /// An id was given out since the start.
    drawn: bool,
}

#[derive(Debug)]
struct FileState {
    file: IdFile,
    written_ms: u64,
    failure: Option<String>,
}

impl fmt::Debug for IdGenerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdGenerator").field("state", &self.state).finish_non_exhaustive()
    }
}

impl IdGenerator {
    /// Goes on behind what the state file reserved and behind the largest id found on disk.
    pub(super) fn new(
        broker: BrokerId,
        file: IdFile,
        reserved: Reserved,
        found: Option<MessageId>,
        clock: WallClock,
    ) -> Self {
        let path = file.path();
        let from_file = match reserved {
            Reserved::Missing => 0,
            Reserved::Damaged => {
                warn!(
                    path = %path.display(),
                    "the state file of message ids is damaged and will be replaced: ids go on from the clock and the \
                     largest id found in the segments"
                );
                0
            }
            Reserved::UpTo(reserved) => reserved.min(MAX_CREDIBLE_MS),
        };
        let floor = from_file.max(found.map_or(0, id_ms));
        let generator = Self {
            broker: u64::from(broker.get()),
            clock,
            // As if all ids of that millisecond were given out.
            state: Mutex::new(State { last_ms: floor, sequence: MAX_SEQUENCE, reserved_ms: from_file, drawn: false }),
            file: Mutex::new(FileState { file, written_ms: 0, failure: None }),
        };
        let now = generator.now_ms();
        if floor > now + AHEAD_WARNING_MS {
            warn!(
                ahead_ms = floor - now,
                "the message ids given out before run ahead of the clock, new ones go on from them: was the clock set back?"
            );
        }
        generator
    }

    /// Goes on behind an id that was found later.
    pub(super) fn raise_above(&self, found: MessageId) {
        let mut state = lock(&self.state);
        let floor = id_ms(found);
        if floor >= state.last_ms {
            (state.last_ms, state.sequence) = (floor, MAX_SEQUENCE);
        }
    }

    /// The next id.
    pub fn next_id(&self) -> MessageId {
        let mut ids = Vec::with_capacity(1);
        self.draw(1, &mut ids);
        ids.pop().unwrap_or_default()
    }

    /// Appends `count` ascending ids to `out`.
    pub(super) fn draw(&self, count: usize, out: &mut Vec<MessageId>) {
        if count == 0 {
            return;
        }
        let now = self.now_ms();
        let mut state = lock(&self.state);
        state.drawn = true;
        out.extend((0..count).map(|_| {
            (state.last_ms, state.sequence) = match (state.last_ms, state.sequence) {
                (last, _) if now > last => (now, 0),
                (last, MAX_SEQUENCE) => (last + 1, 0),
                (last, sequence) => (last, sequence + 1),
            };
            let id = state.last_ms << TIME_SHIFT | self.broker << BROKER_SHIFT | state.sequence;
            MessageId::new(id.cast_signed())
        }));
        if state.last_ms > state.reserved_ms {
            // The first ids after a pause wait for this; in between the reservation is extended in the background.
            let reserve = state.last_ms + RESERVE_MS;
            self.write(reserve);
            // Also after a failure: it is not tried again at once, for ids stay unique as long as the broker runs.
            state.reserved_ms = reserve;
        }
    }

    /// Extends the reservation when half of it is used, without holding up whoever draws.
    pub(super) fn extend_reservation(&self) {
        let Some((last, reserved)) = self.last_and_reserved() else { return };
        if last + RESERVE_MS / 2 > reserved {
            let reserve = last + RESERVE_MS;
            self.write(reserve);
            let mut state = lock(&self.state);
            state.reserved_ms = state.reserved_ms.max(reserve);
        }
    }

    /// Gives back what was reserved and not used. No id may be drawn afterwards.
    pub(super) fn settle(&self) {
        if let Some((last, _)) = self.last_and_reserved() {
            lock(&self.file).written_ms = 0;
            self.write(last);
        }
    }

    /// The last id that was given out, or that ids go on behind.
    pub(super) fn last(&self) -> MessageId {
        let state = lock(&self.state);
        let id = state.last_ms << TIME_SHIFT | self.broker << BROKER_SHIFT | state.sequence;
        MessageId::new(id.cast_signed())
    }

    /// The milliseconds of the last id and of the reservation; `None` before the first id, when there is nothing to
    /// reserve.
    fn last_and_reserved(&self) -> Option<(u64, u64)> {
        let state = lock(&self.state);
        state.drawn.then_some((state.last_ms, state.reserved_ms))
    }

    /// Why the state file cannot be written, if so.
    pub(super) fn failure(&self) -> Option<String> {
        lock(&self.file).failure.clone()
    }

    fn write(&self, reserve_ms: u64) {
        let mut state = lock(&self.file);
        if reserve_ms <= state.written_ms {
            return;
        }
        match state.file.write(reserve_ms) {
            Ok(()) => {
                state.written_ms = reserve_ms;
                if state.failure.take().is_some() {
                    info!(path = %state.file.path().display(), "the state file of message ids is written again");
                }
            }
            Err(error) => {
                let failure = format!(
                    "{} cannot be written ({error}): message ids stay unique while the broker runs; make the file \
                     writable before the next start",
                    state.file.path().display()
                );
                if state.failure.is_none() {
                    warn!(failure, "the state file of message ids cannot be written");
                }
                state.failure = Some(failure);
            }
        }
    }

    fn now_ms(&self) -> u64 {
        (self.clock)().saturating_sub(EPOCH_MS).min(MAX_CREDIBLE_MS)
    }
}

/// The millisecond of an id; 0 if it is negative, as those of brokers on the JVM are, or not to be believed.
fn id_ms(id: MessageId) -> u64 {
    let ms = u64::try_from(id.get()).map_or(0, |id| id >> TIME_SHIFT);
    if ms > MAX_CREDIBLE_MS { 0 } else { ms }
}

/// Whether new ids must lie behind this one. A negative one is below all of them anyway.
pub(super) fn is_followed(id: MessageId) -> bool {
    id_ms(id) > 0
}

/// The clock of the system.
pub(super) fn system_clock() -> WallClock {
    Box::new(|| {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
    })
}

/// A generator over the state file in `dir`.
///
/// # Errors
/// When the file exists and cannot be read.
pub(super) fn open(
    fs: Arc<dyn super::fs::FileSystem>,
    dir: &std::path::Path,
    broker: BrokerId,
    found: Option<MessageId>,
    clock: WallClock,
) -> std::io::Result<IdGenerator> {
    let (file, reserved) = IdFile::open(fs, dir)?;
    Ok(IdGenerator::new(broker, file, reserved, found, clock))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::fs::OsFileSystem;
    use super::*;

    /// 2023-11-14, as milliseconds since 1970.
    const NOW: u64 = 1_700_000_000_000;

    struct Clock(Arc<AtomicU64>);

    impl Clock {
        fn new(ms: u64) -> Self {
            Self(Arc::new(AtomicU64::new(ms)))
        }

        fn set(&self, ms: u64) {
            self.0.store(ms, Ordering::Relaxed);
        }

        fn open(&self, dir: &Path, found: Option<i64>) -> IdGenerator {
            let clock = Arc::clone(&self.0);
            let clock = Box::new(move || clock.load(Ordering::Relaxed));
            let broker = BrokerId::new(5).unwrap();
            open(Arc::new(OsFileSystem), dir, broker, found.map(MessageId::new), clock).unwrap()
        }
    }

    fn reserved(dir: &Path) -> u64 {
        match IdFile::open(Arc::new(OsFileSystem), dir).unwrap().1 {
            Reserved::UpTo(ms) => ms,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_id_has_the_layout_of_the_reference() {
        let dir = tempfile::tempdir().unwrap();
        let ids = Clock::new(NOW).open(dir.path(), None);
        let mut drawn = Vec::new();
        ids.draw(4, &mut drawn);
        assert_eq!(drawn[3].get(), 1_661_382_015_569_645_571, "worker 5, sequence 3");
        assert!(drawn.is_sorted_by(|a, b| b.get() - a.get() == 1));
    }

    #[test]
    fn more_than_4096_in_a_millisecond_borrow_from_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let ids = Clock::new(NOW).open(dir.path(), None);
        let mut drawn = Vec::new();
        ids.draw(100_000, &mut drawn);
        assert!(drawn.is_sorted_by(|a, b| a < b));
        assert!(drawn.iter().all(|id| (id.get() >> BROKER_SHIFT) & 0x3ff == 5));
        let first = drawn[0].get() >> TIME_SHIFT;
        assert_eq!(drawn[99_999].get() >> TIME_SHIFT, first + 100_000 / 4096);
        assert!(reserved(dir.path()) > (drawn[99_999].get() >> TIME_SHIFT).cast_unsigned());
    }

    #[test]
    fn ids_ascend_over_clock_steps_crashes_and_stops() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::new(NOW);
        let mut last = MessageId::default();
        for _ in 0..60 {
            let ids = clock.open(dir.path(), None);
            for _ in 0..rng.u32(0..10) {
                clock.set(NOW + rng.u64(0..100_000) - 50_000);
                let mut drawn = vec![last];
                ids.draw(rng.usize(0..6000), &mut drawn);
                assert!(drawn.is_sorted_by(|a, b| a < b));
                last = *drawn.last().unwrap();
                if rng.bool() {
                    ids.extend_reservation();
                }
            }
            if rng.bool() {
                ids.settle();
            }
        }
        assert!(last.get() > 0);
    }

    #[test]
    fn without_a_state_file_the_largest_id_found_counts() {
        let found = 1_661_382_015_569_645_571;
        for state in [None, Some(&b"damaged"[..])] {
            let dir = tempfile::tempdir().unwrap();
            if let Some(state) = state {
                std::fs::write(dir.path().join("ids"), state).unwrap();
            }
            let ids = Clock::new(NOW - 1_000_000).open(dir.path(), Some(found));
            assert!(ids.next_id() > MessageId::new(found));
        }
        let dir = tempfile::tempdir().unwrap();
        let ids = Clock::new(NOW).open(dir.path(), Some(-5_468_931_720_071_852_032));
        assert_eq!(ids.next_id().get(), 1_661_382_015_569_645_568, "negative ids lie below");
    }

    #[test]
    fn a_clock_beyond_belief_or_before_the_epoch_gives_positive_ids() {
        for now in [0, EPOCH_MS - 1, u64::MAX, EPOCH_MS + (1 << 42)] {
            let dir = tempfile::tempdir().unwrap();
            let ids = Clock::new(now).open(dir.path(), Some(-1));
            let (first, second) = (ids.next_id(), ids.next_id());
            assert!(MessageId::new(0) < first && first < second, "{now}: {first}, {second}");
        }
    }

    #[test]
    fn the_state_file_is_written_ahead_and_rarely_and_settled_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::new(NOW);
        let ids = clock.open(dir.path(), None);
        let start = NOW - EPOCH_MS;
        ids.extend_reservation();
        ids.settle();
        assert!(!dir.path().join("ids").exists(), "nothing was given out");
        ids.next_id();
        assert_eq!(reserved(dir.path()), start + RESERVE_MS);
        ids.extend_reservation();
        clock.set(NOW + 4_000);
        ids.next_id();
        ids.extend_reservation();
        assert_eq!(reserved(dir.path()), start + RESERVE_MS);
        clock.set(NOW + 6_000);
        ids.next_id();
        ids.extend_reservation();
        assert_eq!(reserved(dir.path()), start + 6_000 + RESERVE_MS);
        ids.settle();
        assert_eq!(reserved(dir.path()), start + 6_000);
    }

    #[test]
    fn a_state_file_that_cannot_be_written_is_told_and_ids_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::new(NOW);
        let ids = clock.open(dir.path(), None);
        std::fs::remove_dir(dir.path()).unwrap();
        let first = ids.next_id();
        assert!(ids.failure().unwrap().contains("make the file writable"));
        assert!(ids.next_id() > first);
        std::fs::create_dir(dir.path()).unwrap();
        clock.set(NOW + 60_000);
        ids.next_id();
        assert_eq!(ids.failure(), None);
    }
}
