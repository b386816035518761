//! What a message of an end-to-end run begins with: the run it belongs to and when it was sent.

use std::time::{Duration, Instant};

/// Bytes of a stamp.
pub(super) const STAMP_LEN: usize = 16;

/// The begin of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// A random number, the same in all messages of a run.
    pub(super) run: u64,
    pub(super) at: Instant,
}

impl Stamp {
    /// Overwrites the begin of a payload, if it is long enough; the time counts from `begun`.
    pub(super) fn write(self, payload: &mut [u8], begun: Instant) {
        let nanos = u64::try_from(self.at.saturating_duration_since(begun).as_nanos()).unwrap_or(u64::MAX);
        if let Some((run, rest)) = payload.split_first_chunk_mut()
            && let Some(at) = rest.first_chunk_mut()
        {
            *run = self.run.to_be_bytes();
            *at = nanos.to_be_bytes();
        }
    }

    pub(super) fn read(payload: &[u8], begun: Instant) -> Option<Self> {
        let (run, rest) = payload.split_first_chunk()?;
        let at = begun.checked_add(Duration::from_nanos(u64::from_be_bytes(*rest.first_chunk()?)))?;
        Some(Self { run: u64::from_be_bytes(*run), at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let begun = Instant::now();
        let stamp = Stamp { run: 0x0123_4567_89ab_cdef, at: begun + Duration::from_nanos(1_234_567_891) };
        let mut payload = *b"letters and more";
        stamp.write(&mut payload, begun);
        assert_eq!(Stamp::read(&payload, begun), Some(stamp));
        assert_eq!(Stamp::read(&payload[..STAMP_LEN - 1], begun), None);
    }
}
