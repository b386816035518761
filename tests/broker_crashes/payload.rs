//! Payloads that tell by themselves who sent them and whether they are whole.

use std::ops::RangeInclusive;

/// What makes a payload unlike every other one, unless it is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Marker {
    /// Who sent it.
    pub(crate) client: u64,
    /// Which of the client's messages it is.
    pub(crate) number: u64,
    /// Bytes of the payload.
    pub(crate) size: u64,
}

/// Bytes of an encoded marker, the smallest payload that is not empty.
const MARKER_BYTES: usize = 24;

/// A record of 64 KiB or more does not go through the commit log. A record's header has 20 bytes.
const LARGE: usize = 64 * 1024 - 20;

impl Marker {
    /// The payload: the marker again and again; nothing for a size that cannot hold it once.
    pub(crate) fn payload(self) -> Vec<u8> {
        let size = usize::try_from(self.size).unwrap();
        if size < MARKER_BYTES {
            return Vec::new();
        }
        let once = [self.client, self.number, self.size].map(u64::to_be_bytes).concat();
        let mut payload = once.repeat(size.div_ceil(MARKER_BYTES));
        payload.truncate(size);
        payload
    }

    /// The marker of a payload; `None` for the empty one.
    ///
    /// # Panics
    ///
    /// If the payload is not one that [`payload`](Self::payload) gives.
    #[track_caller]
    pub(crate) fn of(payload: &[u8]) -> Option<Self> {
        if payload.is_empty() {
            return None;
        }
        let field = |i: usize| u64::from_be_bytes(payload[8 * i..8 * i + 8].try_into().unwrap());
        let marker = Self { client: field(0), number: field(1), size: field(2) };
        assert_eq!(marker.size, payload.len() as u64, "bytes of the payload of {marker:?}");
        assert!(marker.payload() == payload, "the payload of {marker:?} is damaged");
        Some(marker)
    }
}

/// A size from all ranges that are treated differently.
pub(crate) fn random_size(random: &mut fastrand::Rng) -> u64 {
    let mut within = |range: RangeInclusive<usize>| random.usize(range);
    let size = match within(0..=99) {
        0..10 => 0,
        10..50 => within(MARKER_BYTES..=200),
        50..85 => within(200..=4096),
        85..95 => within(4096..=LARGE - 1),
        95..97 => LARGE - 1,
        97..98 => LARGE,
        _ => within(LARGE..=300_000),
    };
    size as u64
}
