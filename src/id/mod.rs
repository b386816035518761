//! Names and positions, each a type of its own so that no bare number crosses a function.

mod broker;
mod group;
mod number;
mod topic;

pub use broker::{BrokerId, BrokerUrl, InvalidBrokerUrl, InvalidPartition, Partition, TopicPartition};
pub use group::{GroupName, InvalidGroupName};
pub use number::{MessageId, Offset, PartitionIndex};
pub use topic::{InvalidTopicName, TopicName};
