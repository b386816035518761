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
    let mut generation = 0;
    let mut told = None;
    let mut looked = None;
    let mut look = false;
    loop {
        let state = *upkeep.sessions.borrow_and_update();
        let event = match state {
            SessionState::Connected(_) => Some(ClientEvent::SessionConnected),
            SessionState::Disconnected(_) => Some(ClientEvent::SessionDisconnected),
            SessionState::Expired(_) => Some(ClientEvent::SessionExpired),
            SessionState::Connecting => None,
            SessionState::Closed => return,
        };
        if let Some(event) = event.filter(|event| told.as_ref() != Some(event)) {
            told = Some(event.clone());
            upkeep.events.emit(event);
        }
        if let Some(session) = state.connected().filter(|session| session.generation > generation) {
            // Whatever was watched in the last session may have changed unseen.
            if generation > 0 {
                upkeep.directory.doubt_all();
                look = true;
            }
            generation = session.generation;
        }
        let pause = async {
            match looked {
                Some(at) => tokio::time::sleep_until(at + LOOK_PAUSE).await,
                None => {}
            }
        };
        tokio::select! {
            changed = upkeep.sessions.changed() => if changed.is_err() { return },
            () = upkeep.brokers_changed.notified() => look = true,
            () = pause, if look => {
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
