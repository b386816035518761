//! Start and stop of a broker, in the order that its clients rely on (03 §11, 04 §6).
//!
//! Start: directories locked and loaded, port open, in local mode the ZooKeeper of its own, nodes in ZooKeeper. Stop: nodes
//! removed, a pause in which clients move away and are still served, messages refused, the ZooKeeper of local mode closed,
//! everything accepted made durable and answered, connections closed.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::connection::ConnectionLimits;
use super::control::{BrokerControl, Parts};
use super::identity::Identity;
use super::listener::{self, Acceptor};
use super::processor::Processor;
use super::reactors::{Reactors, default_threads};
use super::retention::Retention;
use super::topics::{Topics, settings_of, store_settings};
use crate::common::host::default_host;
use crate::config::{ServerConfig, ZooKeeperConfig};
use crate::id::{BrokerUrl, TopicName};
use crate::protocol::Limits;
use crate::store::{OsFileSystem, Store, StoreError, StoreOptions, TopicSettingsOf};
use crate::zk::local::{self, LocalAddresses, LocalServer, LocalServerError, NotLocal};
use crate::zk::{
    ConnectString, IdConflict, InvalidConnectString, InvalidRoot, Registration, RegistrationOptions, RegistrationState,
    Root, ZooKeeper, ZooKeeperOptions,
};

/// Longest time that a stop spends on removing nodes from ZooKeeper.
const UNREGISTER_TIME: Duration = Duration::from_secs(5);

/// The same for a stop in a hurry: enough if ZooKeeper answers.
const HURRIED_UNREGISTER_TIME: Duration = Duration::from_millis(500);

/// Longest pause of a stop in local mode: the watches of every client fire at once when the nodes go, as all are connected
/// to this process.
const LOCAL_SYNC_TIME: Duration = Duration::from_secs(1);

/// Longest time that a stop waits for clients to take their last answers.
const FAREWELL_TIME: Duration = Duration::from_secs(5);

/// Descriptors that are kept for new segments and everything else but connections.
const DESCRIPTORS_KEPT: u64 = 256;

/// Connections that are accepted however few descriptors there are.
const MIN_CONNECTIONS: usize = 16;

/// One in so many of the descriptors that are left for connections is for clients of the ZooKeeper of local mode: they
/// have fewer connections than those of the broker, and cannot do without.
const ZOOKEEPER_SHARE: usize = 4;

/// How to run, beyond the configuration file.
#[derive(Debug, Clone, Copy, Default)]
pub struct BrokerOptions {
    /// Serve this machine only, with a ZooKeeper of its own on the loopback address that `zk.zkConnect` names.
    pub local: bool,
}

/// Why a broker did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The message store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The port cannot be opened.
    #[error(
        "start remoting server failed: cannot listen on {address}: {source}; stop what uses the port, or set serverPort or bindAddress"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}; raise the limit of processes (ulimit -u, TasksMax)")]
    Thread(io::Error),
    /// The connect string of ZooKeeper.
    #[error(transparent)]
    Connect(#[from] InvalidConnectString),
    /// The root of the nodes.
    #[error("zk.zkRoot: {0}")]
    Root(#[from] InvalidRoot),
    /// Local mode without ZooKeeper.
    #[error(
        "local mode (-l) serves a ZooKeeper of its own, but zk.zkEnable=false keeps away from it: remove that line, or \
         start without -l and set bindAddress=127.0.0.1"
    )]
    LocalWithoutZooKeeper,
    /// Local mode with a ZooKeeper elsewhere.
    #[error(transparent)]
    NotLocal(#[from] NotLocal),
    /// The ZooKeeper of local mode.
    #[error(transparent)]
    LocalServer(#[from] LocalServerError),
}

/// Why a stopped broker may have lost something.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The message store could not make everything durable.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A running broker. [`stop`](Self::stop) it: dropping it only ends accepting and reading, soon after which its
/// directories are free again; what is unflushed then is left so, and nodes in ZooKeeper are left to the session's end.
#[derive(Debug)]
pub struct Broker {
    control: BrokerControl,
    store: Arc<Store>,
    processor: Arc<Processor>,
    retention: Retention,
    registration: Option<Registration>,
    local_zookeeper: Option<LocalServer>,
    sync_time: Duration,
    connections: TaskTracker,
    stop: CancellationToken,
    abort: CancellationToken,
    _stop_when_dropped: DropGuard,
}

impl Broker {
    /// Loads the store, opens the port and begins to register. Returns when clients can connect; that ZooKeeper cannot
    /// be reached does not keep it from serving.
    ///
    /// # Errors
    /// Whatever keeps it from serving at all. Nothing is left running then.
    pub async fn start(config: ServerConfig, options: BrokerOptions) -> Result<Self, StartError> {
        let config = Arc::new(config);
        let coordination = coordination(&config.zookeeper)?;
        let local_addresses = match (&coordination, options.local) {
            (Some((_, connect)), true) => Some(LocalAddresses::of(connect)?),
            (None, true) => return Err(StartError::LocalWithoutZooKeeper),
            (_, false) => None,
        };
        let store = open_store(&config).await?;
        let bind_address = bind_address(&config, options);
        let listener = match listener::bind(bind_address, config.system.server_port) {
            Ok(listener) => listener,
            Err(source) => {
                close(&store).await?;
                let address = SocketAddr::new(bind_address, config.system.server_port);
                return Err(StartError::Listen { address, source });
            }
        };
        let places = Places::of(&config, options, &store);
        let local_zookeeper = match &local_addresses {
            None => None,
            // Its files are under the lock of the store's directory.
            Some(addresses) => {
                let dir = store.transactions_dir().join(local::DIRECTORY);
                match LocalServer::start(addresses, &dir, Arc::new(OsFileSystem), places.zookeeper).await {
                    Ok(server) => Some(server),
                    Err(error) => {
                        close(&store).await?;
                        return Err(error.into());
                    }
                }
            }
        };
        Self::serve(config, options, store, listener, places.clients, local_zookeeper, coordination)
    }

    fn serve(
        config: Arc<ServerConfig>,
        options: BrokerOptions,
        store: Arc<Store>,
        listener: TcpListener,
        max_connections: usize,
        local_zookeeper: Option<LocalServer>,
        coordination: Option<(Root, ConnectString)>,
    ) -> Result<Self, StartError> {
        let address = listener.local_addr().map_err(|source| StartError::Listen {
            address: SocketAddr::new(config.metaq.bind_address, config.system.server_port),
            source,
        })?;
        let host = match &config.system.host_name {
            Some(host) => host.clone(),
            None if options.local => Ipv4Addr::LOCALHOST.to_string(),
            None => default_host(),
        };
        let url = BrokerUrl::new(&host, address.port());
        let identity = Identity { id: config.system.broker_id, url: url.clone() };
        let topics = Arc::new(Topics::new(Arc::clone(&config), &identity, &store));
        let processor = Arc::new(Processor::new(identity, Arc::clone(&topics), Arc::clone(&store)));
        let reactors = Reactors::start(io_threads(&config), &processor).map_err(StartError::Thread)?;
        let retention =
            Retention::start(Arc::<Topics>::clone(&topics), Arc::clone(&store)).map_err(StartError::Thread)?;
        let connections = TaskTracker::new();
        let (stop, abort) = (CancellationToken::new(), CancellationToken::new());
        let acceptor = Acceptor {
            processor: Arc::clone(&processor),
            reactors,
            limits: connection_limits(&config),
            max_connections,
            connections: connections.clone(),
            stop: stop.clone(),
            abort: abort.clone(),
        };
        tokio::spawn(acceptor.run(listener));
        info!(%address, %url, "serving");
        let registration = coordination.map(|(root, connect)| {
            let coordinator = Arc::new(ZooKeeper::start(ZooKeeperOptions {
                connect,
                session_timeout: Duration::from_millis(config.zookeeper.session_timeout_ms.into()),
            }));
            Registration::start(coordinator, root, topics.desired(), RegistrationOptions::default())
        });
        let control = BrokerControl::new(Parts {
            processor: Arc::clone(&processor),
            registration: registration.as_ref().map(Registration::state),
            address,
            max_connections,
            retention: retention.handle(),
            local: options.local,
        });
        let sync_time = sync_time(&config.zookeeper, options);
        let _stop_when_dropped = stop.clone().drop_guard();
        Ok(Self {
            control,
            store,
            processor,
            retention,
            registration,
            local_zookeeper,
            sync_time,
            connections,
            stop,
            abort,
            _stop_when_dropped,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.control.address()
    }

    /// The address that it publishes.
    pub fn url(&self) -> &BrokerUrl {
        self.control.url()
    }

    /// What operators' interfaces work with.
    pub fn control(&self) -> BrokerControl {
        self.control.clone()
    }

    /// Returns when it is registered in ZooKeeper for the first time; at once if it is not to be.
    ///
    /// # Errors
    /// [`IdConflict`] if another broker has its id: it must not go on.
    pub async fn registered(&self) -> Result<(), IdConflict> {
        match &self.registration {
            Some(registration) => registration.registered().await,
            None => Ok(()),
        }
    }

    /// Stops: everything that was answered stays, what is on its way is answered. `hurry` cuts the waiting for clients
    /// short, nothing else.
    ///
    /// # Errors
    /// When messages may be lost because a disk failed.
    pub async fn stop(self, hurry: CancellationToken) -> Result<(), StopError> {
        self.control.note_stopping();
        self.retention.request_stop();
        if let Some(registration) = self.registration {
            let was_registered = matches!(*registration.state().borrow(), RegistrationState::Registered);
            let in_a_hurry = async {
                hurry.cancelled().await;
                tokio::time::sleep(HURRIED_UNREGISTER_TIME).await;
            };
            tokio::select! {
                // What remains is in the log already.
                _remains = registration.unregister(UNREGISTER_TIME) => {}
                () = in_a_hurry => info!("left to the end of the session: the nodes in zookeeper"),
            }
            if was_registered {
                info!(pause = ?self.sync_time, "unregistered; serving on until clients have noticed");
                let _ = tokio::time::timeout(self.sync_time, hurry.cancelled()).await;
            }
        }
        self.processor.stop_serving();
        let retention = self.retention;
        blocking(move || retention.stop()).await;
        if let Some(server) = self.local_zookeeper {
            // Before the store lets go of the lock on its directory.
            server.stop().await;
        }
        let closed = close(&self.store).await;
        self.stop.cancel();
        self.connections.close();
        tokio::select! {
            () = self.connections.wait() => {}
            () = hurry.cancelled() => {}
            () = tokio::time::sleep(FAREWELL_TIME) => {
                warn!(connections = self.connections.len(), "dropping connections that do not take their answers");
            }
        }
        self.abort.cancel();
        self.connections.wait().await;
        info!("stopped");
        Ok(closed?)
    }
}

/// What the store of a broker with this configuration is opened with.
pub fn store_options(config: &Arc<ServerConfig>) -> StoreOptions {
    let of_topic = Arc::clone(config);
    let topic_settings: TopicSettingsOf =
        Arc::new(move |topic: &TopicName| store_settings(settings_of(&of_topic, topic)));
    let system = &config.system;
    let topic_data_paths = config.topics.iter().map(|topic| &topic.settings.data_path);
    StoreOptions {
        data_path: system.data_path.clone(),
        topic_data_paths: topic_data_paths.filter(|&path| *path != system.data_path).cloned().collect(),
        data_log_path: system.data_log_path.clone(),
        broker_id: system.broker_id,
        max_segment_size: system.max_segment_size.into(),
        max_transfer_size: system.max_transfer_size,
        free_space_warning_bytes: config.metaq.free_space_warning_bytes,
        commit_log_file_bytes: config.metaq.commit_log_file_bytes,
        commit_log_files: config.metaq.commit_log_files,
        topic_settings,
    }
}

async fn open_store(config: &Arc<ServerConfig>) -> Result<Arc<Store>, StoreError> {
    let options = store_options(config);
    blocking(move || Store::open(options, Arc::new(OsFileSystem))).await.map(Arc::new)
}

async fn close(store: &Arc<Store>) -> Result<(), StoreError> {
    let store = Arc::clone(store);
    blocking(move || store.close()).await
}

/// Runs something that waits for disks away from the threads that serve connections.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        // It is never cancelled, so it can only have panicked, and then so must its caller.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// How many connections there may be at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Places {
    clients: usize,
    /// Of the ZooKeeper of local mode.
    zookeeper: usize,
}

impl Places {
    /// As many as configured, or as the process has descriptors for beside its segments: the store must not run out of
    /// them because clients do not.
    fn of(config: &ServerConfig, options: BrokerOptions, store: &Store) -> Self {
        let segments = store.partitions().iter().map(|partition| partition.segment_count()).sum();
        Self::among(getrlimit(Resource::Nofile).current, segments, config.metaq.max_connections, options.local)
    }

    fn among(descriptors: Option<u64>, segments: usize, configured: usize, local: bool) -> Self {
        let Some(descriptors) = descriptors else {
            return Self { clients: configured, zookeeper: local::MAX_CONNECTIONS };
        };
        let taken = DESCRIPTORS_KEPT + segments as u64;
        let room = usize::try_from(descriptors.saturating_sub(taken)).unwrap_or(usize::MAX);
        let zookeeper = if local { (room / ZOOKEEPER_SHARE).clamp(MIN_CONNECTIONS, local::MAX_CONNECTIONS) } else { 0 };
        let room = room.saturating_sub(zookeeper).max(MIN_CONNECTIONS);
        if room < configured {
            warn!(
                configured,
                room,
                descriptors,
                segments,
                "fewer connections than maxConnections: raise the limit of open files (ulimit -n, LimitNOFILE)"
            );
        }
        Self { clients: configured.min(room), zookeeper }
    }
}

fn io_threads(config: &ServerConfig) -> usize {
    match config.metaq.io_threads {
        0 => default_threads(),
        configured => configured,
    }
}

fn bind_address(config: &ServerConfig, options: BrokerOptions) -> IpAddr {
    let address = config.metaq.bind_address;
    if options.local && address.is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { address }
}

fn connection_limits(config: &ServerConfig) -> ConnectionLimits {
    let metaq = &config.metaq;
    ConnectionLimits {
        frames: Limits { line_bytes: metaq.max_command_line_bytes, body_bytes: metaq.max_body_bytes },
        in_flight_bytes: metaq.max_in_flight_bytes_per_connection,
        idle_timeout: Duration::from_millis(metaq.connection_idle_timeout_ms),
    }
}

/// How to reach ZooKeeper, `None` if the broker is to keep away from it.
fn coordination(zookeeper: &ZooKeeperConfig) -> Result<Option<(Root, ConnectString)>, StartError> {
    if !zookeeper.enable {
        return Ok(None);
    }
    // The configuration calls the top of the tree the empty text.
    let root = if zookeeper.root.is_empty() { "/" } else { &zookeeper.root };
    Ok(Some((root.parse()?, zookeeper.connect.parse()?)))
}

fn sync_time(zookeeper: &ZooKeeperConfig, options: BrokerOptions) -> Duration {
    let configured = Duration::from_millis(zookeeper.sync_time_ms.into());
    if options.local { configured.min(LOCAL_SYNC_TIME) } else { configured }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_to_the_store_whoever_they_are_of() {
        for (descriptors, segments) in [(600, 0), (1_024, 40), (1_024, 700), (65_536, 1_000), (1 << 20, 5)] {
            for local in [false, true] {
                let Places { clients, zookeeper } = Places::among(Some(descriptors), segments, 10_000, local);
                let all = (clients + zookeeper) as u64 + segments as u64 + DESCRIPTORS_KEPT;
                let least = (2 * MIN_CONNECTIONS) as u64 + segments as u64 + DESCRIPTORS_KEPT;
                assert!(all <= descriptors.max(least), "{descriptors} {segments}: {clients} and {zookeeper}");
                assert!(clients >= MIN_CONNECTIONS && (zookeeper >= MIN_CONNECTIONS) == local);
            }
        }
        let plenty = Places { clients: 10_000, zookeeper: local::MAX_CONNECTIONS };
        assert_eq!(Places::among(Some(1 << 20), 5, 10_000, true), plenty);
        assert_eq!(Places::among(None, 5, 10_000, true), plenty);
    }
}
