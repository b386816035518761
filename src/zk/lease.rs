//! How long a session may be taken for granted.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Until when the session of a group's member is known to live, for whoever acts on the strength of it.
///
/// The service lets a session live for its time-out after it was heard last. So an answered call vouches for the session
/// for a while from the moment at which the call was *sent*, whatever becomes of the connection, and of the process: one
/// that stood still finds the time over by its own clock when it goes on, before it hears anything from the service. A call
/// that was sent before it stood still, and is answered afterwards, vouches for nothing.
///
/// Time in which the machine's monotonic clock stands still, as that of a suspended laptop does, is not noticed.
///
/// Clones are the same lease. A look takes two atomic loads and the time.
#[derive(Clone)]
pub struct Lease(Arc<Shared>);

struct Shared {
    origin: Instant,
    /// In nanoseconds after the origin; zero as long as nobody vouches for a session.
    until: AtomicU64,
    /// Counts the sessions that have ended.
    terms: AtomicU64,
    renewed: Notify,
}

/// A lease as far as one session goes: what began in that session does not go on in the next one.
#[derive(Debug, Clone)]
pub struct Term {
    lease: Lease,
    number: u64,
}

impl Lease {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            origin: Instant::now(),
            until: AtomicU64::new(0),
            terms: AtomicU64::new(0),
            renewed: Notify::new(),
        }))
    }

    /// Whether the session is known to live now.
    pub fn holds(&self) -> bool {
        let until = self.0.until.load(Ordering::SeqCst);
        until > 0 && self.after_origin(Instant::now()) < until
    }

    /// For how long the lease has not held, although nobody has [ended](Self::end) it.
    pub fn overdue(&self) -> Option<Duration> {
        let until = self.0.until.load(Ordering::SeqCst);
        let late = self.after_origin(Instant::now()).checked_sub(until)?;
        (until > 0).then(|| Duration::from_nanos(late))
    }

    /// A call that was sent at that time was answered in the session, which vouches for it for so long.
    ///
    /// Only who keeps the member in its group renews and ends.
    pub fn renew(&self, sent: Instant, length: Duration) {
        let until = self.after_origin(sent).saturating_add(nanos(length)).max(1);
        self.0.until.fetch_max(until, Ordering::SeqCst);
        self.0.renewed.notify_one();
    }

    /// The session is over, and nothing is known of the next one.
    pub fn end(&self) {
        self.0.until.store(0, Ordering::SeqCst);
        self.0.terms.fetch_add(1, Ordering::SeqCst);
    }

    /// The present session's.
    pub fn term(&self) -> Term {
        Term { lease: self.clone(), number: self.0.terms.load(Ordering::SeqCst) }
    }

    /// Waits until the lease is renewed, or returns at once if that has happened since the last wait. One can wait at a
    /// time. Cancellation-safe.
    pub async fn renewed(&self) {
        self.0.renewed.notified().await;
    }

    fn after_origin(&self, at: Instant) -> u64 {
        nanos(at.saturating_duration_since(self.0.origin))
    }
}

impl Term {
    /// Whether its session is known to live now.
    pub fn holds(&self) -> bool {
        // In this order: a renewal in the next session comes after the end of this one.
        self.lease.holds() && self.lease.0.terms.load(Ordering::SeqCst) == self.number
    }
}

impl Default for Lease {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("holds", &self.holds()).finish_non_exhaustive()
    }
}

/// Enough for 584 years.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(9);

    #[tokio::test(start_paused = true)]
    async fn a_lease_holds_from_the_moment_at_which_the_call_was_sent() {
        let lease = Lease::new();
        assert!(!lease.holds());
        let sent = Instant::now();
        tokio::time::advance(LENGTH / 3).await;
        assert!(!lease.holds());
        lease.renew(sent, LENGTH);
        assert!(lease.holds());
        tokio::time::advance(LENGTH * 2 / 3 - Duration::from_millis(1)).await;
        assert!(lease.holds() && lease.overdue().is_none());
        tokio::time::advance(Duration::from_millis(2)).await;
        assert!(!lease.holds());
        assert_eq!(lease.overdue(), Some(Duration::from_millis(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_to_what_was_sent_before_the_process_stood_still_vouches_for_nothing() {
        let lease = Lease::new();
        lease.renew(Instant::now(), LENGTH);
        let sent = Instant::now();
        tokio::time::advance(LENGTH * 2).await;
        lease.renew(sent, LENGTH);
        assert!(!lease.holds());
        lease.renew(Instant::now(), LENGTH);
        assert!(lease.holds());
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_answer_takes_nothing_back() {
        let lease = Lease::new();
        let earlier = Instant::now();
        tokio::time::advance(LENGTH / 2).await;
        lease.renew(Instant::now(), LENGTH);
        lease.renew(earlier, LENGTH);
        tokio::time::advance(LENGTH * 3 / 4).await;
        assert!(lease.holds());
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_was_ended_is_not_overdue_and_begins_anew() {
        let lease = Lease::new();
        assert_eq!(lease.overdue(), None);
        lease.renew(Instant::now(), LENGTH);
        lease.end();
        assert!(!lease.holds());
        assert_eq!(lease.overdue(), None);
        lease.renew(Instant::now(), LENGTH);
        assert!(lease.holds());
    }

    #[tokio::test(start_paused = true)]
    async fn what_began_in_a_session_does_not_go_on_in_the_next_one() {
        let lease = Lease::new();
        let first = lease.term();
        lease.renew(Instant::now(), LENGTH);
        assert!(first.holds());
        lease.end();
        lease.renew(Instant::now(), LENGTH);
        assert!(lease.holds() && lease.term().holds());
        assert!(!first.holds());
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_comes_before_the_wait_is_not_missed() {
        let lease = Lease::new();
        lease.renew(Instant::now(), LENGTH);
        lease.renewed().await;
        let again = lease.clone();
        let waits = tokio::spawn(async move { again.renewed().await });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        lease.renew(Instant::now(), LENGTH);
        waits.await.unwrap();
    }
}
