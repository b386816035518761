//! Confirming the session, so that deliveries and commits may begin on the strength of it.
//!
//! A process that stood still does not know at once how long that was, and [`Fence`](super::fence) hears of a session only
//! through the client that stood still as well. What may begin therefore looks at a [`Lease`](crate::zk::Lease), which
//! answered calls renew, and which is over by itself.

use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, warn};

use super::task::{Done, Task};
use crate::zk::CoordinatorError;

/// For how long an answered call vouches for the session. The servers keep that for a whole time-out after the call: the
/// rest is for what has begun just before the end.
fn length(session_timeout: Duration) -> Duration {
    session_timeout * 3 / 4
}

/// Between two calls: a few may be lost, and a busy machine may be late, before anything waits for the next answer.
fn period(session_timeout: Duration) -> Duration {
    session_timeout / 6
}

/// Between a call that failed while connected and the next one.
const AGAIN: Duration = Duration::from_millis(200);

/// When the session is confirmed next.
#[derive(Debug, Default)]
pub(super) struct Confirmation {
    pub(super) due: Option<Instant>,
    is_running: bool,
}

impl Confirmation {
    /// The session has begun, or its connection is back.
    pub(super) fn connected(&mut self) {
        self.due = Some(Instant::now());
    }

    /// Nothing can be confirmed.
    pub(super) fn session_over(&mut self) {
        *self = Self::default();
    }

    /// When a call is to be sent.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.filter(|_| !self.is_running)
    }
}

impl Task {
    /// Sends the call that is due.
    pub(super) fn start_confirming(&mut self) {
        if self.confirmation.next().is_none_or(|due| due > Instant::now()) {
            return;
        }
        let Some(nodes) = self.nodes() else { return };
        self.confirmation.is_running = true;
        self.operations.spawn(async move {
            let sent = Instant::now();
            Done::Confirmed { sent, result: nodes.confirm().await }
        });
    }

    /// A call has ended that was sent at that time.
    pub(super) fn confirmed(&mut self, sent: Instant, result: Result<(), CoordinatorError>) {
        self.confirmation.is_running = false;
        let Some(session) = self.session else { return };
        match result {
            Ok(()) => {
                let overdue = self.lease.overdue();
                self.lease.renew(sent, length(session.timeout));
                if let Some(overdue) = overdue.filter(|_| self.lease.holds()) {
                    warn!(
                        group = %self.membership.group, consumer = self.membership.consumer_id, session = %session.id,
                        overdue_ms = overdue.as_millis(),
                        "the session is confirmed after the process stood still or zookeeper was silent; no delivery and \
                         no commit began meanwhile"
                    );
                }
                self.confirmation.due = Some(sent + period(session.timeout));
            }
            Err(error) => {
                debug!(group = %self.membership.group, %error, "the session is not confirmed");
                self.confirmation.due = Some(Instant::now() + AGAIN);
            }
        }
    }
}
