//! Sessions: who may take up which one again, and when one that is silent ends.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use super::limits::SESSION_TIMEOUT_MS;

/// Bytes of a session's password.
pub(super) const PASSWORD_BYTES: usize = 16;

/// What proves that a session is one's own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Password([u8; PASSWORD_BYTES]);

impl Password {
    pub(super) fn new(bytes: [u8; PASSWORD_BYTES]) -> Self {
        Self(bytes)
    }

    /// `None` if it is not of the length of a password.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// A connection, by its number in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ConnectionId(pub(super) u64);

/// One session.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) password: Password,
    /// Milliseconds.
    pub(super) timeout_ms: i32,
    /// The connection that it has at present.
    pub(super) connection: Option<ConnectionId>,
    deadline: Instant,
}

/// All sessions, by their ids.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    sessions: HashMap<i64, Session>,
    /// No session ends before.
    next_check: Option<Instant>,
}

/// The time-out that a client gets which asks for another, in milliseconds.
pub(super) fn granted(timeout_ms: i32) -> i32 {
    timeout_ms.clamp(*SESSION_TIMEOUT_MS.start(), *SESSION_TIMEOUT_MS.end())
}

fn duration(timeout_ms: i32) -> Duration {
    Duration::from_millis(u64::from(timeout_ms.unsigned_abs()))
}

impl Sessions {
    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(super) fn get(&self, id: i64) -> Option<&Session> {
        self.sessions.get(&id)
    }

    /// In no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, &Session)> {
        self.sessions.iter().map(|(id, session)| (*id, session))
    }

    /// Begins a session without a connection.
    pub(super) fn open(&mut self, id: i64, password: Password, timeout_ms: i32, now: Instant) {
        let deadline = now + duration(timeout_ms);
        self.sessions.insert(id, Session { password, timeout_ms, connection: None, deadline });
        self.note(deadline);
    }

    /// Ends a session; its last connection, if it has one.
    pub(super) fn close(&mut self, id: i64) -> Option<ConnectionId> {
        self.sessions.remove(&id)?.connection
    }

    /// Gives a session another connection and time-out; the connection that it had before.
    pub(super) fn attach(
        &mut self,
        id: i64,
        connection: ConnectionId,
        timeout_ms: i32,
        now: Instant,
    ) -> Option<ConnectionId> {
        let session = self.sessions.get_mut(&id)?;
        session.timeout_ms = timeout_ms;
        session.deadline = now + duration(timeout_ms);
        let (before, deadline) = (session.connection.replace(connection), session.deadline);
        self.note(deadline);
        before
    }

    /// The connection of a session is gone; the session goes on until its time-out.
    pub(super) fn detach(&mut self, id: i64, connection: ConnectionId) {
        if let Some(session) = self.sessions.get_mut(&id)
            && session.connection == Some(connection)
        {
            session.connection = None;
        }
    }

    /// Something was heard of a session.
    pub(super) fn touch(&mut self, id: i64, now: Instant) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.deadline = now + duration(session.timeout_ms);
        }
    }

    /// Time in which nobody listened does not count as silence.
    pub(super) fn forgive(&mut self, lost: Duration) {
        self.sessions.values_mut().for_each(|session| session.deadline += lost);
    }

    /// How long to wait until the next session may be over.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.next_check.map(|next| next.saturating_duration_since(now))
    }

    /// The sessions that are over, in the order of their ids. They stay until they are closed.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<i64> {
        if self.next_check.is_none_or(|next| now < next) {
            return Vec::new();
        }
        let is_over = |session: &Session| session.deadline <= now;
        let mut over: Vec<_> = self.iter().filter(|(_, session)| is_over(session)).map(|(id, _)| id).collect();
        over.sort_unstable();
        self.next_check = self.sessions.values().filter(|session| !is_over(session)).map(|s| s.deadline).min();
        over
    }

    fn note(&mut self, deadline: Instant) {
        self.next_check = Some(self.next_check.map_or(deadline, |next| next.min(deadline)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWORD: Password = Password([7; PASSWORD_BYTES]);

    #[test]
    fn a_session_ends_when_it_was_silent_for_its_time_out_and_not_before() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut sessions = Sessions::default();
        assert_eq!(sessions.wait(start), None);
        sessions.open(1, PASSWORD, 2_000, start);
        sessions.open(2, PASSWORD, 3_000, start);
        sessions.touch(1, at(1_500));
        assert_eq!(sessions.wait(start), Some(Duration::from_secs(2)));
        assert_eq!(sessions.expired(at(2_000)), Vec::<i64>::new());
        assert_eq!(sessions.expired(at(2_999)), Vec::<i64>::new());
        assert_eq!(sessions.expired(at(3_000)), [2]);
        sessions.close(2);
        sessions.forgive(Duration::from_millis(100));
        assert_eq!(sessions.expired(at(3_599)), Vec::<i64>::new());
        assert_eq!(sessions.expired(at(3_600)), [1]);
    }

    #[test]
    fn a_connection_that_is_gone_leaves_a_later_one_alone() {
        let now = Instant::now();
        let mut sessions = Sessions::default();
        sessions.open(1, PASSWORD, 2_000, now);
        assert_eq!(sessions.attach(1, ConnectionId(1), 4_000, now), None);
        assert_eq!(sessions.attach(1, ConnectionId(2), 4_000, now), Some(ConnectionId(1)));
        sessions.detach(1, ConnectionId(1));
        assert_eq!(sessions.close(1), Some(ConnectionId(2)));
    }
}
