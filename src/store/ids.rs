//! Message ids (02 §15, D7): `(wall clock ms − 1303895660503) << 22 | broker << 12 | sequence`.
//!
//! They ascend whatever the clock does. More than 4 096 in a millisecond, or a clock that steps back, borrow from the
//! milliseconds to come.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::{info, warn};

use super::guard::lock;
use super::id_file::{IdFile, Reserved};
use crate::id::{BrokerId, MessageId};

/// Milliseconds of 1970 at which the time of ids begins.
const EPOCH_MS: u64 = 1_303_895_660_503;
const TIME_SHIFT: u32 = 22;
const BROKER_SHIFT: u32 = 12;
const MAX_SEQUENCE: u64 = (1 << BROKER_SHIFT) - 1;

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
                warn!(path = %path.display(), "the state file of message ids is damaged and will be replaced: ids go on from the clock and the largest id found in the segments");
                0
            }
            Reserved::UpTo(reserved) => reserved,
        };
        let found_ms = found.and_then(|id| u64::try_from(id.get()).ok()).map_or(0, |id| id >> TIME_SHIFT);
        let credible = |ms: u64, source: &str| {
            if ms > MAX_CREDIBLE_MS {
                warn!(source, ms, "a message id lies too far in the future to be believed and is not followed");
                return 0;
            }
            ms
        };
        let floor = credible(from_file, "state file").max(credible(found_ms, "segments"));
        let generator = Self {
            broker: u64::from(broker.get()),
            clock,
            // As if all ids of that millisecond were given out.
            state: Mutex::new(State { last_ms: floor, sequence: MAX_SEQUENCE, reserved_ms: from_file.min(floor) }),
            file: Mutex::new(FileState { file, written_ms: 0, failure: None }),
        };
        let now = generator.now_ms();
        if floor > now + RESERVE_MS {
            warn!(
                ahead_ms = floor - now,
                "the clock is behind the message ids given out before: new ids go on from those"
            );
        }
        generator
    }

    /// The next id.
    pub fn next_id(&self) -> MessageId {
        let mut ids = Vec::with_capacity(1);
        self.draw(1, &mut ids);
        ids.pop().unwrap_or_default()
    }

    /// Appends `count` ascending ids to `out`.
    pub(super) fn draw(&self, count: usize, out: &mut Vec<MessageId>) {
        let now = self.now_ms();
        let mut state = lock(&self.state);
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
        let (last, reserved) = {
            let state = lock(&self.state);
            (state.last_ms, state.reserved_ms)
        };
        // A reservation that was passed belongs to whoever draws next.
        if last <= reserved && last + RESERVE_MS / 2 > reserved {
            let reserve = last + RESERVE_MS;
            self.write(reserve);
            let mut state = lock(&self.state);
            state.reserved_ms = state.reserved_ms.max(reserve);
        }
    }

    /// Gives back what was reserved and not used. No id may be drawn afterwards.
    pub(super) fn settle(&self) {
        let (last, reserved) = {
            let state = lock(&self.state);
            (state.last_ms, state.reserved_ms)
        };
        if last < reserved {
            lock(&self.file).written_ms = 0;
            self.write(last);
        }
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
