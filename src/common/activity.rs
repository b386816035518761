//! When a connection last moved a byte.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Clock of one connection's last read or write.
#[derive(Debug)]
pub(crate) struct Activity {
    start: Instant,
    last_ms: AtomicU64,
}

impl Activity {
    /// A connection that was active just now.
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), last_ms: AtomicU64::new(0) }
    }

    /// Notes that something was read or written.
    pub(crate) fn note(&self) {
        self.last_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// How long nothing was read or written.
    #[cfg(feature = "broker")]
    pub(crate) fn idle(&self) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(self.last_ms.load(Ordering::Relaxed)))
    }

    /// Returns once nothing was read or written for `timeout`; never for a time-out of zero.
    pub(crate) async fn idle_for(&self, timeout: Duration) {
        if timeout.is_zero() {
            return std::future::pending().await;
        }
        loop {
            let idle_since = self.start + Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
            let Some(deadline) = idle_since.checked_add(timeout) else { return std::future::pending().await };
            if deadline <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(deadline).await;
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn every_byte_puts_the_end_off() {
        let activity = Activity::new();
        let start = Instant::now();
        let watch = async {
            activity.idle_for(Duration::from_secs(10)).await;
            start.elapsed().as_secs()
        };
        let traffic = async {
            tokio::time::sleep(Duration::from_secs(7)).await;
            activity.note();
        };
        assert_eq!(tokio::join!(watch, traffic).0, 17);
    }
}
