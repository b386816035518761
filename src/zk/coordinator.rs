//! The seam to the coordination service: what brokers and clients ask of ZooKeeper, and nothing more (04 §1).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::watch;

use super::error::{CoordinatorError, NotConnected};

/// A call under way. It does nothing before it is polled first; once polled, dropping it does not take it back.
pub type Call<'a, T> = Pin<Box<dyn Future<Output = Result<T, CoordinatorError>> + Send + 'a>>;

/// A coordination service with ZooKeeper's data model, held as `Arc<dyn Coordinator>`.
///
/// * Paths are absolute; a root directory is the caller's affair ([`Root`](super::Root)).
/// * Calls of one session are carried out in the order in which they are first polled. A read that follows a call of
///   unknown outcome therefore tells what became of it.
/// * Every call ends within a bounded time. Without a session it fails at once with [`CoordinatorError::NoSession`];
///   while the connection is lost it waits for it, then fails with [`CoordinatorError::Unknown`].
/// * Nothing is repeated behind the caller's back: reconnecting is the service's work, repairing is the caller's.
pub trait Coordinator: fmt::Debug + Send + Sync {
    /// The state of the session from now on. States may be coalesced: read the present one at each wake.
    fn session(&self) -> watch::Receiver<SessionState>;

    /// Creates a node, and its parents as persistent empty nodes where they are missing.
    fn create<'a>(&'a self, path: &'a str, data: &'a [u8], kind: NodeKind) -> Call<'a, ()>;

    /// Deletes a node, whatever its version or only the given one.
    fn delete<'a>(&'a self, path: &'a str, version: Option<i32>) -> Call<'a, ()>;

    /// Reads a node.
    fn get<'a>(&'a self, path: &'a str) -> Call<'a, Node>;

    /// Replaces a node's data, whatever its version or only the given one, and returns the new state.
    fn set<'a>(&'a self, path: &'a str, data: &'a [u8], version: Option<i32>) -> Call<'a, NodeStat>;

    /// The names of a node's children, in no particular order.
    fn children<'a>(&'a self, path: &'a str) -> Call<'a, Vec<String>>;

    /// The state of a node, `None` if there is none.
    fn exists<'a>(&'a self, path: &'a str) -> Call<'a, Option<NodeStat>>;

    /// Lets the server of this connection catch up with the leader. Reads are answered by that server alone, for a while
    /// even when it has lost the leader and the session is over; this is not. `path` names no more than what is asked.
    fn sync<'a>(&'a self, path: &'a str) -> Call<'a, ()>;

    /// Reads a node and watches its data and its existence.
    fn watch_data<'a>(&'a self, path: &'a str) -> Call<'a, (Node, Watch)>;

    /// Lists a node's children and watches their coming and going.
    fn watch_children<'a>(&'a self, path: &'a str) -> Call<'a, (Vec<String>, Watch)>;

    /// Reads a node's state and watches its creation, deletion and data.
    fn watch_exists<'a>(&'a self, path: &'a str) -> Call<'a, (Option<NodeStat>, Watch)>;

    /// Ends the session, and with it its ephemeral nodes. Returns when the service has confirmed it or after a bounded
    /// time; without a connection the service notices only at the end of the session's time-out.
    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// How long a node lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// Until it is deleted.
    Persistent,
    /// Until it is deleted or the session that created it ends.
    Ephemeral,
}

/// Identity of a session, as [`NodeStat::ephemeral_owner`] names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub i64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A session that the service has granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Session {
    /// Its identity.
    pub id: SessionId,
    /// Its number in this process, from 1; a new session has a larger one.
    pub generation: u64,
    /// The negotiated time-out: so long after the last sign of life its ephemeral nodes disappear.
    pub timeout: Duration,
}

/// Where the session stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionState {
    /// No session yet, or a new one is being opened after [`SessionState::Expired`].
    Connecting,
    /// The session lives and calls are served.
    Connected(Session),
    /// The connection is lost. The session may still live, or its end may not be known yet.
    Disconnected(Session),
    /// This session is over, its ephemeral nodes are gone or going; another one follows.
    Expired(Session),
    /// Closed on request; nothing follows.
    Closed,
}

impl SessionState {
    /// The session, if calls are served now.
    pub fn connected(self) -> Option<Session> {
        match self {
            Self::Connected(session) => Some(session),
            _ => None,
        }
    }
}

/// The state of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeStat {
    /// Number of changes of the data since the node was created.
    pub version: i32,
    /// The session that an ephemeral node belongs to; `None` for a persistent one.
    pub ephemeral_owner: Option<SessionId>,
    /// The transaction that created the node: it differs when a node was deleted and made anew.
    pub created: i64,
}

/// A node as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// The data; a node that was created without any reads as empty.
    pub data: Vec<u8>,
    /// The state.
    pub stat: NodeStat,
}

/// Why a [`Watch`] fired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchEvent {
    /// Something that was watched has changed, perhaps while the connection was lost: read again.
    Changed,
    /// The session is over: nothing is watched any more.
    SessionOver,
}

/// A one-shot watch, armed by the read that returned it. It survives a loss of the connection.
pub struct Watch(Pin<Box<dyn Future<Output = WatchEvent> + Send>>);

impl Watch {
    /// Wraps what an implementation waits for.
    pub fn new(event: impl Future<Output = WatchEvent> + Send + 'static) -> Self {
        Self(Box::pin(event))
    }
}

impl Future for Watch {
    type Output = WatchEvent;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<WatchEvent> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

/// Waits until the session is connected, at most so long.
///
/// # Errors
/// [`NotConnected`] with the time waited; the coordinator goes on trying.
pub async fn connected(coordinator: &dyn Coordinator, within: Duration) -> Result<Session, NotConnected> {
    let mut states = coordinator.session();
    let session = async {
        loop {
            let state = *states.borrow_and_update();
            match state {
                SessionState::Connected(session) => return Some(session),
                SessionState::Closed => return None,
                _ if states.changed().await.is_err() => return None,
                _ => {}
            }
        }
    };
    match tokio::time::timeout(within, session).await {
        Ok(Some(session)) => Ok(session),
        Ok(None) => Err(NotConnected::Closed),
        Err(_) => Err(NotConnected::Within(within)),
    }
}
