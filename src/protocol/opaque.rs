//! Correlation ids (01 §2.5).

use std::fmt;
use std::sync::atomic::{AtomicI32, Ordering};

/// Correlates a response with its request on one connection; echoed unchanged by the peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Opaque(i32);

impl Opaque {
    /// What `version`, `stats` and `quit` carry that were sent without one.
    pub const ABSENT: Self = Self(i32::MAX);

    /// Takes any number; the whole signed range is in use.
    pub const fn new(value: i32) -> Self {
        Self(value)
    }

    /// The bare number.
    pub const fn get(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Opaque {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Source of the opaques of one connection, in the reference's order: from the smallest number upwards, and from there
/// again shortly before [`Opaque::ABSENT`] would come.
#[derive(Debug)]
pub struct OpaqueGenerator(AtomicI32);

/// The reference starts over when it has reached this number.
const TURNING_POINT: i32 = i32::MAX - 10;

impl OpaqueGenerator {
    /// A generator at its start.
    pub const fn new() -> Self {
        Self(AtomicI32::new(i32::MIN))
    }

    /// The next opaque.
    pub fn next(&self) -> Opaque {
        let step = |value: i32| if value >= TURNING_POINT { i32::MIN } else { value + 1 };
        let mut current = self.0.load(Ordering::Relaxed);
        loop {
            match self.0.compare_exchange_weak(current, step(current), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(value) => return Opaque(value),
                Err(actual) => current = actual,
            }
        }
    }
}

impl Default for OpaqueGenerator {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opaques_start_at_the_smallest_number_and_never_reach_the_absent_one() {
        let generator = OpaqueGenerator::new();
        assert_eq!(generator.next().get(), i32::MIN);
        assert_eq!(generator.next().get(), i32::MIN + 1);

        let late = OpaqueGenerator(AtomicI32::new(TURNING_POINT));
        assert_eq!(late.next().get(), 2_147_483_637);
        assert_eq!(late.next().get(), i32::MIN);
    }
}
