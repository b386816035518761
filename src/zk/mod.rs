//! The coordinator: the seam to ZooKeeper, node paths and formats, registration of a broker, the cluster as clients see
//! it (04).
//!
//! | part | what it does |
//! |---|---|
//! | [`Coordinator`] | the seam: calls, one-shot watches, the session's state |
//! | [`ZooKeeper`] | the production implementation, a session kept up for ever |
//! | [`Root`], [`TopicTree`], [`TopicChild`] | node paths and names |
//! | [`format`](mod@format) | node data |
//! | [`Registration`] | keeps a broker's nodes as they should be |
//! | [`Cluster`] | partitions of a topic, addresses of masters |
//! | [`Lease`] | until when a session is known to live |
//! | `local` | a ZooKeeper of our own for local mode; with the feature `broker` |

mod backoff;
mod client;
mod cluster;
mod connect;
mod coordinator;
mod error;
pub mod format;
#[cfg(feature = "client")]
mod lease;
#[cfg(feature = "broker")]
pub mod local;
#[cfg(feature = "client")]
mod ownership;
mod paths;
mod registration;

#[cfg(feature = "client")]
pub(crate) use backoff::Backoff;
pub use client::{CALL_TIMEOUT, CLOSE_TIMEOUT, ZooKeeper, ZooKeeperOptions};
pub use cluster::{BrokerAddresses, Cluster, ClusterError};
pub use connect::{ConnectString, DEFAULT_PORT, InvalidConnectString};
pub use coordinator::{
    Call, Coordinator, Node, NodeKind, NodeStat, Session, SessionId, SessionState, Watch, WatchEvent, connected,
};
#[cfg(feature = "client")]
pub(crate) use error::optional;
pub use error::{CoordinatorError, NotConnected};
#[cfg(feature = "client")]
pub use lease::{Lease, Term};
#[cfg(feature = "client")]
pub(crate) use ownership::is_owned_by;
pub use paths::{InvalidRoot, Root, TopicChild, TopicTree, master_child};
pub use registration::{
    COMPARE_PERIOD, DesiredState, IdConflict, Registration, RegistrationOptions, RegistrationState, TopicRegistration,
    Unregistered,
};
