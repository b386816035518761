//! A member of a group that does as the reference does (05 §4–§5), with what is wrong with that: it gives everything up
//! on a conflict, gives up trying until something happens, and deletes owner nodes whoever has them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::client::Client;
use super::reader::Reader;
use crate::id::{Partition, TopicName, TopicPartition};
use crate::rebalance::driver::Membership;
use crate::rebalance::{Assignee, LoadBalanceStrategy, TopicGroup, sorted_consumers, sorted_partitions};
use crate::zk::format::{TopicBroker, parse_subscriptions, subscriptions};
use crate::zk::{Call, Coordinator, CoordinatorError, NodeKind, Root, SessionState, TopicChild, TopicTree};

/// Attempts of one rebalance.
const ATTEMPTS: usize = 7;
/// Before zkclient repeats an operation.
const REPEAT: Duration = Duration::from_millis(100);

/// A running member; gone when dropped, as if it was killed.
#[derive(Debug)]
pub(crate) struct JavaMember {
    leave: CancellationToken,
    _tasks: JoinSet<()>,
}

struct Member {
    client: Arc<Client>,
    root: Root,
    membership: Membership,
    strategy: Arc<dyn LoadBalanceStrategy>,
    reader: Reader,
    sync_time: Duration,
    owned: BTreeSet<TopicPartition>,
    remembered: BTreeMap<TopicName, TopicGroup>,
    generation: u64,
}

impl JavaMember {
    /// `sync_time` is `zk.zkSyncTimeMs`.
    pub(crate) fn start(
        client: Arc<Client>,
        root: Root,
        membership: Membership,
        strategy: Arc<dyn LoadBalanceStrategy>,
        reader: Reader,
        sync_time: Duration,
    ) -> Self {
        let leave = CancellationToken::new();
        let member = Member {
            client,
            root,
            membership,
            strategy,
            reader,
            sync_time,
            owned: BTreeSet::new(),
            remembered: BTreeMap::new(),
            generation: 0,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(member.run(leave.clone()));
        Self { leave, _tasks: tasks }
    }

    /// Shuts it down in the reference's order; goes on by itself.
    pub(crate) fn leave(&self) {
        self.leave.cancel();
    }
}

impl Member {
    async fn run(mut self, leave: CancellationToken) {
        let mut sessions = self.client.session();
        loop {
            let connected = sessions.wait_for(|state| state.connected().is_some()).await.map(|state| state.connected());
            let Ok(Some(session)) = connected else { return };
            self.generation = session.generation;
            self.register().await;
            let mut watches = JoinSet::new();
            self.watch(&mut watches).await;
            self.rebalance().await;
            loop {
                let present = self.generation;
                let is_newer = |state: &SessionState| state.connected().is_some_and(|s| s.generation != present);
                let over = async { _ = sessions.wait_for(is_newer).await };
                tokio::select! {
                    biased;
                    () = leave.cancelled() => return self.unregister().await,
                    () = over => break,
                    _ = watches.join_next() => {
                        watches = JoinSet::new();
                        self.watch(&mut watches).await;
                        self.rebalance().await;
                    }
                }
            }
            // Forgets everything without committing.
            self.reader.lost(&self.reader.reads().into_iter().collect::<Vec<_>>());
            self.owned.clear();
            self.remembered.clear();
        }
    }

    /// Repeats an operation for ever, also in another session.
    async fn repeat<'a, T>(&'a self, call: impl Fn(&'a Client) -> Call<'a, T>) -> Result<T, CoordinatorError> {
        loop {
            self.client.thawed().await;
            match call(&self.client).await {
                Err(error) if !error.is_semantic() => sleep(REPEAT).await,
                result => return result,
            }
        }
    }

    /// Creates an ephemeral node, or takes one of the same data for its own.
    async fn create_or_mine(&self, path: &str, data: &str) -> bool {
        match self.repeat(|client| client.create(path, data.as_bytes(), NodeKind::Ephemeral)).await {
            Ok(()) => true,
            Err(_) => self.repeat(|client| client.get(path)).await.is_ok_and(|node| node.data == data.as_bytes()),
        }
    }

    async fn delete(&self, path: &str) {
        // Missing is as good as deleted.
        let _ = self.repeat(|client| client.delete(path, None)).await;
    }

    async fn register(&self) {
        let path = self.root.member(&self.membership.group, &self.membership.consumer_id);
        let topics = subscriptions(&self.membership.topics);
        for _ in 0..ATTEMPTS {
            if self.create_or_mine(&path, &topics).await {
                return;
            }
            sleep(self.sync_time).await;
        }
    }

    async fn unregister(&mut self) {
        let owned: Vec<_> = std::mem::take(&mut self.owned).into_iter().collect();
        self.reader.release(&owned).await;
        for of in &owned {
            self.delete(&self.root.owner(&self.membership.group, of)).await;
        }
        self.delete(&self.root.member(&self.membership.group, &self.membership.consumer_id)).await;
    }

    async fn watch(&self, watches: &mut JoinSet<()>) {
        let members = self.root.members(&self.membership.group);
        let topics = self.membership.topics.iter().map(|topic| self.root.topic(TopicTree::Subscribe, topic));
        for path in std::iter::once(members).chain(topics) {
            let armed = loop {
                match self.repeat(|client| client.watch_children(&path)).await {
                    Ok((_, watch)) => break watch,
                    Err(_) => _ = self.repeat(|client| client.create(&path, b"", NodeKind::Persistent)).await,
                }
            };
            watches.spawn(async move { _ = armed.await });
        }
    }

    async fn rebalance(&mut self) {
        for _ in 0..ATTEMPTS {
            if self.attempt().await {
                return;
            }
            self.stop_reading().await;
            for of in std::mem::take(&mut self.owned) {
                self.delete(&self.root.owner(&self.membership.group, &of)).await;
            }
            self.remembered.clear();
            sleep(self.sync_time).await;
        }
    }

    async fn stop_reading(&self) {
        let mine: Vec<_> = self.reader.reads().into_iter().collect();
        if !mine.is_empty() {
            self.reader.release(&mine).await;
        }
    }

    async fn attempt(&mut self) -> bool {
        let Some(now) = self.read().await else { return false };
        let is_relevant = |topic: &&TopicName| now.get(*topic) != self.remembered.get(*topic);
        let relevant: Vec<_> = self.membership.topics.iter().filter(is_relevant).cloned().collect();
        if relevant.is_empty() {
            return true;
        }
        self.stop_reading().await;
        let me = self.membership.consumer_id.clone();
        for topic in relevant {
            let wanted = now.get(&topic).map(|group| group.share(&topic, &me, &*self.strategy)).unwrap_or_default();
            let owned: BTreeSet<_> = self.owned.iter().filter(|of| of.topic == topic).cloned().collect();
            for of in owned.difference(&wanted) {
                self.delete(&self.root.owner(&self.membership.group, of)).await;
                self.owned.remove(of);
            }
            for of in wanted.difference(&owned) {
                if !self.create_or_mine(&self.root.owner(&self.membership.group, of), &me).await {
                    return false;
                }
                self.owned.insert(of.clone());
            }
        }
        self.client.thawed().await;
        self.reader.assigned(&self.owned.iter().cloned().collect::<Vec<_>>());
        self.remembered = now;
        true
    }

    /// Consumers and partitions of each topic; `None` if somebody vanishes meanwhile.
    async fn read(&self) -> Option<BTreeMap<TopicName, TopicGroup>> {
        let group = &self.membership.group;
        let mut consumers: BTreeMap<TopicName, Vec<String>> = BTreeMap::new();
        let own = self.root.member(group, &self.membership.consumer_id);
        self.repeat(|client| client.get(&own)).await.ok()?;
        for name in self.children(&self.root.members(group)).await? {
            let path = self.root.member(group, &name);
            let node = self.repeat(|client| client.get(&path)).await.ok()?;
            for topic in parse_subscriptions(&node.data).unwrap_or_default() {
                consumers.entry(topic).or_default().push(name.clone());
            }
        }
        let mut groups = BTreeMap::new();
        for topic in &self.membership.topics {
            let directory = self.root.topic(TopicTree::Subscribe, topic);
            let mut partitions = Vec::new();
            for name in self.children(&directory).await? {
                let path = format!("{directory}/{name}");
                let (Some(child), Ok(node)) = (TopicChild::parse(&name), self.repeat(|client| client.get(&path)).await)
                else {
                    continue;
                };
                let count = TopicBroker::parse(&node.data).map_or(0, |share| share.partitions);
                let indices = 0..i32::try_from(count).unwrap();
                partitions.extend(
                    indices
                        .map(|index| Partition { broker: child.broker, index: crate::id::PartitionIndex::new(index) }),
                );
            }
            let consumers = sorted_consumers(consumers.remove(topic).unwrap_or_default());
            groups.insert(topic.clone(), TopicGroup { consumers, partitions: sorted_partitions(partitions) });
        }
        Some(groups)
    }

    async fn children(&self, path: &str) -> Option<Vec<String>> {
        self.repeat(|client| client.children(path)).await.ok()
    }
}
