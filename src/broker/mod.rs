//! The broker: listener, connections, command processors, life cycle (01 §8, §10, §13; 03 §11).
//!
//! | part | what it does |
//! |---|---|
//! | `lifecycle` | [`Broker`]: start and stop, in the order that clients rely on |
//! | `listener`, `connection`, `outbound`, `transfer` | sockets: accepting, reading commands in, sending answers and regions of files out |
//! | `reactors`, `reactor` | the threads that serve connections, and what the connections of one share |
//! | `batch` | what one pass over a connection's input brought |
//! | `held` | gets that wait for messages |
//! | `processor` | carrying out commands |
//! | `refusal` | every answer that is no success, with its text |
//! | `routes` | where puts of a topic go, found once |
//! | `reload` | taking over a changed configuration file |
//! | `topics` | which topics are served, and which ZooKeeper is to show |
//! | `retention` | when old segments are looked for, and for which topics |
//! | `counters`, `realtime` | what `stats` and the metrics tell |
//! | `control`, `status`, `topic_status` | [`BrokerControl`]: what operators' interfaces may know and do |

mod batch;
mod connection;
mod control;
mod counters;
mod held;
mod identity;
mod lifecycle;
mod listener;
mod outbound;
mod processor;
mod reactor;
mod reactors;
mod realtime;
mod refusal;
mod reload;
mod retention;
mod room;
mod routes;
mod status;
mod topic_status;
mod topics;
mod transfer;
mod unsent;

pub use control::{BrokerControl, PartitionsError};
pub use counters::Traffic;
pub use lifecycle::{Broker, BrokerOptions, StartError, StopError, store_options};
pub use reload::{LastReload, ReloadError, ReloadReport};
pub use retention::RetentionTotals;
pub use status::{
    BrokerStatus, ClosedRange, FailedStatus, HealthStatus, LowSpaceStatus, RegistrationStatus, ReloadStatus,
    RetentionStatus,
};
pub use topic_status::{PartitionStatus, SettingsStatus, TopicStatus};
