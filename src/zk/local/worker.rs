//! The thread that owns the engine and the journal. What arrives while it waits for the disk shares the next sync.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tracing::{error, warn};

use super::engine::{Engine, Figures, Outgoing, Output};
use super::journal::Journal;
use super::limits::{MAX_ALL_UNSENT_BYTES, MAX_BATCH, MAX_BATCH_BYTES};
use super::outbox::Outbox;
use super::requests::Numbered;
use super::sessions::{ConnectionId, Password};
use super::wire::ConnectRequest;

/// A wake-up or a round that took so much longer than it should is time in which nobody could be heard.
const DEAF_TIME: Duration = Duration::from_millis(500);

/// What was sent meanwhile lies with the connections then, which have to read it first.
const CATCH_UP_TIME: Duration = Duration::from_secs(1);

/// What came so long ago has been heard, however much is waiting.
const BACKLOG_TIME: Duration = Duration::from_secs(2);

/// Longest wait while no session can end.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// Something to do.
#[derive(Debug)]
pub(super) enum Command {
    /// A connection wants a session.
    Connect { id: ConnectionId, request: ConnectRequest, password: Password, outbox: Outbox },
    /// A request; `place` is its place among those in flight, kept until its answer is sent, `room` that of its bytes,
    /// kept until it is carried out.
    Request { id: ConnectionId, request: Numbered, place: OwnedSemaphorePermit, room: OwnedSemaphorePermit },
    /// A connection is gone.
    Gone { id: ConnectionId },
    /// Somebody wants figures.
    Figures { to: oneshot::Sender<Figures> },
}

/// What the thread works with.
#[derive(Debug)]
pub(super) struct Worker {
    engine: Engine,
    journal: Journal,
    outboxes: HashMap<ConnectionId, Outbox>,
    /// What waits for the sync.
    held: Vec<(ConnectionId, Outgoing, Option<OwnedSemaphorePermit>)>,
    /// Bytes of that.
    held_bytes: usize,
    figures: Vec<oneshot::Sender<Figures>>,
}

impl Worker {
    pub(super) fn new(engine: Engine, journal: Journal) -> Self {
        Self { engine, journal, outboxes: HashMap::new(), held: Vec::new(), held_bytes: 0, figures: Vec::new() }
    }

    /// Works until nobody can command it any more, or until the disk fails. Then every connection is closed without
    /// another word: what was not stored is not answered.
    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        let mut listening_since = Instant::now();
        loop {
            let wait = self.engine.wait(listening_since).unwrap_or(IDLE_TIME).min(IDLE_TIME);
            let first = match commands.recv_timeout(wait) {
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let now = Instant::now();
            let late = now.saturating_duration_since(listening_since).saturating_sub(wait);
            self.forgive(late);
            let all_heard = self.take_batch(first, commands);
            let now_or_before = if all_heard { Some(Instant::now()) } else { now.checked_sub(BACKLOG_TIME) };
            if let Some(heard) = now_or_before {
                self.engine.expire(unix_ms(), heard);
                self.hold(None);
            }
            if let Err(error) = self.settle() {
                error!(
                    %error,
                    "the zookeeper of local mode cannot store any more and closes all its connections; messages are \
                     served on. Make room or see to the disk, then restart the broker"
                );
                self.outboxes.values().for_each(Outbox::abort);
                return;
            }
            listening_since = Instant::now();
            self.forgive(listening_since.saturating_duration_since(now));
        }
    }

    fn forgive(&mut self, lost: Duration) {
        if lost > DEAF_TIME {
            self.engine.forgive(lost + CATCH_UP_TIME);
        }
    }

    /// Carries out what has arrived; false if there may be more.
    fn take_batch(&mut self, first: Option<Command>, commands: &Receiver<Command>) -> bool {
        let Some(first) = first else { return true };
        self.take(first);
        for _ in 1..MAX_BATCH {
            if self.engine.unsaved().max(self.held_bytes) >= MAX_BATCH_BYTES {
                return false;
            }
            match commands.try_recv() {
                Ok(command) => self.take(command),
                Err(_) => return true,
            }
        }
        false
    }

    fn take(&mut self, command: Command) {
        let (time, now) = (unix_ms(), Instant::now());
        match command {
            Command::Connect { id, request, password, outbox } => {
                self.outboxes.insert(id, outbox);
                self.engine.connect(id, &request, password, time, now);
                self.hold(None);
            }
            Command::Request { id, request, place, room } => {
                self.engine.handle(id, request, time, now);
                drop(room);
                self.hold(Some((id, place)));
            }
            Command::Gone { id } => {
                self.engine.disconnected(id);
                self.outboxes.remove(&id);
            }
            Command::Figures { to } => self.figures.push(to),
        }
    }

    /// Keeps what the engine says until it is stored; the place goes with the answer.
    fn hold(&mut self, mut place: Option<(ConnectionId, OwnedSemaphorePermit)>) {
        for Output { to, what } in self.engine.take_outputs() {
            let is_answer = matches!(what, Outgoing::Answer(_)) && place.as_ref().is_some_and(|(id, _)| *id == to);
            let place = if is_answer { place.take().map(|(_, place)| place) } else { None };
            self.held_bytes += what.len();
            self.held.push((to, what, place));
        }
    }

    /// Stores what has changed and says what was held back.
    fn settle(&mut self) -> Result<(), super::JournalError> {
        let unsaved = self.engine.take_unsaved();
        if !unsaved.is_empty() {
            self.journal.append(&unsaved)?;
        }
        self.held_bytes = 0;
        for (to, what, place) in self.held.drain(..) {
            let Some(outbox) = self.outboxes.get(&to) else { continue };
            let frame: Bytes = match what {
                Outgoing::Answer(frame) | Outgoing::Event(frame) => frame,
                Outgoing::End => {
                    outbox.end();
                    self.outboxes.remove(&to);
                    continue;
                }
            };
            if !outbox.send(frame, place) {
                warn!(peer = %outbox.peer(), "dropping a zookeeper client that does not take its answers");
                outbox.abort();
                self.outboxes.remove(&to);
            }
        }
        self.limit_unsent();
        if !self.figures.is_empty() {
            let figures = self.engine.figures();
            self.figures.drain(..).for_each(|to| _ = to.send(figures));
        }
        if self.journal.is_long() {
            self.journal.fold(self.engine.state())?;
        }
        Ok(())
    }

    /// Drops the clients with most that waits for them, until what waits for all is within its limit.
    fn limit_unsent(&mut self) {
        let mut unsent: usize = self.outboxes.values().map(Outbox::unsent).sum();
        while unsent > MAX_ALL_UNSENT_BYTES {
            let most = self.outboxes.iter().max_by_key(|(_, outbox)| outbox.unsent()).map(|(id, _)| *id);
            let Some(outbox) = most.and_then(|id| self.outboxes.remove(&id)) else { return };
            unsent = unsent.saturating_sub(outbox.unsent().max(1));
            warn!(
                peer = %outbox.peer(),
                bytes = outbox.unsent(),
                limit = MAX_ALL_UNSENT_BYTES,
                "dropping the zookeeper client that takes its answers least: too much waits for all of them"
            );
            outbox.abort();
        }
    }
}

/// Milliseconds since 1970, as nodes carry it.
fn unix_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
