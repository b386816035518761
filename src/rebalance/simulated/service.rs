//! The tree, sessions and watches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::zk::{CoordinatorError, Node, NodeKind, NodeStat, SessionId};

/// The outcome of a call.
pub(crate) type Outcome<T> = Result<T, CoordinatorError>;
/// Fires once; the sender is gone when the session is over.
pub(crate) type Event = oneshot::Receiver<Instant>;
/// When what the service sends now reaches a client: in the order in which it was sent.
pub(crate) type Way = Arc<dyn Fn() -> Instant + Send + Sync>;

/// The service that all clients share.
#[derive(Debug, Default)]
pub(crate) struct Service {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    nodes: BTreeMap<String, Stored>,
    transactions: i64,
    sessions: BTreeMap<SessionId, OpenSession>,
    watches: BTreeMap<(Kind, String), Vec<Armed>>,
    opened: i64,
    /// Nodes that were deleted whoever had them, with the session whose they were and the time.
    robbed: BTreeMap<(SessionId, String), Instant>,
}

#[derive(Debug)]
struct Stored {
    data: Vec<u8>,
    version: i32,
    owner: Option<SessionId>,
    created: i64,
}

struct Armed {
    session: SessionId,
    event: oneshot::Sender<Instant>,
    way: Way,
}

impl std::fmt::Debug for Armed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Armed")
    }
}

#[derive(Debug)]
struct OpenSession {
    over: watch::Sender<bool>,
    /// Counts the times at which the client fell silent or was heard again.
    signs: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Node,
    Children,
}

impl Service {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// A new session, and what tells that it is over.
    pub(crate) fn open(&self) -> (SessionId, watch::Receiver<bool>) {
        let mut state = self.state();
        state.opened += 1;
        let id = SessionId(state.opened);
        let (over, ended) = watch::channel(false);
        state.sessions.insert(id, OpenSession { over, signs: 0 });
        (id, ended)
    }

    /// Ends a session: its ephemeral nodes go.
    pub(crate) fn end(&self, session: SessionId) {
        self.state().end(session);
    }

    /// The client is heard no more; so long after, the session is over.
    pub(crate) fn silent(self: &Arc<Self>, session: SessionId, timeout: Duration) {
        let Some(signs) = self.sign(session) else { return };
        let service = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(timeout).await;
            let mut state = service.state();
            if state.sessions.get(&session).is_some_and(|open| open.signs == signs) {
                state.end(session);
            }
        });
    }

    /// The client is heard again; false if that is too late.
    pub(crate) fn heard(&self, session: SessionId) -> bool {
        self.sign(session).is_some()
    }

    fn sign(&self, session: SessionId) -> Option<u64> {
        let mut state = self.state();
        let open = state.sessions.get_mut(&session)?;
        open.signs += 1;
        Some(open.signs)
    }

    pub(crate) fn is_open(&self, session: SessionId) -> bool {
        self.state().sessions.contains_key(&session)
    }

    pub(crate) fn create(&self, session: SessionId, path: &str, data: &[u8], kind: NodeKind) -> Outcome<()> {
        let mut state = self.state();
        if state.nodes.contains_key(path) {
            return Err(CoordinatorError::NodeExists(path.to_owned()));
        }
        let parents = path.match_indices('/').map(|(at, _)| &path[..at]).filter(|parent| !parent.is_empty());
        for parent in parents {
            match state.nodes.get(parent) {
                Some(Stored { owner: Some(_), .. }) => {
                    return Err(CoordinatorError::NoChildrenForEphemerals(path.to_owned()));
                }
                Some(_) => {}
                None => state.insert(parent, b"", None),
            }
        }
        state.insert(path, data, (kind == NodeKind::Ephemeral).then_some(session));
        state.robbed.remove(&(session, path.to_owned()));
        Ok(())
    }

    pub(crate) fn delete(&self, session: SessionId, path: &str, version: Option<i32>) -> Outcome<()> {
        let mut state = self.state();
        let owner = state.node(path, version)?.owner;
        if state.children(path).next().is_some() {
            return Err(CoordinatorError::NotEmpty(path.to_owned()));
        }
        state.remove(path);
        if let (Some(owner), None) = (owner.filter(|owner| *owner != session), version) {
            state.robbed.insert((owner, path.to_owned()), Instant::now());
        }
        Ok(())
    }

    /// When a node of a session was deleted by another one, whoever had it; the session has not made it anew since.
    pub(crate) fn robbed(&self, session: SessionId, path_ends_with: &str) -> Option<Instant> {
        let state = self.state();
        let of_session = state.robbed.range((session, String::new())..).take_while(|((owner, _), _)| *owner == session);
        of_session.filter(|((_, path), _)| path.ends_with(path_ends_with)).map(|(_, at)| *at).max()
    }

    pub(crate) fn get(&self, path: &str) -> Outcome<Node> {
        self.state().node(path, None).map(|node| Node { data: node.data.clone(), stat: node.stat() })
    }

    pub(crate) fn set(&self, path: &str, data: &[u8], version: Option<i32>) -> Outcome<NodeStat> {
        let mut state = self.state();
        state.node(path, version)?;
        let node = state.nodes.get_mut(path).unwrap();
        node.data = data.to_vec();
        node.version += 1;
        let stat = node.stat();
        state.fire(Kind::Node, path);
        Ok(stat)
    }

    pub(crate) fn children(&self, path: &str) -> Outcome<Vec<String>> {
        let state = self.state();
        state.node(path, None)?;
        Ok(state.children(path).map(str::to_owned).collect())
    }

    pub(crate) fn exists(&self, path: &str) -> Option<NodeStat> {
        self.state().nodes.get(path).map(Stored::stat)
    }

    pub(crate) fn watch_node(&self, session: SessionId, path: &str, way: Way) -> Event {
        self.state().watch(Kind::Node, session, path, way)
    }

    pub(crate) fn watch_children(&self, session: SessionId, path: &str, way: Way) -> Event {
        self.state().watch(Kind::Children, session, path, way)
    }

    /// Every node below a directory with its data and session.
    pub(crate) fn below(&self, directory: &str) -> BTreeMap<String, (String, Option<SessionId>)> {
        let prefix = format!("{directory}/");
        let state = self.state();
        let nodes = state.nodes.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let text = |node: &Stored| String::from_utf8_lossy(&node.data).into_owned();
        nodes.map(|(path, node)| (path[prefix.len()..].to_owned(), (text(node), node.owner))).collect()
    }
}

impl State {
    fn end(&mut self, session: SessionId) {
        let Some(open) = self.sessions.remove(&session) else { return };
        open.over.send_replace(true);
        let own: Vec<_> = self.nodes.iter().filter(|(_, node)| node.owner == Some(session)).collect();
        let own: Vec<_> = own.into_iter().map(|(path, _)| path.clone()).collect();
        for path in own {
            self.remove(&path);
        }
        for watches in self.watches.values_mut() {
            watches.retain(|armed| armed.session != session);
        }
    }

    fn node(&self, path: &str, version: Option<i32>) -> Outcome<&Stored> {
        let node = self.nodes.get(path).ok_or_else(|| CoordinatorError::NoNode(path.to_owned()))?;
        match version {
            Some(version) if version != node.version => Err(CoordinatorError::BadVersion(path.to_owned())),
            _ => Ok(node),
        }
    }

    fn children<'a>(&'a self, path: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let prefix = format!("{path}/");
        let nodes = self.nodes.range(prefix.clone()..);
        let inside = nodes.map_while(move |(child, _)| child.strip_prefix(prefix.as_str()));
        inside.filter(|name| !name.contains('/'))
    }

    fn insert(&mut self, path: &str, data: &[u8], owner: Option<SessionId>) {
        self.transactions += 1;
        let node = Stored { data: data.to_vec(), version: 0, owner, created: self.transactions };
        self.nodes.insert(path.to_owned(), node);
        self.fire(Kind::Node, path);
        self.fire(Kind::Children, parent(path));
    }

    fn remove(&mut self, path: &str) {
        self.transactions += 1;
        self.nodes.remove(path);
        self.fire(Kind::Node, path);
        self.fire(Kind::Children, path);
        self.fire(Kind::Children, parent(path));
    }

    fn fire(&mut self, kind: Kind, path: &str) {
        for armed in self.watches.remove(&(kind, path.to_owned())).into_iter().flatten() {
            // Nobody may wait any more.
            let _ = armed.event.send((armed.way)());
        }
    }

    fn watch(&mut self, kind: Kind, session: SessionId, path: &str, way: Way) -> Event {
        let (event, fires) = oneshot::channel();
        if self.sessions.contains_key(&session) {
            let watches = self.watches.entry((kind, path.to_owned())).or_default();
            watches.retain(|armed| !armed.event.is_closed());
            watches.push(Armed { session, event, way });
        }
        fires
    }
}

impl Stored {
    fn stat(&self) -> NodeStat {
        NodeStat { version: self.version, ephemeral_owner: self.owner, created: self.created }
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}
