//! Answers that clients have not taken yet: a limit of their memory over all connections.
//!
//! Each connection has a limit of its own, but ten thousand of them do not fit into any machine. When all together have
//! used up theirs, a connection with much unsent is not read any further; one with little goes on as ever, so that
//! whoever takes its answers never notices. If that does not help within some time, the connection that holds most and
//! takes nothing is closed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::common::activity::Activity;
use crate::common::guard::lock;

/// What each connection may have unsent however little room there is: requests that are answered one by one never wait.
const ALWAYS_BYTES: usize = 64 << 10;

/// A client that has taken nothing for so long, while others wait for room, has no claim to it any more.
const PATIENCE: Duration = Duration::from_secs(5);

/// The unsent answers of all connections.
#[derive(Debug)]
pub(super) struct Unsent {
    limit: usize,
    used: AtomicUsize,
    freed: Notify,
    shares: Mutex<HashMap<u64, Arc<Share>>>,
    next_number: AtomicU64,
}

/// Those of one connection.
#[derive(Debug)]
pub(super) struct Share {
    used: AtomicUsize,
    activity: Activity,
    cut: Notify,
}

/// The place of a connection among the others, until it is dropped.
#[derive(Debug)]
pub(super) struct UnsentOf {
    all: Arc<Unsent>,
    share: Arc<Share>,
    number: u64,
}

/// Bytes that are unsent until this is dropped.
#[derive(Debug)]
pub(super) struct UnsentBytes {
    all: Arc<Unsent>,
    share: Arc<Share>,
    bytes: usize,
}

impl Unsent {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        let (used, next_number) = (AtomicUsize::new(0), AtomicU64::new(0));
        Arc::new(Self { limit, used, freed: Notify::new(), shares: Mutex::default(), next_number })
    }

    /// Bytes of all connections.
    pub(super) fn bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// For one more connection.
    pub(super) fn join(self: &Arc<Self>) -> UnsentOf {
        let share = Share { used: AtomicUsize::new(0), activity: Activity::new(), cut: Notify::new() };
        let share = Arc::new(share);
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        self.shares().insert(number, Arc::clone(&share));
        UnsentOf { all: Arc::clone(self), share, number }
    }

    fn is_used_up(&self) -> bool {
        self.bytes() > self.limit
    }

    /// Asks the connection to end that has most unsent among those that take nothing.
    fn cut_one(&self) {
        let shares = self.shares();
        let stuck = shares.values().filter(|share| share.bytes() > ALWAYS_BYTES && share.activity.idle() >= PATIENCE);
        if let Some(worst) = stuck.max_by_key(|share| share.bytes()) {
            worst.cut.notify_one();
        }
    }

    fn shares(&self) -> MutexGuard<'_, HashMap<u64, Arc<Share>>> {
        lock(&self.shares)
    }
}

impl Share {
    fn bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl UnsentOf {
    /// When the connection last moved a byte.
    pub(super) fn activity(&self) -> &Activity {
        &self.share.activity
    }

    /// Counts bytes of an answer that was queued.
    pub(super) fn count(&self, bytes: usize) -> UnsentBytes {
        self.all.used.fetch_add(bytes, Ordering::Relaxed);
        self.share.used.fetch_add(bytes, Ordering::Relaxed);
        UnsentBytes { all: Arc::clone(&self.all), share: Arc::clone(&self.share), bytes }
    }

    /// Waits until the connection may cause further answers.
    pub(super) async fn room(&self) {
        // Others give and take all the time, which is no reason to begin anew.
        let mut patience = Instant::now() + PATIENCE;
        while self.must_wait() {
            let freed = self.all.freed.notified();
            tokio::pin!(freed);
            // What is freed from here on is not missed.
            freed.as_mut().enable();
            if self.must_wait() && timeout_at(patience, freed).await.is_err() {
                self.all.cut_one();
                patience = Instant::now() + PATIENCE;
            }
        }
    }

    fn must_wait(&self) -> bool {
        self.all.is_used_up() && self.share.bytes() > ALWAYS_BYTES
    }

    /// Returns, with what is unsent, when the connection has to make room for others.
    pub(super) async fn cut(&self) -> usize {
        self.share.cut.notified().await;
        self.share.bytes()
    }
}

impl Drop for UnsentOf {
    fn drop(&mut self) {
        self.all.shares().remove(&self.number);
    }
}

impl Drop for UnsentBytes {
    fn drop(&mut self) {
        self.share.used.fetch_sub(self.bytes, Ordering::Relaxed);
        let before = self.all.used.fetch_sub(self.bytes, Ordering::Relaxed);
        // Also for who waits because of its own share alone.
        if before > self.all.limit {
            self.all.freed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_has_little_unsent_never_waits_and_who_has_much_waits_until_there_is_room() {
        let all = Unsent::new(1 << 20);
        let (greedy, modest) = (all.join(), all.join());
        let held = greedy.count(2 << 20);
        let _little = modest.count(ALWAYS_BYTES);
        modest.room().await;
        let wait = async {
            greedy.room().await;
            assert_eq!(all.bytes(), ALWAYS_BYTES);
        };
        let free = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(held);
        };
        tokio::join!(wait, free);
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_holds_most_and_takes_nothing_has_to_go() {
        let all = Unsent::new(1 << 20);
        let (worst, busy, waiting) = (all.join(), all.join(), all.join());
        let held = worst.count(3 << 20);
        let _busy = busy.count(9 << 20);
        let _little = waiting.count(1 << 20);
        let serve = async {
            assert_eq!(worst.cut().await, 3 << 20);
            drop((held, worst));
        };
        let keep_busy = async {
            loop {
                busy.activity().note();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            () = serve => {}
            _ = busy.cut() => panic!("it takes its answers"),
            () = keep_busy => {}
            () = waiting.room() => panic!("there is no room yet"),
        }
        assert_eq!(all.bytes(), 10 << 20);
        assert_eq!(all.shares().len(), 2);
    }
}
