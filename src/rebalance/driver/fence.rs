//! Fencing: no deliveries and no commits while the session may be over without our knowing.

use std::time::Duration;

use tokio::time::Instant;

use crate::rebalance::Assignee;

/// Part of the session's time-out after which a lost connection fences. The client notices a silent server within 9/20
/// of the time-out, so this is before the servers can end the session.
fn patience(timeout: Duration) -> Duration {
    timeout / 2
}

/// Whether deliveries are stopped, or when they will be.
#[derive(Debug, Default)]
pub(super) struct Fence {
    pub(super) due: Option<Instant>,
    pub(super) up: bool,
}

impl Fence {
    /// The connection is lost; counted from the first time.
    pub(super) fn disconnected(&mut self, session_timeout: Duration) {
        if !self.up {
            self.due.get_or_insert_with(|| Instant::now() + patience(session_timeout));
        }
    }

    /// The time may be over.
    pub(super) fn tick(&mut self, assignee: &dyn Assignee) {
        if self.due.is_some_and(|due| due <= Instant::now()) {
            self.due = None;
            self.up = true;
            assignee.fence(true);
        }
    }

    /// There is nothing left that could be delivered.
    pub(super) fn session_over(&mut self) {
        self.due = None;
    }

    /// The session is confirmed.
    pub(super) fn connected(&mut self, assignee: &dyn Assignee) {
        self.due = None;
        if std::mem::take(&mut self.up) {
            assignee.fence(false);
        }
    }
}
