//! The client library: session factory, connections to brokers and discovery (07).
//!
//! | part | what it does |
//! |---|---|
//! | [`MessageSessionFactory`] | the entrance; everything it makes shares connections and a session with ZooKeeper |
//! | [`ClientConfig`] | its settings |
//! | [`ClientEvent`], [`ClientMetrics`] | what an application can see of it |
//! | [`BrokerClient`] | what one can ask a single broker, in messages and offsets |
//! | [`Connection`] | any number of requests at once over one TCP connection, answers matched by opaque |

mod broker_client;
mod config;
mod connection;
mod connections;
mod consumer;
mod directory;
mod error;
mod events;
mod factory;
mod metrics;
mod session;
mod stats;
mod upkeep;

pub use broker_client::{BrokerClient, Fetched, OffsetRange, PendingPut, Sent, TopicOffsets};
pub use config::{
    AddressMapping, ClientConfig, ConfigError, DEFAULT_CONNECT_TIMEOUT, DEFAULT_RECONNECT_BACKOFF,
    DEFAULT_REQUEST_TIMEOUT, DEFAULT_ZK_CONNECTION_TIMEOUT, DEFAULT_ZK_SESSION_TIMEOUT, DEFAULT_ZK_SYNC_TIME,
};
pub use connection::{Connection, ConnectionOptions, Heartbeat, PendingAnswer};
pub use consumer::{
    Action, BatchListener, Consumer, ConsumerConfig, ConsumerError, Delivery, DropRejected, Fetch, IntoAction,
    LogRejected, MessageBatch, MessageFilter, MessageListener, MessageStream, RebalanceListener, RejectHandler,
    SubscribeOptions,
};
pub use error::{ClientError, Fault, NoAnswer, Outcome};
pub use events::{ClientEvent, EVENT_CAPACITY};
pub use factory::MessageSessionFactory;
pub use metrics::ClientMetrics;
pub use stats::BrokerStats;

pub use crate::fetch::{FileOffsets, OffsetStorage, ReceivedMessage, SeekTo, SeenMessages};
