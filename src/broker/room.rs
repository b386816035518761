//! Room for bytes, waited for in turn.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many bytes one permit stands for: the number of permits that are taken at once has 32 bits.
const UNIT_BYTES: usize = 256;

/// A number of bytes, parts of which can be taken until they are given back.
#[derive(Debug, Clone)]
pub(super) struct Room {
    units: Arc<Semaphore>,
    all: u32,
}

impl Room {
    pub(super) fn new(bytes: usize) -> Self {
        let all = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).max(1);
        // A semaphore can hold far more than 2^32 permits.
        Self { units: Arc::new(Semaphore::new(all as usize)), all }
    }

    /// Waits until there is room for so many bytes; what is larger than the whole waits until it has it for itself. The
    /// room is given back when the permit is dropped.
    pub(super) async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).min(self.all);
        Arc::clone(&self.units).acquire_many_owned(units).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_larger_than_the_room_has_it_for_itself() {
        let room = Room::new(1000);
        let all = room.take(1 << 40).await;
        assert_eq!(room.units.available_permits(), 0);
        drop(all);
        let half = room.take(500).await;
        assert!(room.units.available_permits() > 0);
        drop(half);
        assert_eq!(room.units.available_permits(), room.all as usize);
    }
}
