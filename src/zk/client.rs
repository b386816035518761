//! The production coordinator: a supervised session over the `zookeeper-client` crate, the only place that names it.
//!
//! The crate serves one session and is done when that expires, also by its own clock (7/5 of the time-out without a
//! server). A supervisor task here opens the next one, for ever, each with a generation number of its own.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, info, warn};
use zookeeper_client as zk;

use super::backoff::Backoff;
use super::connect::ConnectString;
use super::coordinator::{
    Call, Coordinator, Node, NodeKind, NodeStat, Session, SessionId, SessionState, Watch, WatchEvent,
};
use super::error::CoordinatorError;

/// Longest time of one call; shorter if the session's time-out is.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long [`Coordinator::close`] waits for the service's confirmation.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The protocol has no longer session time-out than this many milliseconds, the largest of 32 bits.
const LONGEST_SESSION: Duration = Duration::from_millis(0x7fff_ffff);
/// First and longest wait between two attempts to open a session.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// Attempts at one create whose parents are deleted by somebody else at the same time.
const CREATE_ATTEMPTS: usize = 3;

/// How to reach ZooKeeper.
#[derive(Debug, Clone)]
pub struct ZooKeeperOptions {
    /// The servers and the directory below which everything lies (`zk.zkConnect`).
    pub connect: ConnectString,
    /// The session time-out to ask for (`zk.zkSessionTimeoutMs`); the servers may grant another one.
    pub session_timeout: Duration,
}

/// A connection to a ZooKeeper ensemble of version 3.4 or later, kept up until it is closed or dropped.
#[derive(Debug)]
pub struct ZooKeeper {
    shared: Arc<Shared>,
    closing: CancellationToken,
    _close_when_dropped: DropGuard,
}

#[derive(Debug)]
struct Shared {
    live: Mutex<Option<Live>>,
    states: watch::Sender<SessionState>,
}

/// Clients of the present session; the session ends when the last clone is dropped.
#[derive(Debug, Clone)]
struct Live {
    client: zk::Client,
    top: zk::Client,
    chroot: String,
}

impl ZooKeeper {
    /// Starts to connect and returns at once; servers that cannot be reached are tried for ever.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(options: ZooKeeperOptions) -> Self {
        let shared = Arc::new(Shared { live: Mutex::new(None), states: watch::Sender::new(SessionState::Connecting) });
        let closing = CancellationToken::new();
        tokio::spawn(supervise(shared.clone(), options, closing.clone()));
        Self { shared, _close_when_dropped: closing.clone().drop_guard(), closing }
    }

    async fn call<T, F>(
        &self,
        operation: &'static str,
        path: &str,
        start: impl FnOnce(Live) -> F,
    ) -> Result<T, CoordinatorError>
    where
        F: Future<Output = Result<T, zk::Error>>,
    {
        let Some(live) = self.shared.live() else {
            return Err(CoordinatorError::NoSession { operation, path: path.to_owned() });
        };
        let limit = CALL_TIMEOUT.min(live.client.session_timeout());
        match timeout(limit, start(live)).await {
            Ok(result) => result.map_err(|error| classify(operation, path, &error)),
            Err(_) => Err(CoordinatorError::Unknown {
                operation,
                path: path.to_owned(),
                reason: format!("none within {} ms", limit.as_millis()),
            }),
        }
    }
}

impl Shared {
    fn live(&self) -> Option<Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_live(&self, live: Option<Live>) {
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = live;
    }

    fn publish(&self, state: SessionState) {
        self.states.send_if_modified(|present| std::mem::replace(present, state) != state);
    }
}

async fn supervise(shared: Arc<Shared>, options: ZooKeeperOptions, closing: CancellationToken) {
    let mut backoff = Backoff::new(RECONNECT.0, RECONNECT.1);
    let mut outage_logged = false;
    for generation in 1.. {
        shared.publish(SessionState::Connecting);
        let live = loop {
            let attempt = tokio::select! {
                () = closing.cancelled() => return shared.publish(SessionState::Closed),
                attempt = open(&options) => attempt,
            };
            match attempt {
                Ok(live) => break live,
                Err(error) => {
                    if !std::mem::replace(&mut outage_logged, true) {
                        warn!(servers = %options.connect, %error, "zookeeper cannot be reached, trying again for ever");
                    } else {
                        debug!(servers = %options.connect, %error, "zookeeper still cannot be reached");
                    }
                    tokio::select! {
                        () = closing.cancelled() => return shared.publish(SessionState::Closed),
                        () = sleep(backoff.failed()) => {}
                    }
                }
            }
        };
        backoff.reset();
        outage_logged = false;
        if serve(&shared, live, generation, &closing).await {
            return shared.publish(SessionState::Closed);
        }
    }
}

/// Opens one session. A round over all servers fails at once if none answers; the caller's back-off spaces the rounds.
async fn open(options: &ZooKeeperOptions) -> Result<Live, zk::Error> {
    let top = zk::Client::connector()
        .with_session_timeout(options.session_timeout.min(LONGEST_SESSION))
        // Servers before 3.5 drop the newer create request without an answer; the old one works with all.
        .with_server_version(3, 4, u32::MAX)
        .with_fail_eagerly()
        .connect(&options.connect.servers())
        .await?;
    let Some(chroot) = options.connect.chroot() else {
        return Ok(Live { client: top.clone(), top, chroot: String::new() });
    };
    // A directory that exists may lie in one where we must not create.
    if top.check_stat(chroot).await?.is_none() {
        top.mkdir(chroot, &options_of(NodeKind::Persistent)).await?;
    }
    let client = top.clone().chroot(chroot).map_err(|_| zk::Error::BadArguments(&"invalid directory"))?;
    Ok(Live { client, top, chroot: chroot.to_owned() })
}

/// Follows one session to its end; true if that was asked for.
async fn serve(shared: &Shared, live: Live, generation: u64, closing: &CancellationToken) -> bool {
    let client = &live.client;
    let session = Session { id: SessionId(client.session_id().0), generation, timeout: client.session_timeout() };
    let mut states = client.state_watcher();
    let mut state = states.peek_state();
    let mut seen = None;
    shared.set_live(Some(live));
    while !state.is_terminated() {
        let connected = state == zk::SessionState::SyncConnected;
        if seen != Some(connected) {
            match (connected, seen) {
                (true, None) => {
                    info!(session = %session.id, timeout_ms = session.timeout.as_millis(), "zookeeper session opened")
                }
                (true, _) => info!(session = %session.id, "zookeeper connection restored"),
                (false, _) => warn!(session = %session.id, "zookeeper connection lost"),
            }
            seen = Some(connected);
        }
        shared.publish(if connected { SessionState::Connected(session) } else { SessionState::Disconnected(session) });
        tokio::select! {
            next = states.changed() => state = next,
            () = closing.cancelled() => {
                shared.set_live(None);
                // Without a connection nobody can confirm; the crate's task goes on trying by itself.
                let ended = async { while !states.changed().await.is_terminated() {} };
                let confirmed = connected && timeout(CLOSE_TIMEOUT, ended).await.is_ok();
                info!(session = %session.id, confirmed, "zookeeper session closed");
                return true;
            }
        }
    }
    shared.set_live(None);
    warn!(session = %session.id, ?state, "zookeeper session is over, opening a new one");
    shared.publish(SessionState::Expired(session));
    false
}

/// A fixed list of answers is final; everything else leaves the outcome open, since the crate reports a lost connection
/// as any of three different errors.
fn classify(operation: &'static str, path: &str, error: &zk::Error) -> CoordinatorError {
    let path = path.to_owned();
    match error {
        zk::Error::NodeExists => CoordinatorError::NodeExists(path),
        zk::Error::NoNode => CoordinatorError::NoNode(path),
        zk::Error::NotEmpty => CoordinatorError::NotEmpty(path),
        zk::Error::BadVersion => CoordinatorError::BadVersion(path),
        zk::Error::NoChildrenForEphemerals => CoordinatorError::NoChildrenForEphemerals(path),
        zk::Error::NoAuth
        | zk::Error::InvalidAcl
        | zk::Error::BadArguments(_)
        | zk::Error::NotReadOnly
        | zk::Error::QuotaExceeded
        | zk::Error::MarshallingError
        | zk::Error::Unimplemented => CoordinatorError::Refused { operation, path, reason: error.to_string() },
        zk::Error::SessionExpired | zk::Error::AuthFailed | zk::Error::ClientClosed => {
            CoordinatorError::SessionOver { operation, path }
        }
        other => CoordinatorError::Unknown { operation, path, reason: other.to_string() },
    }
}

fn options_of(kind: NodeKind) -> zk::CreateOptions<'static> {
    let mode = match kind {
        NodeKind::Persistent => zk::CreateMode::Persistent,
        NodeKind::Ephemeral => zk::CreateMode::Ephemeral,
    };
    mode.with_acls(zk::Acls::anyone_all())
}

fn stat_of(stat: &zk::Stat) -> NodeStat {
    NodeStat {
        version: stat.version,
        ephemeral_owner: (stat.ephemeral_owner != 0).then_some(SessionId(stat.ephemeral_owner)),
        created: stat.czxid,
    }
}

fn watch_of(watcher: zk::OneshotWatcher) -> Watch {
    Watch::new(async move {
        match watcher.changed().await.event_type {
            zk::EventType::Session => WatchEvent::SessionOver,
            _ => WatchEvent::Changed,
        }
    })
}

async fn create(live: &Live, path: &str, data: &[u8], kind: NodeKind) -> Result<(), zk::Error> {
    let options = options_of(kind);
    for _ in 0..CREATE_ATTEMPTS {
        match live.client.create(path, data, &options).await {
            Err(zk::Error::NoNode) => {}
            other => return other.map(|_| ()),
        }
        let parent = format!("{}{}", live.chroot, path.rsplit_once('/').map_or("", |(parent, _)| parent));
        if !parent.is_empty() {
            live.top.mkdir(&parent, &options_of(NodeKind::Persistent)).await?;
        }
    }
    Err(zk::Error::NoNode)
}

impl Coordinator for ZooKeeper {
    fn session(&self) -> watch::Receiver<SessionState> {
        self.shared.states.subscribe()
    }

    fn create<'a>(&'a self, path: &'a str, data: &'a [u8], kind: NodeKind) -> Call<'a, ()> {
        Box::pin(self.call("create", path, move |live| async move { create(&live, path, data, kind).await }))
    }

    fn delete<'a>(&'a self, path: &'a str, version: Option<i32>) -> Call<'a, ()> {
        Box::pin(self.call("delete", path, move |live| async move { live.client.delete(path, version).await }))
    }

    fn get<'a>(&'a self, path: &'a str) -> Call<'a, Node> {
        Box::pin(self.call("read", path, move |live| async move {
            let (data, stat) = live.client.get_data(path).await?;
            Ok(Node { data, stat: stat_of(&stat) })
        }))
    }

    fn set<'a>(&'a self, path: &'a str, data: &'a [u8], version: Option<i32>) -> Call<'a, NodeStat> {
        Box::pin(self.call("set", path, move |live| async move {
            Ok(stat_of(&live.client.set_data(path, data, version).await?))
        }))
    }

    fn children<'a>(&'a self, path: &'a str) -> Call<'a, Vec<String>> {
        Box::pin(self.call("list", path, move |live| async move { live.client.list_children(path).await }))
    }

    fn exists<'a>(&'a self, path: &'a str) -> Call<'a, Option<NodeStat>> {
        Box::pin(self.call("check", path, move |live| async move {
            Ok(live.client.check_stat(path).await?.as_ref().map(stat_of))
        }))
    }

    fn sync<'a>(&'a self, path: &'a str) -> Call<'a, ()> {
        Box::pin(self.call("sync", path, move |live| async move { live.client.sync(path).await }))
    }

    fn watch_data<'a>(&'a self, path: &'a str) -> Call<'a, (Node, Watch)> {
        Box::pin(self.call("watch", path, move |live| async move {
            let (data, stat, watcher) = live.client.get_and_watch_data(path).await?;
            Ok((Node { data, stat: stat_of(&stat) }, watch_of(watcher)))
        }))
    }

    fn watch_children<'a>(&'a self, path: &'a str) -> Call<'a, (Vec<String>, Watch)> {
        Box::pin(self.call("watch", path, move |live| async move {
            let (children, watcher) = live.client.list_and_watch_children(path).await?;
            Ok((children, watch_of(watcher)))
        }))
    }

    fn watch_exists<'a>(&'a self, path: &'a str) -> Call<'a, (Option<NodeStat>, Watch)> {
        Box::pin(self.call("watch", path, move |live| async move {
            let (stat, watcher) = live.client.check_and_watch_stat(path).await?;
            Ok((stat.as_ref().map(stat_of), watch_of(watcher)))
        }))
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            self.closing.cancel();
            let mut states = self.shared.states.subscribe();
            let closed = states.wait_for(|state| *state == SessionState::Closed);
            // The supervisor keeps its own limit; this one is for a runtime that is shutting down.
            if timeout(CLOSE_TIMEOUT * 2, closed).await.is_err() {
                debug!("zookeeper session was not closed in time");
            }
        })
    }
}
