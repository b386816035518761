//! The cluster as clients see it (04 §3, §4, §11). Nothing is kept; what is watched is told with each call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tracing::warn;

use crate::id::{BrokerId, BrokerUrl, Partition, PartitionIndex, TopicName};

use super::coordinator::{Coordinator, Watch};
use super::error::{CoordinatorError, optional};
use super::format::{InvalidData, TopicBroker, parse_broker_url};
use super::paths::{Root, TopicChild, TopicTree};

/// Reads partitions and addresses.
#[derive(Debug, Clone)]
pub struct Cluster {
    coordinator: Arc<dyn Coordinator>,
    root: Root,
}

/// Who serves a broker's partitions at present.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BrokerAddresses {
    /// The master, if it is registered.
    pub master: Option<BrokerUrl>,
    /// The slaves by their numbers.
    pub slaves: BTreeMap<u32, BrokerUrl>,
}

/// What is missing or wrong in the cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// No live broker offers the topic for this use.
    #[error(
        "no broker offers topic '{topic}' ({path} has no usable child); check that a broker with this topic is running"
    )]
    NoPartitions {
        /// The topic.
        topic: TopicName,
        /// The directory that was read.
        path: String,
    },
    /// The broker has no live master.
    #[error("broker {broker} has no live master ({path} is missing or blank); start it or check its registration")]
    NoMaster {
        /// The broker.
        broker: BrokerId,
        /// The node that was read.
        path: String,
    },
    /// A node carries what no broker writes.
    #[error("ZooKeeper node {path} is damaged: {reason}; restart the broker that owns it")]
    Damaged {
        /// The node.
        path: String,
        /// What is wrong with it.
        reason: InvalidData,
    },
    /// ZooKeeper did not answer.
    #[error(transparent)]
    Coordinator(#[from] CoordinatorError),
}

impl Cluster {
    /// Reads below `root`.
    pub fn new(coordinator: Arc<dyn Coordinator>, root: Root) -> Self {
        Self { coordinator, root }
    }

    /// The directory below which it reads.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The partitions that producers can send to, those of masters, ordered by broker and number.
    ///
    /// # Errors
    /// [`ClusterError::NoPartitions`] if there is none.
    pub async fn partitions_for_publish(&self, topic: &TopicName) -> Result<Vec<Partition>, ClusterError> {
        let partitions = self.partitions(TopicTree::Publish, topic, |child| child.master).await?;
        Ok(partitions.into_iter().collect())
    }

    /// The same, and a watch that fires when a broker comes, goes or offers another number of partitions. No partition is
    /// an empty list.
    ///
    /// # Errors
    /// [`ClusterError::Coordinator`], also if the topic's node is missing.
    pub async fn watch_partitions_for_publish(
        &self,
        topic: &TopicName,
    ) -> Result<(Vec<Partition>, Watch), ClusterError> {
        let directory = self.root.topic(TopicTree::Publish, topic);
        let (names, watch) = self.coordinator.watch_children(&directory).await?;
        let partitions = self.shares(&directory, names, |child| child.master).await?;
        Ok((partitions.into_iter().collect(), watch))
    }

    /// The partitions that consumers can read from, of masters and slaves alike, in the order of their texts:
    /// `0-10` comes before `0-2`. All members of a group must agree on this order.
    ///
    /// # Errors
    /// [`ClusterError::NoPartitions`] if there is none.
    pub async fn partitions_for_subscribe(&self, topic: &TopicName) -> Result<Vec<Partition>, ClusterError> {
        let partitions = self.partitions(TopicTree::Subscribe, topic, |_| true).await?;
        let mut partitions: Vec<_> = partitions.into_iter().collect();
        partitions.sort_by_cached_key(Partition::to_string);
        Ok(partitions)
    }

    /// The address of a broker's master.
    ///
    /// # Errors
    /// [`ClusterError::NoMaster`] if it is not registered.
    pub async fn master_url(&self, broker: BrokerId) -> Result<BrokerUrl, ClusterError> {
        let path = self.root.master(broker);
        let Some(node) = optional(self.coordinator.get(&path).await)? else {
            return Err(ClusterError::NoMaster { broker, path });
        };
        match parse_broker_url(&node.data) {
            Ok(url) => Ok(url),
            Err(InvalidData::Empty) => Err(ClusterError::NoMaster { broker, path }),
            Err(reason) => Err(ClusterError::Damaged { path, reason }),
        }
    }

    /// The addresses of a broker's master and slaves; none of a broker that is not registered. What is no address is
    /// skipped with a warning.
    ///
    /// # Errors
    /// [`ClusterError::Coordinator`].
    pub async fn broker(&self, broker: BrokerId) -> Result<BrokerAddresses, ClusterError> {
        let directory = self.root.broker(broker);
        let mut addresses = BrokerAddresses::default();
        for name in optional(self.coordinator.children(&directory).await)?.unwrap_or_default() {
            let slave = match name.strip_prefix("slave").map(str::parse::<u32>) {
                None if name == "master" => None,
                None => continue,
                Some(Ok(number)) => Some(number),
                Some(Err(_)) => {
                    warn!(path = format!("{directory}/{name}"), "skip slave without a number");
                    continue;
                }
            };
            let path = format!("{directory}/{name}");
            let Some(node) = optional(self.coordinator.get(&path).await)? else { continue };
            match (parse_broker_url(&node.data), slave) {
                (Ok(url), None) => addresses.master = Some(url),
                (Ok(url), Some(number)) => _ = addresses.slaves.insert(number, url),
                (Err(reason), _) => warn!(path, %reason, "skip unreadable broker node"),
            }
        }
        Ok(addresses)
    }

    async fn partitions(
        &self,
        tree: TopicTree,
        topic: &TopicName,
        wanted: impl Fn(TopicChild) -> bool,
    ) -> Result<BTreeSet<Partition>, ClusterError> {
        let directory = self.root.topic(tree, topic);
        let names = optional(self.coordinator.children(&directory).await)?.unwrap_or_default();
        let partitions = self.shares(&directory, names, wanted).await?;
        if partitions.is_empty() {
            return Err(ClusterError::NoPartitions { topic: topic.clone(), path: directory });
        }
        Ok(partitions)
    }

    /// A child that cannot be read is skipped with a warning, as every reader does; one that vanishes between the list
    /// and its read is just gone.
    async fn shares(
        &self,
        directory: &str,
        names: Vec<String>,
        wanted: impl Fn(TopicChild) -> bool,
    ) -> Result<BTreeSet<Partition>, ClusterError> {
        let mut partitions = BTreeSet::new();
        for name in names {
            let path = format!("{directory}/{name}");
            let Some(child) = TopicChild::parse(&name) else {
                warn!(path, "skip invalid topics path");
                continue;
            };
            if !wanted(child) {
                continue;
            }
            let Some(node) = optional(self.coordinator.get(&path).await)? else { continue };
            match TopicBroker::parse(&node.data) {
                Ok(share) => partitions.extend(
                    (0..share.partitions)
                        .filter_map(|index| i32::try_from(index).ok())
                        .map(|index| Partition { broker: child.broker, index: PartitionIndex::new(index) }),
                ),
                Err(reason) => warn!(path, %reason, "skip unreadable topic node"),
            }
        }
        Ok(partitions)
    }
}
