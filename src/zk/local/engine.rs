//! The server without IO: requests come in, answers, events and transactions to store come out.
//!
//! A request is carried out at once; whoever runs the engine holds back everything that it says until the transactions
//! that it has made are durable. So no client ever sees a state that a crash takes back.

mod changing;
mod reading;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tracing::{debug, info, warn};

use super::change::{Change, Transaction};
use super::jute::Writer;
use super::limits::MAX_SESSIONS;
use super::requests::{Numbered, Request};
use super::sessions::{ConnectionId, Password, granted};
use super::state::State;
use super::watches::{Event, TooManyWatches, Watches};
use super::wire::{self, ConnectRequest};

/// Bits of a transaction's number that count within one run of the server.
const COUNTER_BITS: u32 = 32;

/// Something for a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Output {
    pub(super) to: ConnectionId,
    pub(super) what: Outgoing,
}

/// What a connection is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// The answer to a request.
    Answer(Bytes),
    /// A watch that fired.
    Event(Bytes),
    /// Close once everything before is sent.
    End,
}

impl Outgoing {
    /// Bytes of its frame.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Answer(frame) | Self::Event(frame) => frame.len(),
            Self::End => 0,
        }
    }
}

/// What the operator's four-letter words are answered with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) zxid: i64,
    pub(super) nodes: usize,
    pub(super) bytes: usize,
    pub(super) ephemerals: usize,
    pub(super) sessions: usize,
    pub(super) watches: usize,
    pub(super) connections: usize,
}

/// State, watches and connections, and what is to be stored and said.
#[derive(Debug)]
pub(super) struct Engine {
    state: State,
    watches: Watches,
    /// The session of each connection.
    connections: HashMap<ConnectionId, i64>,
    next_zxid: i64,
    unsaved: Writer,
    outputs: Vec<Output>,
}

impl Engine {
    /// Goes on from a stored state, in a run of its own: its transactions have larger numbers than any before, those
    /// included that were lost because nobody was told of them.
    pub(super) fn new(state: State) -> Self {
        let run = (state.zxid >> COUNTER_BITS) + 1;
        let next_zxid = (run << COUNTER_BITS) + 1;
        let (watches, connections) = (Watches::default(), HashMap::new());
        Self { state, watches, connections, next_zxid, unsaved: Writer::default(), outputs: Vec::new() }
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    pub(super) fn figures(&self) -> Figures {
        let State { tree, sessions, zxid } = &self.state;
        Figures {
            zxid: *zxid,
            nodes: tree.len(),
            bytes: tree.bytes(),
            ephemerals: tree.ephemerals(),
            sessions: sessions.len(),
            watches: self.watches.len(),
            connections: self.connections.len(),
        }
    }

    /// What must be durable before anything of [`take_outputs`](Self::take_outputs) is said; empty if there is nothing.
    pub(super) fn take_unsaved(&mut self) -> BytesMut {
        std::mem::take(&mut self.unsaved).into_bytes()
    }

    /// Bytes that [`take_unsaved`](Self::take_unsaved) has to give.
    pub(super) fn unsaved(&self) -> usize {
        self.unsaved.bytes().len()
    }

    pub(super) fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// How long nothing ends by itself.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.state.sessions.wait(now)
    }

    /// Time in which nobody could be heard does not count as silence.
    pub(super) fn forgive(&mut self, lost: Duration) {
        self.state.sessions.forgive(lost);
    }

    /// A connection asks for a session; `password` is the one that a new session gets.
    pub(super) fn connect(
        &mut self,
        id: ConnectionId,
        request: &ConnectRequest,
        password: Password,
        time: i64,
        now: Instant,
    ) {
        let timeout_ms = granted(request.timeout_ms);
        let (session, password) = if request.session == 0 {
            if self.state.sessions.len() >= MAX_SESSIONS {
                warn!(limit = MAX_SESSIONS, "refusing a zookeeper session: there are too many; stop some clients");
                return self.say(id, Outgoing::End);
            }
            // A number that is never used again, as only a transaction's is.
            let session = self.next_zxid;
            let open = Change::OpenSession { id: session, password, timeout_ms };
            self.commit(vec![open], time, now);
            (session, password)
        } else {
            match self.state.sessions.get(request.session) {
                // Whoever knows of later transactions than there are must begin anew.
                Some(session) if request.password == Some(session.password) && request.last_zxid <= self.state.zxid => {
                    (request.session, session.password)
                }
                _ => {
                    debug!(session = format_args!("{:#x}", request.session), "no such zookeeper session");
                    self.say(id, Outgoing::Answer(request.refused()));
                    return self.say(id, Outgoing::End);
                }
            }
        };
        if let Some(before) = self.state.sessions.attach(session, id, timeout_ms, now) {
            self.drop_connection(before);
            self.say(before, Outgoing::End);
        }
        self.connections.insert(id, session);
        self.say(id, Outgoing::Answer(request.granted(session, &password, timeout_ms)));
    }

    /// A connection is gone: its watches go, its session stays for its time-out.
    pub(super) fn disconnected(&mut self, id: ConnectionId) {
        if let Some(session) = self.connections.get(&id).copied() {
            self.state.sessions.detach(session, id);
        }
        self.drop_connection(id);
    }

    fn drop_connection(&mut self, id: ConnectionId) {
        self.connections.remove(&id);
        self.watches.remove_all(id);
    }

    /// Ends the sessions that were silent for too long.
    pub(super) fn expire(&mut self, time: i64, now: Instant) {
        for session in self.state.sessions.expired(now) {
            info!(session = format_args!("{session:#x}"), "zookeeper session expired");
            if let Some(connection) = self.close_session(session, time, now) {
                self.say(connection, Outgoing::End);
            }
        }
    }

    /// Carries a request out. A connection whose session is over gets no answer, it has been told to end.
    pub(super) fn handle(&mut self, id: ConnectionId, numbered: Numbered, time: i64, now: Instant) {
        let Some(session) = self.connections.get(&id).copied() else { return };
        self.state.sessions.touch(session, now);
        let Numbered { xid, request } = numbered;
        let mut body = Writer::default();
        let result = match request {
            Request::Ping | Request::Auth => Ok(()),
            Request::Close => {
                self.close_session(session, time, now);
                self.answer(id, xid, 0, &body);
                return self.say(id, Outgoing::End);
            }
            Request::Change(operation) => self.change(operation, session, time, &mut body),
            Request::Multi(operations) => {
                self.multi(operations, session, time, &mut body);
                Ok(())
            }
            read => match self.read(id, read, &mut body) {
                Ok(result) => result,
                Err(TooManyWatches) => {
                    warn!(
                        session = format_args!("{session:#x}"),
                        "closing a zookeeper connection: it has too many watches"
                    );
                    self.disconnected(id);
                    return self.say(id, Outgoing::End);
                }
            },
        };
        match result {
            Ok(()) => self.answer(id, xid, 0, &body),
            Err(code) => self.answer(id, xid, code.number(), &Writer::default()),
        }
    }

    /// Ends a session with its nodes; the connection that it had.
    fn close_session(&mut self, id: i64, time: i64, now: Instant) -> Option<ConnectionId> {
        let connection = self.state.sessions.get(id)?.connection;
        if let Some(connection) = connection {
            self.drop_connection(connection);
        }
        let mut changes: Vec<_> =
            self.state.tree.ephemerals_of(id).into_iter().map(|path| Change::Delete { path }).collect();
        changes.push(Change::CloseSession { id });
        self.commit(changes, time, now);
        connection
    }

    /// Carries changes out that are certain to be possible.
    fn commit(&mut self, changes: Vec<Change>, time: i64, now: Instant) {
        let zxid = self.next_zxid;
        let mut carried_out = Vec::with_capacity(changes.len());
        for change in changes {
            match self.state.apply(&change, (zxid, time), now) {
                Ok(_) => carried_out.push(change),
                Err(error) => warn!(?change, %error, "left out a change of a zookeeper session"),
            }
        }
        self.record(carried_out, time);
    }

    /// Numbers changes that were carried out, notes them for the journal and fires what they set off.
    fn record(&mut self, changes: Vec<Change>, time: i64) {
        let mut events = Vec::new();
        changes.iter().for_each(|change| self.watches.fire(change, &mut events));
        let zxid = self.next_zxid;
        self.state.zxid = zxid;
        self.next_zxid += 1;
        Transaction { zxid, time, changes }.write(&mut self.unsaved);
        self.tell(&events);
    }

    fn tell(&mut self, events: &[Event]) {
        events.iter().for_each(|event| self.say(event.to, Outgoing::Event(wire::event(event))));
    }

    fn answer(&mut self, to: ConnectionId, xid: i32, error: i32, body: &Writer) {
        let mut w = wire::answer(xid, self.state.zxid, error);
        w.raw(body.bytes());
        self.say(to, Outgoing::Answer(w.finish()));
    }

    fn say(&mut self, to: ConnectionId, what: Outgoing) {
        self.outputs.push(Output { to, what });
    }
}

#[cfg(test)]
mod tests;
