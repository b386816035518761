//! Settings of a session factory (07 §2).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::id::{BrokerUrl, InvalidBrokerUrl};
use crate::protocol::Limits;
use crate::zk::{ConnectString, InvalidConnectString, InvalidRoot, Root};

use super::connection::{ConnectionOptions, Heartbeat};
use super::metrics::{ClientMetrics, Guarded, NoMetrics};

/// Session time-out to ask ZooKeeper for (`zkSessionTimeoutMs`).
pub const DEFAULT_ZK_SESSION_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest wait for ZooKeeper when a factory starts (`zkConnectionTimeoutMs`).
pub const DEFAULT_ZK_CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a change in ZooKeeper may take to reach everybody (`zkSyncTimeMs`).
pub const DEFAULT_ZK_SYNC_TIME: Duration = Duration::from_secs(5);
/// Longest wait for the TCP connection to a broker.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for an answer where nothing else is said.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before a broker that could not be reached is tried again.
pub const DEFAULT_RECONNECT_BACKOFF: Duration = Duration::from_secs(2);

/// Settings of a [`MessageSessionFactory`](super::MessageSessionFactory): made by [`zookeeper`](Self::zookeeper) or
/// [`server`](Self::server), then refined.
///
/// ```
/// # use std::time::Duration;
/// # use metaq::client::ClientConfig;
/// let config = ClientConfig::zookeeper("10.0.0.1:2181,10.0.0.2:2181/metaq")?.zk_session_timeout(Duration::from_secs(6));
/// # Ok::<_, metaq::client::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct ClientConfig {
    target: Target,
    root: Root,
    zk_session_timeout: Duration,
    zk_connection_timeout: Duration,
    zk_sync_time: Duration,
    connection: ConnectionOptions,
    reconnect_backoff: Duration,
    address_mapping: Option<AddressMapping>,
    metrics: Arc<dyn ClientMetrics>,
}

/// How the brokers are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// Through the ZooKeeper that knows them.
    ZooKeeper(ConnectString),
    /// One broker by its address.
    Server(BrokerUrl),
}

/// Where to connect to instead of a published address.
pub type AddressMapping = Arc<dyn Fn(&BrokerUrl) -> BrokerUrl + Send + Sync>;

/// A setting that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No server at all.
    #[error("Empty zookeeper servers: name them as host:port,host:port/directory")]
    NoServers,
    /// Not a list of servers.
    #[error(transparent)]
    Connect(#[from] InvalidConnectString),
    /// Not a directory in ZooKeeper.
    #[error(transparent)]
    Root(#[from] InvalidRoot),
    /// Not a broker's address.
    #[error(transparent)]
    Server(#[from] InvalidBrokerUrl),
    /// A number that is out of range.
    #[error("{name} must be {expected}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// What it can be.
        expected: &'static str,
    },
}

impl ClientConfig {
    /// Brokers that ZooKeeper knows. `servers` is `host:port,host:port/directory` (`zkConnect`); the port may be left out.
    ///
    /// # Errors
    /// [`ConfigError::NoServers`], [`ConfigError::Connect`].
    pub fn zookeeper(servers: &str) -> Result<Self, ConfigError> {
        if servers.trim().is_empty() {
            return Err(ConfigError::NoServers);
        }
        Ok(Self::to(Target::ZooKeeper(servers.parse()?)))
    }

    /// One broker by its address, `meta://host:port` or `host:port` (`serverUrl`), without ZooKeeper: that broker chooses
    /// the partition of each message, and there are no consumer groups.
    ///
    /// # Errors
    /// [`ConfigError::Server`].
    pub fn server(address: &str) -> Result<Self, ConfigError> {
        let address = address.trim();
        let url =
            if address.starts_with("meta://") { address.parse()? } else { format!("meta://{address}").parse()? };
        Ok(Self::to(Target::Server(url)))
    }

    fn to(target: Target) -> Self {
        Self {
            target,
            root: Root::default(),
            zk_session_timeout: DEFAULT_ZK_SESSION_TIMEOUT,
            zk_connection_timeout: DEFAULT_ZK_CONNECTION_TIMEOUT,
            zk_sync_time: DEFAULT_ZK_SYNC_TIME,
            connection: ConnectionOptions {
                connect_timeout: DEFAULT_CONNECT_TIMEOUT,
                request_timeout: DEFAULT_REQUEST_TIMEOUT,
                limits: Limits::default(),
                heartbeat: Some(Heartbeat::default()),
            },
            reconnect_backoff: DEFAULT_RECONNECT_BACKOFF,
            address_mapping: None,
            metrics: Arc::new(NoMetrics),
        }
    }

    /// Directory of the cluster's nodes in ZooKeeper (`zkRoot`); `/meta` if not set.
    ///
    /// # Errors
    /// [`ConfigError::Root`].
    pub fn zk_root(mut self, root: &str) -> Result<Self, ConfigError> {
        self.root = root.parse()?;
        Ok(self)
    }

    /// Session time-out to ask ZooKeeper for (`zkSessionTimeoutMs`), 30 s if not set; the servers may grant another one.
    /// A member of a group that dies is noticed after it.
    #[must_use]
    pub fn zk_session_timeout(mut self, timeout: Duration) -> Self {
        self.zk_session_timeout = timeout;
        self
    }

    /// Longest wait for ZooKeeper when the factory starts (`zkConnectionTimeoutMs`), 30 s if not set. Afterwards a
    /// lost ZooKeeper is waited for without end.
    #[must_use]
    pub fn zk_connection_timeout(mut self, timeout: Duration) -> Self {
        self.zk_connection_timeout = timeout;
        self
    }

    /// How long a change in ZooKeeper may take to reach everybody (`zkSyncTimeMs`), 5 s if not set. Only members of a group
    /// on the JVM wait so long, between two attempts to claim partitions; nothing of this library does.
    #[must_use]
    pub fn zk_sync_time(mut self, time: Duration) -> Self {
        self.zk_sync_time = time;
        self
    }

    /// Longest wait for the TCP connection to a broker, 10 s if not set.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connection.connect_timeout = timeout;
        self
    }

    /// Longest wait for an answer where no other time-out is given, 10 s if not set.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.connection.request_timeout = timeout;
        self
    }

    /// When a silent connection is asked for a sign of life, and when it is given up; `None` never asks. If not set:
    /// after 10 s, 5 s for the answer, given up after the third failure in a row (01 §13.2).
    #[must_use]
    pub fn heartbeat(mut self, heartbeat: Option<Heartbeat>) -> Self {
        self.connection.heartbeat = heartbeat;
        self
    }

    /// Longest line and body that are accepted from a broker.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.connection.limits = limits;
        self
    }

    /// Pause before a broker that could not be reached is tried again, 2 s if not set, a quarter more or less at random.
    /// Meanwhile whoever needs it gets the last error at once; nobody tries while nobody needs it.
    #[must_use]
    pub fn reconnect_backoff(mut self, pause: Duration) -> Self {
        self.reconnect_backoff = pause;
        self
    }

    /// Maps each address that a broker publishes in ZooKeeper to the one to connect to: for brokers in containers or
    /// behind address translation. It is called often and must be quick.
    #[must_use]
    pub fn address_mapping(mut self, map: impl Fn(&BrokerUrl) -> BrokerUrl + Send + Sync + 'static) -> Self {
        self.address_mapping = Some(Arc::new(map));
        self
    }

    /// What counts.
    #[must_use]
    pub fn metrics(mut self, metrics: Arc<dyn ClientMetrics>) -> Self {
        self.metrics = Arc::new(Guarded::new(metrics));
        self
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    pub(super) fn session_timeout(&self) -> Duration {
        self.zk_session_timeout
    }

    pub(super) fn connection_timeout(&self) -> Duration {
        self.zk_connection_timeout
    }

    /// What [`zk_sync_time`](Self::zk_sync_time) was set to.
    pub fn sync_time(&self) -> Duration {
        self.zk_sync_time
    }

    pub(super) fn connection(&self) -> ConnectionOptions {
        self.connection
    }

    pub(super) fn backoff(&self) -> Duration {
        self.reconnect_backoff
    }

    pub(super) fn mapping(&self) -> Option<&AddressMapping> {
        self.address_mapping.as_ref()
    }

    pub(crate) fn metrics_hook(&self) -> &Arc<dyn ClientMetrics> {
        &self.metrics
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig")
            .field("target", &self.target)
            .field("root", &self.root)
            .field("zk_session_timeout", &self.zk_session_timeout)
            .field("zk_connection_timeout", &self.zk_connection_timeout)
            .field("zk_sync_time", &self.zk_sync_time)
            .field("connection", &self.connection)
            .field("reconnect_backoff", &self.reconnect_backoff)
            .field("address_mapping", &self.address_mapping.is_some())
            .field("metrics", &self.metrics)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_reference() {
        let config = ClientConfig::zookeeper("a,b:2182/x").unwrap();
        assert_eq!(config.target(), &Target::ZooKeeper("a:2181,b:2182/x".parse().unwrap()));
        assert_eq!(config.root(), &Root::default());
        let times = [config.session_timeout(), config.connection_timeout(), config.sync_time(), config.backoff()];
        assert_eq!(times.map(|time| time.as_millis()), [30_000, 30_000, 5_000, 2_000]);
        let heartbeat = config.connection().heartbeat.unwrap();
        assert_eq!((heartbeat.idle.as_secs(), heartbeat.timeout.as_secs(), heartbeat.failures), (10, 5, 3));
    }

    #[test]
    fn wrong_addresses_are_refused_with_the_way_out() {
        for servers in ["", "  "] {
            let error = ClientConfig::zookeeper(servers).unwrap_err().to_string();
            assert!(error.starts_with("Empty zookeeper servers"), "{error}");
        }
        assert!(matches!(ClientConfig::zookeeper("a:b"), Err(ConfigError::Connect(_))));
        for address in ["meta://h", "h", ""] {
            assert!(matches!(ClientConfig::server(address), Err(ConfigError::Server(_))), "{address}");
        }
        assert!(matches!(ClientConfig::zookeeper("a").unwrap().zk_root(""), Err(ConfigError::Root(_))));
    }

    #[test]
    fn one_broker_is_given_with_or_without_the_scheme() {
        for address in ["meta://h:1", "h:1", " h:1 "] {
            let config = ClientConfig::server(address).unwrap();
            assert_eq!(config.target(), &Target::Server(BrokerUrl::new("h", 1)), "{address}");
        }
    }
}
