//! What the session's coming and going means for a member (04 §10).

use tokio::time::Instant;
use tracing::info;

use super::task::Task;
use crate::zk::{Session, SessionState};

impl Task {
    /// Takes over the present state of the session, whatever came before it.
    pub(super) async fn follow_session(&mut self) {
        let state = *self.sessions.borrow_and_update();
        match state {
            SessionState::Connected(session) => {
                if self.session.is_none_or(|present| present.id != session.id) {
                    self.end_session().await;
                    self.begin(session);
                }
                if !std::mem::replace(&mut self.connected, true) {
                    // What failed meanwhile need not wait any longer.
                    self.retry_at = self.retry_at.map(|_| Instant::now());
                    self.backoff.reset();
                    self.confirmation.connected();
                }
                self.fence.connected(&*self.assignee);
            }
            SessionState::Disconnected(session) => {
                self.connected = false;
                match self.session {
                    Some(present) if present.id == session.id => self.fence.disconnected(session.timeout),
                    _ => self.end_session().await,
                }
            }
            SessionState::Connecting | SessionState::Expired(_) => self.end_session().await,
            SessionState::Closed => self.coordinator_closed().await,
        }
    }

    /// The coordinator serves nobody any more.
    pub(super) async fn coordinator_closed(&mut self) {
        self.end_session().await;
        self.closed = true;
    }

    fn begin(&mut self, session: Session) {
        self.session = Some(session);
        self.retry_at = None;
    }

    /// Everything is lost: at once for the assignee, then for us. What is under way is broken off; calls that have gone to
    /// the old session die with it.
    async fn end_session(&mut self) {
        self.connected = false;
        let Some(session) = self.session.take() else { return };
        self.lease.end();
        self.confirmation.session_over();
        self.fence.session_over();
        let lost = self.lose_everything();
        if lost > 0 {
            info!(
                group = %self.membership.group, consumer = self.membership.consumer_id, session = %session.id,
                partitions = lost, "zookeeper session is over, all partitions are lost"
            );
        }
        self.operations.shutdown().await;
        self.member.session_over();
        self.watches.clear();
        self.former.push(session.id);
        if self.former.len() > super::task::FORMER_SESSIONS {
            self.former.remove(0);
        }
    }

    /// Tells the assignee what it must not read any more; how much that was.
    pub(super) fn lose_everything(&mut self) -> usize {
        // What was released in time is not ours to take back.
        self.holdings.wanted.clear();
        while let Some(released) = self.releases.try_join_next() {
            self.release_done(released);
        }
        let lost = self.holdings.session_over();
        if !lost.is_empty() {
            self.assignee.lost(&lost);
        }
        lost.len()
    }
}
