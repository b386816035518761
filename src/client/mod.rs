//! Connections to a broker and what one can ask it: the seed of the client library.
//!
//! [`Connection`] carries any number of requests at once over one TCP connection and matches answers by opaque;
//! [`BrokerClient`] speaks in messages and offsets on top of it.

mod broker_client;
mod connection;
mod error;

pub use broker_client::{BrokerClient, Fetched, OffsetRange, PendingPut, Sent, TopicOffsets};
pub use connection::{Connection, ConnectionOptions, PendingAnswer};
pub use error::{ClientError, Outcome};
