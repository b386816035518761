//! Keeps a factory's view of the brokers fresh.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tracing::debug;

use super::connections::Connections;
use super::directory::Directory;
use super::events::{ClientEvent, Events};
use crate::zk::SessionState;

/// Shortest time between two looks at all brokers.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// What [`keep_up`] looks after.
pub(super) struct Upkeep {
    pub(super) sessions: watch::Receiver<SessionState>,
    pub(super) directory: Arc<Directory>,
    pub(super) connections: Arc<Connections>,
    pub(super) events: Events,
    pub(super) brokers_changed: Arc<Notify>,
}

/// Tells of ZooKeeper's session, and closes connections to addresses that no broker has any more. Runs until it is
/// dropped or the session is closed.
pub(super) async fn keep_up(mut upkeep: Upkeep) {
    let mut told = Told::default();
    let mut looked = None;
    let mut look = false;
    loop {
        let state = *upkeep.sessions.borrow_and_update();
        if state == SessionState::Closed {
            return;
        }
        for event in told.next(state) {
            if event == ClientEvent::SessionExpired {
                // Whatever was watched may change unseen from now on.
                upkeep.directory.changed();
                look = true;
            }
            upkeep.events.emit(event);
        }
        let pause = async {
            if let Some(at) = looked {
                tokio::time::sleep_until(at + LOOK_PAUSE).await;
            }
        };
        tokio::select! {
            changed = upkeep.sessions.changed() => if changed.is_err() { return },
            () = upkeep.brokers_changed.notified() => look = true,
            // Nothing can be read without a session.
            () = pause, if look && state.connected().is_some() => {
                look = false;
                match upkeep.directory.in_use().await {
                    Ok(in_use) => upkeep.connections.retain(&in_use),
                    // With the next change or session it is looked at again.
                    Err(error) => debug!(%error, "addresses of brokers are not known for sure, keeping connections"),
                }
                looked = Some(tokio::time::Instant::now());
            }
        }
    }
}

/// What was told of ZooKeeper's sessions.
#[derive(Debug, Default)]
struct Told {
    /// The session that was told to be there.
    generation: Option<u64>,
    /// Its connection was told to be lost.
    disconnected: bool,
}

impl Told {
    /// What is to be told of a state. States may be skipped; the end of a session is told all the same.
    fn next(&mut self, state: SessionState) -> Vec<ClientEvent> {
        let mut events = Vec::new();
        let session = match state {
            SessionState::Connected(session) | SessionState::Disconnected(session) => Some(session.generation),
            _ => None,
        };
        if self.generation.is_some() && self.generation != session {
            *self = Self::default();
            events.push(ClientEvent::SessionExpired);
        }
        match state {
            SessionState::Connected(session) if self.generation.is_none() || self.disconnected => {
                *self = Self { generation: Some(session.generation), disconnected: false };
                events.push(ClientEvent::SessionConnected);
            }
            SessionState::Disconnected(session) if !self.disconnected => {
                *self = Self { generation: Some(session.generation), disconnected: true };
                events.push(ClientEvent::SessionDisconnected);
            }
            _ => {}
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zk::{Session, SessionId};

    #[test]
    fn the_end_of_a_session_is_told_also_when_its_state_was_skipped() {
        use ClientEvent::{SessionConnected, SessionDisconnected, SessionExpired};
        let session = |generation| Session { id: SessionId(1), generation, timeout: Duration::from_secs(4) };
        let mut told = Told::default();
        for (state, events) in [
            (SessionState::Connecting, vec![]),
            (SessionState::Connected(session(1)), vec![SessionConnected]),
            (SessionState::Connected(session(1)), vec![]),
            (SessionState::Disconnected(session(1)), vec![SessionDisconnected]),
            (SessionState::Disconnected(session(1)), vec![]),
            (SessionState::Connected(session(1)), vec![SessionConnected]),
            (SessionState::Connected(session(2)), vec![SessionExpired, SessionConnected]),
            (SessionState::Connecting, vec![SessionExpired]),
            (SessionState::Connected(session(3)), vec![SessionConnected]),
            (SessionState::Expired(session(3)), vec![SessionExpired]),
            (SessionState::Connecting, vec![]),
        ] {
            assert_eq!(told.next(state), events, "{state:?}");
        }
    }
}
