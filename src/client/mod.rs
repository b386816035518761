//! The client library: session factory, connections to brokers, discovery, producers and consumers (05, 07). The
//! [guide](crate::guide) shows how to use it.
//!
//! | part | what it does |
//! |---|---|
//! | [`MessageSessionFactory`] | the entrance; everything it makes shares connections and a session with ZooKeeper |
//! | [`ClientConfig`] | its settings |
//! | [`Producer`] | sends [`Message`]s to the partitions that a [`PartitionSelector`] chooses |
//! | [`Consumer`] | reads topics, as a member of a group or by hand |
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
mod message;
mod metrics;
mod producer;
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
    Action, BatchListener, Consumer, ConsumerConfig, ConsumerError, DeadLetterTopic, Delivery, DropRejected, Fetch,
    IntoAction, LogRejected, MessageBatch, MessageFilter, MessageListener, MessageStream, RebalanceListener,
    RejectHandler, SubscribeOptions,
};
pub use error::{ClientError, Fault, NoAnswer, Outcome};
pub use events::{ClientEvent, EVENT_CAPACITY};
pub use factory::MessageSessionFactory;
pub use message::Message;
pub use metrics::ClientMetrics;
pub use producer::{
    DEFAULT_IN_FLIGHT_BYTES, DEFAULT_IN_FLIGHT_MESSAGES, DEFAULT_MAX_MESSAGE_BYTES, FixedSelector, HashByKeySelector,
    PartitionSelector, Producer, ProducerConfig, RandomSelector, Retries, RoundRobinSelector, SEND_TIMEOUT, SendHandle,
    SendResult,
};
pub use stats::BrokerStats;

pub use crate::fetch::{FileOffsets, MessageIdCache, OffsetStorage, ReceivedMessage, RecentMessages, SeekTo};
