//! The group and its topics as ZooKeeper shows them (04 §9, §11, 05 §5).

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::nodes::Nodes;
use crate::id::{Partition, PartitionIndex, TopicName};
use crate::rebalance::{TopicGroup, sorted_consumers, sorted_partitions};
use crate::zk::format::{TopicBroker, parse_subscriptions};
use crate::zk::{CoordinatorError, Node, NodeKind, TopicChild, TopicTree, Watch, optional};

/// Nodes that are read at the same time.
const READS_IN_FLIGHT: usize = 64;
/// Attempts at a directory that somebody else deletes at the same time.
const ATTEMPTS: usize = 3;

/// Lists that are watched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum List {
    /// The members of the group.
    Members,
    /// The brokers that offer a topic.
    Topic(TopicName),
}

/// What a reading has found.
#[derive(Debug)]
pub(super) struct View {
    /// Whether our own id node is there, and of this session.
    pub(super) is_member: bool,
    /// Each topic that we subscribe to.
    pub(super) topics: BTreeMap<TopicName, TopicGroup>,
    /// The partitions of each topic that have an owner node.
    pub(super) owned: BTreeMap<TopicName, BTreeSet<Partition>>,
    /// Nodes that cannot be read, and why.
    pub(super) damaged: Vec<(String, String)>,
    /// Newly armed watches.
    pub(super) watches: Vec<(List, Watch)>,
}

#[derive(Debug)]
struct Members {
    is_member: bool,
    consumers: BTreeMap<TopicName, Vec<String>>,
    watch: Option<Watch>,
}

#[derive(Debug)]
struct Brokers {
    partitions: Vec<Partition>,
    damaged: Vec<(String, String)>,
    watch: Option<Watch>,
}

impl Nodes {
    /// Reads everything that a plan needs. Lists in `armed` are watched already.
    pub(super) async fn view(self, armed: BTreeSet<List>) -> Result<View, CoordinatorError> {
        let nodes = Arc::new(self);
        let topics: Vec<_> = nodes.membership.topics.iter().cloned().collect();
        let watched: Vec<_> = topics.iter().map(|topic| armed.contains(&List::Topic(topic.clone()))).collect();
        let reading = nodes.clone();
        let each_topic = each(topics.iter().cloned().zip(watched), move |(topic, watched)| {
            let nodes = reading.clone();
            async move { tokio::try_join!(nodes.brokers(&topic, watched), nodes.owned(&topic)) }
        });
        let (mut members, each_topic) = tokio::try_join!(nodes.members(armed.contains(&List::Members)), each_topic)?;
        let mut view = View {
            is_member: members.is_member,
            topics: BTreeMap::new(),
            owned: BTreeMap::new(),
            damaged: Vec::new(),
            watches: members.watch.map(|watch| (List::Members, watch)).into_iter().collect(),
        };
        for (topic, (brokers, owned)) in topics.into_iter().zip(each_topic) {
            let consumers = sorted_consumers(members.consumers.remove(&topic).unwrap_or_default());
            view.damaged.extend(brokers.damaged);
            view.watches.extend(brokers.watch.map(|watch| (List::Topic(topic.clone()), watch)));
            view.topics.insert(topic.clone(), TopicGroup { consumers, partitions: brokers.partitions });
            view.owned.insert(topic, owned);
        }
        Ok(view)
    }

    /// A member that vanishes between the list and its read is just gone: its going has fired the watch.
    async fn members(self: &Arc<Self>, watched: bool) -> Result<Members, CoordinatorError> {
        let (names, watch) = self.list(&self.root.members(&self.membership.group), watched).await?;
        let mut members = Members { is_member: false, consumers: BTreeMap::new(), watch };
        let nodes = self.clone();
        let read = each(names, move |name| {
            let nodes = nodes.clone();
            async move {
                let node = nodes.read(&nodes.root.member(&nodes.membership.group, &name)).await?;
                Ok((name, node))
            }
        });
        for (name, node) in read.await? {
            let Some(node) = node else { continue };
            if name == self.membership.consumer_id {
                members.is_member = node.stat.ephemeral_owner == Some(self.session);
            }
            // Java members take what is no text as replacement characters, which no topic of ours has.
            let text = String::from_utf8_lossy(&node.data);
            for topic in parse_subscriptions(text.as_bytes()).unwrap_or_default() {
                members.consumers.entry(topic).or_default().push(name.clone());
            }
        }
        Ok(members)
    }

    /// Masters and slaves alike; what cannot be read is left out, as every reader does.
    async fn brokers(self: &Arc<Self>, topic: &TopicName, watched: bool) -> Result<Brokers, CoordinatorError> {
        let directory = self.root.topic(TopicTree::Subscribe, topic);
        let (names, watch) = self.list(&directory, watched).await?;
        let nodes = self.clone();
        let read = each(names, move |name| {
            let (nodes, path) = (nodes.clone(), format!("{directory}/{name}"));
            async move {
                let child = TopicChild::parse(&name);
                let node = if child.is_some() { nodes.read(&path).await? } else { None };
                Ok((path, child, node))
            }
        });
        let mut partitions = BTreeSet::new();
        let mut damaged = Vec::new();
        for (path, child, node) in read.await? {
            let (Some(child), node) = (child, node) else {
                damaged.push((path, "its name is not of the form <broker>-m".to_owned()));
                continue;
            };
            match node.map(|node| TopicBroker::parse(&node.data)) {
                None => {}
                Some(Ok(share)) => partitions.extend(
                    (0..share.partitions)
                        .filter_map(|index| i32::try_from(index).ok())
                        .map(|index| Partition { broker: child.broker, index: PartitionIndex::new(index) }),
                ),
                Some(Err(reason)) => damaged.push((path, reason.to_string())),
            }
        }
        Ok(Brokers { partitions: sorted_partitions(partitions), damaged, watch })
    }

    async fn owned(&self, topic: &TopicName) -> Result<BTreeSet<Partition>, CoordinatorError> {
        let path = self.root.owners(&self.membership.group, topic);
        self.present("list", &path)?;
        let names = optional(self.coordinator.children(&path).await)?.unwrap_or_default();
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// The children of a directory, which is made if it is missing.
    async fn list(&self, path: &str, watched: bool) -> Result<(Vec<String>, Option<Watch>), CoordinatorError> {
        for _ in 0..ATTEMPTS {
            self.present("list", path)?;
            let listed = if watched {
                self.coordinator.children(path).await.map(|names| (names, None))
            } else {
                self.coordinator.watch_children(path).await.map(|(names, watch)| (names, Some(watch)))
            };
            match listed {
                Err(CoordinatorError::NoNode(_)) => {}
                result => return result,
            }
            match self.coordinator.create(path, b"", NodeKind::Persistent).await {
                Ok(()) | Err(CoordinatorError::NodeExists(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(CoordinatorError::NoNode(path.to_owned()))
    }

    async fn read(&self, path: &str) -> Result<Option<Node>, CoordinatorError> {
        self.present("read", path)?;
        optional(self.coordinator.get(path).await)
    }
}

/// Does the same with each item, with several at the same time; the results are in the order of the items. The first
/// failure ends it.
async fn each<I, T, F>(
    items: impl IntoIterator<Item = I>,
    mut work: impl FnMut(I) -> F,
) -> Result<Vec<T>, CoordinatorError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, CoordinatorError>> + Send + 'static,
{
    let mut running = JoinSet::new();
    let mut results = BTreeMap::new();
    for (number, item) in items.into_iter().enumerate() {
        if running.len() >= READS_IN_FLIGHT {
            finished(&mut running, &mut results).await?;
        }
        let work = work(item);
        running.spawn(async move { (number, work.await) });
    }
    while !running.is_empty() {
        finished(&mut running, &mut results).await?;
    }
    Ok(results.into_values().collect())
}

async fn finished<T: 'static>(
    running: &mut JoinSet<(usize, Result<T, CoordinatorError>)>,
    results: &mut BTreeMap<usize, T>,
) -> Result<(), CoordinatorError> {
    match running.join_next().await {
        None => {}
        Some(Ok((number, result))) => _ = results.insert(number, result?),
        Some(Err(error)) => {
            return Err(CoordinatorError::Unknown {
                operation: "read",
                path: "nodes of the group".to_owned(),
                reason: error.to_string(),
            });
        }
    }
    Ok(())
}
