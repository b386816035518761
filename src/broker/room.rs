//! Room for bytes, waited for in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How many bytes one permit stands for: the number of permits that are taken at once has 32 bits.
const UNIT_BYTES: usize = 256;

/// A number of bytes, parts of which can be taken until they are given back.
#[derive(Debug, Clone)]
pub(super) struct Room {
    units: Arc<Semaphore>,
    all: u32,
    waiting: Arc<Waiting>,
}

/// How many wait for room.
#[derive(Debug, Default)]
struct Waiting {
    count: AtomicUsize,
    /// It has become more.
    grown: Notify,
}

impl Room {
    pub(super) fn new(bytes: usize) -> Self {
        let all = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).max(1);
        // A semaphore can hold far more than 2^32 permits.
        Self { units: Arc::new(Semaphore::new(all as usize)), all, waiting: Arc::default() }
    }

    /// Waits until there is room for so many bytes; what is larger than the whole waits until it has it for itself. The
    /// room is given back when the permit is dropped.
    pub(super) async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).min(self.all);
        if let Ok(permit) = Arc::clone(&self.units).try_acquire_many_owned(units) {
            return Some(permit);
        }
        let _waits = Waits::begin(&self.waiting);
        Arc::clone(&self.units).acquire_many_owned(units).await.ok()
    }

    /// Returns when somebody waits for room; at once if that is so.
    pub(super) async fn contended(&self) {
        let grown = self.waiting.grown.notified();
        tokio::pin!(grown);
        // Who begins to wait from here on is not missed.
        grown.as_mut().enable();
        if self.waiting.count.load(Ordering::SeqCst) == 0 {
            grown.await;
        }
    }
}

/// Somebody who waits, also if it gives up.
struct Waits<'a>(&'a Waiting);

impl<'a> Waits<'a> {
    fn begin(waiting: &'a Waiting) -> Self {
        waiting.count.fetch_add(1, Ordering::SeqCst);
        waiting.grown.notify_waiters();
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_contended_while_somebody_waits() {
        let room = Room::new(1000);
        let all = room.take(1000).await;
        tokio::select! {
            _ = room.take(300) => panic!("there is no room"),
            () = room.contended() => {}
        }
        // Who gave up does not count.
        assert_eq!(room.waiting.count.load(Ordering::SeqCst), 0);
        drop(all);
        assert!(room.take(300).await.is_some());
        assert_eq!(room.waiting.count.load(Ordering::SeqCst), 0);
    }

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
