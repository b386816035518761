//! Times that a clock can express.

use std::time::Duration;

/// Stands for every longer time: as good as never, and small enough to be added to a point in time, and to itself.
pub(crate) const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// At most [`LONGEST`].
pub(crate) fn bounded(time: Duration) -> Duration {
    time.min(LONGEST)
}
