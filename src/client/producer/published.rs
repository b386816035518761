//! Topics that are published: their partitions, kept fresh (07 §4).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::{OnceCell, watch};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

use crate::client::ClientError;
use crate::client::events::ClientEvent;
use crate::client::session::Session;
use crate::common::guard::lock;
use crate::id::{BrokerId, Partition, TopicName};
use crate::zk::{
    Backoff, Cluster, ClusterError, Coordinator, CoordinatorError, NodeKind, SessionState, TopicTree, Watch,
};

/// First and longest pause before partitions are read again after a failure.
const REREAD: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The topics of one factory. A topic is kept up as long as a producer holds it.
#[derive(Debug, Default)]
pub(crate) struct PublishedTopics {
    topics: Mutex<HashMap<TopicName, Weak<PublishedTopic>>>,
    /// The topic that lends its partitions to those that are not published.
    default: Mutex<Option<(TopicName, Arc<PublishedTopic>)>>,
}

/// One topic.
#[derive(Debug, Default)]
pub(crate) struct PublishedTopic {
    /// Made by the first publish that succeeds.
    kept_up: OnceCell<KeptUp>,
}

#[derive(Debug)]
struct KeptUp {
    partitions: watch::Receiver<Arc<[Partition]>>,
    _task: AbortOnDropHandle<()>,
}

impl PublishedTopic {
    /// The partitions now, sorted by broker and number; none while no broker offers the topic.
    pub(super) fn partitions(&self) -> Arc<[Partition]> {
        self.kept_up
            .get()
            .map_or_else(|| Arc::new([]) as Arc<[Partition]>, |kept_up| kept_up.partitions.borrow().clone())
    }
}

impl PublishedTopics {
    /// Publishes a topic, or joins those who did. An error leaves nothing behind, and another call tries again.
    pub(super) async fn publish(
        &self,
        session: &Arc<Session>,
        coordinator: &Arc<dyn Coordinator>,
        topic: &TopicName,
    ) -> Result<Arc<PublishedTopic>, ClientError> {
        let published = {
            let mut topics = lock(&self.topics);
            topics.retain(|_, topic| topic.strong_count() > 0);
            match topics.get(topic).and_then(Weak::upgrade) {
                Some(published) => published,
                None => {
                    let published = Arc::new(PublishedTopic::default());
                    topics.insert(topic.clone(), Arc::downgrade(&published));
                    published
                }
            }
        };
        published.kept_up.get_or_try_init(|| keep_up(session, coordinator, topic)).await?;
        Ok(published)
    }

    /// The topic to take partitions from: this one if somebody published it, else the default one.
    pub(super) fn find(&self, topic: &TopicName) -> Option<Arc<PublishedTopic>> {
        let published = lock(&self.topics).get(topic).and_then(Weak::upgrade);
        let published = published.filter(|topic| topic.kept_up.initialized());
        published.or_else(|| lock(&self.default).as_ref().map(|(_, topic)| Arc::clone(topic)))
    }

    /// Refuses a second default topic of another name.
    pub(super) fn check_default(&self, topic: &TopicName) -> Result<(), ClientError> {
        match &*lock(&self.default) {
            Some((old, _)) if old != topic => Err(ClientError::DefaultTopic(old.clone())),
            _ => Ok(()),
        }
    }

    /// Makes a topic the default one.
    pub(super) fn set_default(&self, topic: &TopicName, published: Arc<PublishedTopic>) -> Result<(), ClientError> {
        let mut default = lock(&self.default);
        match &*default {
            Some((old, _)) if old != topic => Err(ClientError::DefaultTopic(old.clone())),
            Some(_) => Ok(()),
            None => {
                *default = Some((topic.clone(), published));
                Ok(())
            }
        }
    }

    /// Lets the default topic go.
    pub(crate) fn clear(&self) {
        let default = lock(&self.default).take();
        drop(default);
    }
}

/// Reads a topic the first time, connects its brokers, and goes on watching it.
async fn keep_up(
    session: &Arc<Session>,
    coordinator: &Arc<dyn Coordinator>,
    topic: &TopicName,
) -> Result<KeptUp, ClientError> {
    let cluster = Cluster::new(Arc::clone(coordinator), session.root().clone());
    let (partitions, watch) = read(&**coordinator, &cluster, topic).await?;
    connect(session, &partitions).await?;
    info!(%topic, partitions = partitions.len(), "topic published");
    let (sender, receiver) = watch::channel(partitions.into());
    let keeper =
        Keeper { session: Arc::clone(session), coordinator: Arc::clone(coordinator), cluster, topic: topic.clone() };
    Ok(KeptUp { partitions: receiver, _task: AbortOnDropHandle::new(tokio::spawn(keeper.run(watch, sender))) })
}

/// Reads and watches the partitions of a topic, whose node is made if it is missing.
async fn read(
    coordinator: &dyn Coordinator,
    cluster: &Cluster,
    topic: &TopicName,
) -> Result<(Vec<Partition>, Watch), ClientError> {
    match cluster.watch_partitions_for_publish(topic).await {
        Err(ClusterError::Coordinator(CoordinatorError::NoNode(_))) => {}
        other => return Ok(other?),
    }
    let path = cluster.root().topic(TopicTree::Publish, topic);
    match coordinator.create(&path, b"", NodeKind::Persistent).await {
        Ok(()) | Err(CoordinatorError::NodeExists(_)) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(cluster.watch_partitions_for_publish(topic).await?)
}

/// Connects all brokers of a topic at the same time.
///
/// # Errors
/// That of the first broker, if none could be reached.
async fn connect(session: &Arc<Session>, partitions: &[Partition]) -> Result<(), ClientError> {
    let mut brokers: Vec<BrokerId> = partitions.iter().map(|partition| partition.broker).collect();
    brokers.dedup();
    let mut attempts = JoinSet::new();
    for broker in brokers {
        let session = Arc::clone(session);
        attempts.spawn(async move { (broker, session.for_writing(broker).await) });
    }
    let mut connected = false;
    let mut first_error = None;
    while let Some(attempt) = attempts.join_next().await {
        match attempt {
            Ok((_, Ok(_))) => connected = true,
            Ok((broker, Err(error))) => {
                warn!(%broker, %error, "broker of a published topic cannot be reached");
                first_error.get_or_insert(error);
            }
            // Only a panic, which the runtime has told, or its end.
            Err(_) => {}
        }
    }
    if connected { Ok(()) } else { first_error.map_or(Ok(()), Err) }
}

/// Follows a topic until it is dropped or the session with ZooKeeper is closed.
struct Keeper {
    session: Arc<Session>,
    coordinator: Arc<dyn Coordinator>,
    cluster: Cluster,
    topic: TopicName,
}

impl Keeper {
    async fn run(self, mut watch: Watch, partitions: watch::Sender<Arc<[Partition]>>) {
        loop {
            // Whatever it was: at the end of a session nothing is watched any more, and it is read again in the next.
            watch.await;
            let Some((read, next)) = self.read_again().await else { return };
            watch = next;
            self.session.brokers_changed();
            if partitions.borrow()[..] == read[..] {
                continue;
            }
            info!(topic = %self.topic, partitions = read.len(), "partitions of a published topic have changed");
            partitions.send_replace(read.clone().into());
            let event = ClientEvent::PartitionsChanged { topic: self.topic.clone(), partitions: read.clone() };
            self.session.emit(event);
            // Beside the next change, which must not wait for a broker that is away; connect tells of those itself.
            let session = Arc::clone(&self.session);
            tokio::spawn(async move { connect(&session, &read).await });
        }
    }

    /// Reads until it succeeds; `None` when the session was closed.
    async fn read_again(&self) -> Option<(Vec<Partition>, Watch)> {
        let mut backoff = Backoff::new(REREAD.0, REREAD.1);
        let mut states = self.coordinator.session();
        loop {
            let usable = |state: &SessionState| state.connected().is_some() || *state == SessionState::Closed;
            let state = *states.wait_for(usable).await.ok()?;
            if state == SessionState::Closed {
                return None;
            }
            match read(&*self.coordinator, &self.cluster, &self.topic).await {
                Ok(read) => return Some(read),
                Err(error) => debug!(topic = %self.topic, %error, "partitions of a published topic could not be read"),
            }
            tokio::time::sleep(backoff.failed()).await;
        }
    }
}
