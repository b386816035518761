//! The server without IO: requests come in, answers, events and transactions to store come out.
//!
//! A request is carried out at once; whoever runs the engine holds back everything that it says until the transactions
//! that it has made are durable. So no client ever sees a state that a crash takes back.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tracing::{debug, info, warn};

use super::change::{Change, Transaction};
use super::code::Code;
use super::jute::Writer;
use super::limits::MAX_SESSIONS;
use super::requests::{Numbered, Operation, Request, Watched, WatchesOf};
use super::sessions::{ConnectionId, Password, granted};
use super::state::State;
use super::tree::{Moment, Undo};
use super::watches::{Event, EventType, Kind, TooManyWatches, Watches};
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

/// What an operation has changed, enough to tell of it or to take it back.
struct Done {
    operation: i32,
    with_stat: bool,
    change: Option<Change>,
    path: String,
    undo: Option<Undo>,
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

    fn read(&mut self, id: ConnectionId, request: Request, w: &mut Writer) -> Result<Result<(), Code>, TooManyWatches> {
        let path = match &request {
            Request::Exists { path, .. }
            | Request::GetData { path, .. }
            | Request::GetAcl { path }
            | Request::GetChildren { path, .. }
            | Request::Sync { path }
            | Request::CheckWatches(WatchesOf { path, .. })
            | Request::RemoveWatches(WatchesOf { path, .. }) => path.as_str(),
            Request::SetWatches(watched) => return self.set_watches(id, watched),
            _ => return Ok(Err(Code::Unimplemented)),
        };
        if let Err(code) = super::path::check(path) {
            return Ok(Err(code));
        }
        let node = self.state.tree.get(path);
        let watch = match (&request, &node) {
            // Of a node that is not there, too.
            (Request::Exists { watch: true, .. }, _) | (Request::GetData { watch: true, .. }, Ok(_)) => {
                Some(Kind::Data)
            }
            (Request::GetChildren { watch: true, .. }, Ok(_)) => Some(Kind::Children),
            _ => None,
        };
        if let Some(kind) = watch {
            self.watches.add(id, kind, path)?;
        }
        Ok(match (&request, node) {
            (Request::Sync { .. }, _) => {
                w.text(path);
                Ok(())
            }
            (Request::CheckWatches(of), _) => self.own_watches(id, of).map(|_| ()),
            (Request::RemoveWatches(of), _) => self.own_watches(id, of).map(|kinds| {
                for kind in kinds {
                    self.watches.remove(id, kind, path);
                }
            }),
            (_, Err(code)) => Err(code),
            (Request::GetData { .. }, Ok(node)) => {
                w.buffer(node.data.as_deref());
                node.write_stat(w);
                Ok(())
            }
            (Request::GetAcl { .. }, Ok(node)) => {
                node.acl.write(w);
                node.write_stat(w);
                Ok(())
            }
            (Request::GetChildren { with_stat, .. }, Ok(node)) => {
                w.texts(node.children.iter().map(|name| &**name));
                if *with_stat {
                    node.write_stat(w);
                }
                Ok(())
            }
            (_, Ok(node)) => {
                node.write_stat(w);
                Ok(())
            }
        })
    }

    fn own_watches(&self, id: ConnectionId, of: &WatchesOf) -> Result<Vec<Kind>, Code> {
        let has = |kind: &&Kind| self.watches.contains(id, **kind, &of.path);
        let own: Vec<_> = of.kinds?.iter().filter(has).copied().collect();
        if own.is_empty() { Err(Code::NoWatcher) } else { Ok(own) }
    }

    /// Puts the watches of an earlier connection back; those that should have fired since then fire now.
    fn set_watches(&mut self, id: ConnectionId, watched: &Watched) -> Result<Result<(), Code>, TooManyWatches> {
        let tree = &self.state.tree;
        let event_of = |kind: Kind, was_absent: bool, path: &String| match tree.get(path) {
            Ok(_) if was_absent => Some(EventType::Created),
            Err(_) if was_absent => None,
            Err(_) => Some(EventType::Deleted),
            Ok(node) => match kind {
                Kind::Data => (node.modified.0 > watched.since).then_some(EventType::DataChanged),
                Kind::Children => (node.children_modified > watched.since).then_some(EventType::ChildrenChanged),
            },
        };
        let all = [(Kind::Data, false, &watched.data), (Kind::Data, true, &watched.absent)];
        let mut events = Vec::new();
        for (kind, was_absent, paths) in all.into_iter().chain([(Kind::Children, false, &watched.children)]) {
            for path in paths {
                if let Err(code) = super::path::check(path) {
                    return Ok(Err(code));
                }
                match event_of(kind, was_absent, path) {
                    Some(what) => events.push(Event { to: id, what, path: path.clone() }),
                    None => self.watches.add(id, kind, path)?,
                }
            }
        }
        self.tell(&events);
        Ok(Ok(()))
    }

    fn change(&mut self, operation: Operation, session: i64, time: i64, w: &mut Writer) -> Result<(), Code> {
        let is_check = matches!(operation, Operation::Check { .. });
        let done = self.execute(operation, session, (self.next_zxid, time))?;
        self.write_result(&done, is_check, w);
        if let Some(change) = done.change {
            self.record(vec![change], time);
        }
        Ok(())
    }

    /// All operations or none. The answer has a result for each.
    fn multi(&mut self, operations: Vec<Operation>, session: i64, time: i64, w: &mut Writer) {
        let mut done = Vec::new();
        let count = operations.len();
        let mut failed = None;
        for operation in operations {
            match self.execute(operation, session, (self.next_zxid, time)) {
                Ok(one) => {
                    let mut result = Writer::default();
                    self.write_result(&one, false, &mut result);
                    done.push((one, result));
                }
                Err(code) => {
                    failed = Some(code);
                    break;
                }
            }
        }
        if let Some(code) = failed {
            let at = done.len();
            done.into_iter().rev().filter_map(|(one, _)| one.undo).for_each(|undo| self.state.tree.undo(undo));
            for i in 0..count {
                let code = match i.cmp(&at) {
                    std::cmp::Ordering::Less => 0,
                    std::cmp::Ordering::Equal => code.number(),
                    std::cmp::Ordering::Greater => Code::RuntimeInconsistency.number(),
                };
                wire::multi_header(w, -1, false, code);
                w.int(code);
            }
        } else {
            let mut changes = Vec::new();
            for (one, result) in done {
                wire::multi_header(w, one.operation, false, 0);
                w.raw(result.bytes());
                changes.extend(one.change);
            }
            if !changes.is_empty() {
                self.record(changes, time);
            }
        }
        wire::multi_header(w, -1, true, -1);
    }

    fn execute(&mut self, operation: Operation, session: i64, at: Moment) -> Result<Done, Code> {
        let (code, with_stat) = (operation.code(), matches!(operation, Operation::Create { with_stat: true, .. }));
        let checked = match &operation {
            Operation::Check { path, .. } => path.clone(),
            _ => String::new(),
        };
        let change = self.state.tree.prepare(operation, session)?;
        let undo = match &change {
            Some(change) => self.state.tree.apply(change, at).map_err(|_| Code::RuntimeInconsistency)?,
            None => None,
        };
        let path = match &change {
            Some(
                Change::Create { path, .. }
                | Change::Delete { path }
                | Change::SetData { path, .. }
                | Change::SetAcl { path, .. },
            ) => path.clone(),
            _ => checked,
        };
        Ok(Done { operation: code, with_stat, change, path, undo })
    }

    /// What the answer says of one operation. A check tells something only if it stands alone.
    fn write_result(&self, done: &Done, is_lone_check: bool, w: &mut Writer) {
        let (path, stat) = match &done.change {
            Some(Change::Create { .. }) => (true, done.with_stat),
            Some(Change::SetData { .. } | Change::SetAcl { .. }) => (false, true),
            Some(_) => (false, false),
            None => (false, is_lone_check),
        };
        if path {
            w.text(&done.path);
        }
        if let (true, Ok(node)) = (stat, self.state.tree.get(&done.path)) {
            node.write_stat(w);
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
