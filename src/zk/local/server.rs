//! Start, accepting and stop of the server.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::address::LocalAddresses;
use super::connection::Connection;
use super::engine::Engine;
use super::journal::{Journal, JournalError};
use super::limits::{MAX_CONNECTIONS, MAX_IN_FLIGHT_BYTES};
use super::random::Random;
use super::sessions::ConnectionId;
use super::worker::{Command, Worker};
use crate::common::quiet::Quiet;
use crate::store::FileSystem;

/// Pause after a failed accept: typically no descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Shortest time between two log lines about connections that are not served, of each kind.
const REFUSAL_LOG_PERIOD: Duration = Duration::from_secs(10);

/// Why the server of local mode does not start.
#[derive(Debug, thiserror::Error)]
pub enum LocalServerError {
    /// Its port cannot be opened.
    #[error(
        "the ZooKeeper of local mode cannot listen on {address}: {source}; if another ZooKeeper or broker uses it: stop \
         it, or set zk.zkConnect to a free port, or start without -l"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Its state cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The system has no random numbers for passwords.
    #[error("cannot read random numbers from the system: {0}; see that /dev/urandom is there")]
    Random(io::Error),
    /// No thread for it.
    #[error("cannot start a thread: {0}; raise the limit of processes (ulimit -u, TasksMax)")]
    Thread(io::Error),
}

/// A running server. [`stop`](Self::stop) it: dropping it closes its port and connections soon after, and then lets go of
/// its files.
#[derive(Debug)]
pub struct LocalServer {
    stop: CancellationToken,
    connections: TaskTracker,
    worker: JoinHandle<()>,
    _stop_when_dropped: DropGuard,
}

impl LocalServer {
    /// Opens the port, reads the state in `dir`, which nobody else may use, and serves at most `max_connections` at a time
    /// (and never more than [`MAX_CONNECTIONS`]).
    ///
    /// # Errors
    /// When the port is taken, the state is damaged or the system refuses. Nothing is left running then.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn start(
        addresses: &LocalAddresses,
        dir: &Path,
        fs: Arc<dyn FileSystem>,
        max_connections: usize,
    ) -> Result<Self, LocalServerError> {
        let listeners = bind(&addresses.addresses).await?;
        let random = Random::open().map_err(LocalServerError::Random)?;
        let log_id = u64::from_be_bytes(random.bytes().map_err(LocalServerError::Random)?);
        let dir = dir.to_owned();
        let opened = tokio::task::spawn_blocking(move || Journal::open(fs, &dir, log_id, Instant::now())).await;
        let (journal, state) = match opened {
            Ok(opened) => opened?,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let (stop, connections) = (CancellationToken::new(), TaskTracker::new());
        let (commands, inbox) = channel();
        let (nodes, sessions) = (state.tree.len(), state.sessions.len());
        // If it fails, the port is closed too.
        let ended = stop.clone().drop_guard();
        let work = move || {
            Worker::new(Engine::new(state), journal).run(&inbox);
            drop(ended);
        };
        let worker = std::thread::Builder::new().name("metaq-zookeeper".to_owned()).spawn(work);
        let worker = worker.map_err(LocalServerError::Thread)?;
        let limit = max_connections.min(MAX_CONNECTIONS);
        let acceptor = Acceptor {
            next: Arc::new(AtomicU64::new(1)),
            places: Arc::new(Semaphore::new(limit)),
            limit,
            commands,
            random,
            room: Arc::new(Semaphore::new(MAX_IN_FLIGHT_BYTES)),
            connections: connections.clone(),
            stop: stop.clone(),
        };
        for (address, listener) in listeners {
            info!(%address, nodes, sessions, "zookeeper of local mode serves");
            connections.spawn(acceptor.clone().run(listener));
        }
        Ok(Self { _stop_when_dropped: stop.clone().drop_guard(), stop, connections, worker })
    }

    /// Closes the port and all connections and lets go of the files. Everything that was answered is stored.
    pub async fn stop(self) {
        self.stop.cancel();
        self.connections.close();
        self.connections.wait().await;
        // The connections had the last ways to it.
        let worker = self.worker;
        if tokio::task::spawn_blocking(move || worker.join()).await.is_ok_and(|ended| ended.is_err()) {
            warn!("the thread of the zookeeper of local mode had failed");
        }
        info!("zookeeper of local mode stopped");
    }
}

/// Opens all addresses. One whose protocol the system does not have is left out, if there is another.
async fn bind(addresses: &[SocketAddr]) -> Result<Vec<(SocketAddr, TcpListener)>, LocalServerError> {
    let mut listeners = Vec::new();
    let mut missing = None;
    for &address in addresses {
        match TcpListener::bind(address).await {
            Ok(listener) => listeners.push((address, listener)),
            Err(source) => {
                let error = LocalServerError::Listen { address, source };
                if !is_missing(&error) {
                    return Err(error);
                }
                missing = Some(error);
            }
        }
    }
    match missing {
        Some(error) if listeners.is_empty() => Err(error),
        _ => Ok(listeners),
    }
}

fn is_missing(error: &LocalServerError) -> bool {
    let LocalServerError::Listen { source, .. } = error else { return false };
    source.kind() == io::ErrorKind::AddrNotAvailable
        || source.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

/// What is given to every connection.
#[derive(Debug, Clone)]
struct Acceptor {
    next: Arc<AtomicU64>,
    places: Arc<Semaphore>,
    /// How many there are.
    limit: usize,
    commands: Sender<Command>,
    random: Random,
    room: Arc<Semaphore>,
    connections: TaskTracker,
    stop: CancellationToken,
}

impl Acceptor {
    async fn run(self, listener: TcpListener) {
        let [mut failed, mut refused] = [(); 2].map(|()| Quiet::new(REFUSAL_LOG_PERIOD));
        loop {
            let accepted = tokio::select! {
                () = self.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    if let Some(failures) = failed.count() {
                        warn!(%error, failures, "cannot accept a zookeeper connection; if descriptors have run out, raise the limit of open files");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
                if let Some(refused) = refused.count() {
                    warn!(%peer, limit = self.limit, refused, "closing a zookeeper connection: there are too many");
                }
                continue;
            };
            self.serve(stream, peer, place);
        }
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, place: tokio::sync::OwnedSemaphorePermit) {
        // Without it answers wait for acknowledgements; nothing else is lost.
        let _slower = stream.set_nodelay(true);
        let id = ConnectionId(self.next.fetch_add(1, Ordering::Relaxed));
        let (worker, random, room) = (self.commands.clone(), self.random.clone(), Arc::clone(&self.room));
        let connection = Connection { id, peer, worker, random, room };
        let abort = self.stop.child_token();
        self.connections.spawn(async move {
            connection.serve(stream, abort).await;
            drop(place);
        });
    }
}
