//! A group of members with its brokers, what can befall them, and what must be true.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::id::{BrokerId, GroupName, Partition, TopicName, TopicPartition};
use crate::rebalance::driver::{Driver, DriverOptions, Left, Membership};
use crate::rebalance::simulated::{Client, JavaMember, Notice, Reader, Readers, Service, UpTo};
use crate::rebalance::{LoadBalanceStrategy, TopicGroup, sorted_consumers, sorted_partitions};
use crate::zk::format::TopicBroker;
use crate::zk::{Coordinator, Lease, NodeKind, Root, TopicChild, TopicTree, connected};

/// Time-out of sessions.
pub(super) const SESSION: Duration = Duration::from_secs(6);
/// Beyond session time-out and drain, how long reaching the plan may take.
pub(super) const SLACK: Duration = Duration::from_secs(1);
/// `zk.zkSyncTimeMs` of Java members.
pub(super) const SYNC_TIME: Duration = Duration::from_secs(5);
/// Longest way of a new client into its session, with room.
const CONNECT: Duration = Duration::from_secs(1);

/// Everything there is.
pub(super) struct World {
    pub(super) seed: u64,
    pub(super) rng: fastrand::Rng,
    pub(super) service: Arc<Service>,
    pub(super) readers: Arc<Readers>,
    pub(super) root: Root,
    pub(super) group: GroupName,
    pub(super) topics: Vec<TopicName>,
    pub(super) strategy: Arc<dyn LoadBalanceStrategy>,
    /// Longest drain.
    pub(super) drain: Duration,
    pub(super) members: BTreeMap<String, Member>,
    pub(super) java: BTreeMap<String, JavaPeer>,
    /// Until when something that was begun is under way.
    pub(super) disturbed_until: Instant,
    broker: Arc<Client>,
    names: u32,
    started: Instant,
}

/// A member under test.
pub(super) struct Member {
    pub(super) client: Arc<Client>,
    pub(super) driver: Driver,
    pub(super) reader: Reader,
}

/// A simulated Java member.
pub(super) struct JavaPeer {
    pub(super) client: Arc<Client>,
    pub(super) member: JavaMember,
    pub(super) reader: Reader,
}

impl World {
    /// Without members; each topic has so many partitions.
    pub(super) async fn new(
        seed: u64,
        strategy: impl LoadBalanceStrategy + 'static,
        partitions: &[u32],
        drain: Duration,
    ) -> Self {
        let service = Arc::new(Service::default());
        let broker = Client::connect(&service, Duration::from_secs(3600), seed ^ 0xb40);
        connected(&*broker, CONNECT).await.unwrap();
        let mut world = Self {
            seed,
            rng: fastrand::Rng::with_seed(seed),
            service,
            readers: Arc::default(),
            root: Root::default(),
            group: GroupName::new("g").unwrap(),
            topics: (0..partitions.len()).map(|number| TopicName::new(format!("t{number}")).unwrap()).collect(),
            strategy: Arc::new(strategy),
            drain,
            members: BTreeMap::new(),
            java: BTreeMap::new(),
            disturbed_until: Instant::now(),
            broker,
            names: 0,
            started: Instant::now(),
        };
        for (topic, &count) in partitions.iter().enumerate() {
            world.publish(topic, 0, count).await;
        }
        world
    }

    /// Tells what happens, if a single schedule was asked for.
    fn say(&self, what: std::fmt::Arguments<'_>) {
        if std::env::var_os("METAQ_TEST_SEED").is_some() {
            println!("{:?} {what}", self.started.elapsed());
        }
    }

    /// A broker offers so many partitions of a topic from now on: its node is deleted and made anew.
    pub(super) async fn publish(&mut self, topic: usize, broker: i64, count: u32) {
        self.say(format_args!("broker {broker} has {count} partitions of topic {topic}"));
        let path = self.root.master_topic(TopicTree::Subscribe, &self.topics[topic], BrokerId::new(broker).unwrap());
        let _ = self.broker.delete(&path, None).await;
        if count > 0 {
            let data = TopicBroker::to_json(count, &format!("{broker}-m"));
            self.broker.create(&path, data.as_bytes(), NodeKind::Persistent).await.unwrap();
        }
    }

    pub(super) fn membership(&self, name: &str) -> Membership {
        Membership {
            group: self.group.clone(),
            consumer_id: name.to_owned(),
            topics: self.topics.iter().cloned().collect(),
        }
    }

    /// A new name, anywhere in the order.
    pub(super) fn name(&mut self) -> String {
        self.names += 1;
        format!("g_{}{}", self.rng.lowercase(), self.names)
    }

    /// Without a lease, that of a Java member.
    pub(super) fn reader(&mut self, name: &str, client: &Arc<Client>, lease: Option<Lease>) -> Reader {
        let drain = u64::try_from(self.drain.as_millis()).unwrap();
        let drain = UpTo(drain, Mutex::new(self.rng.fork()));
        Reader::new(&self.readers, name, client, Arc::new(drain), lease)
    }

    pub(super) fn client(&mut self) -> Arc<Client> {
        Client::connect(&self.service, SESSION, self.rng.u64(..))
    }

    pub(super) fn join_as(&mut self, name: &str, client: Arc<Client>) {
        self.say(format_args!("{name} joins"));
        let options = DriverOptions::default();
        let reader = self.reader(name, &client, Some(options.lease.clone()));
        let driver = Driver::start(
            client.clone(),
            self.root.clone(),
            self.membership(name),
            self.strategy.clone(),
            Arc::new(reader.clone()),
            options,
        );
        self.members.insert(name.to_owned(), Member { client, driver, reader });
    }

    pub(super) fn join(&mut self) -> String {
        let name = self.name();
        let client = self.client();
        self.join_as(&name, client);
        name
    }

    pub(super) fn join_java(&mut self) -> String {
        let name = self.name();
        self.say(format_args!("{name} (Java) joins"));
        let client = self.client();
        let reader = self.reader(&name, &client, None);
        let member = JavaMember::start(
            client.clone(),
            self.root.clone(),
            self.membership(&name),
            self.strategy.clone(),
            reader.clone(),
            SYNC_TIME,
        );
        self.java.insert(name.clone(), JavaPeer { client, member, reader });
        name
    }

    /// A member leaves while others go on; it must leave nothing behind unless it could not reach the service.
    pub(super) fn leave(&mut self, name: &str) -> tokio::task::JoinHandle<()> {
        self.say(format_args!("{name} leaves"));
        // Others learn it when it has released everything.
        self.disturbed_for(self.drain + SLACK);
        let Member { client, driver, reader } = self.members.remove(name).unwrap();
        let (service, directory) = (self.service.clone(), format!("{}/consumers/{}", self.root, self.group));
        let name = name.to_owned();
        tokio::spawn(async move {
            let left = driver.leave().await;
            assert_eq!(reader.reads(), BTreeSet::new(), "{name} has left and still reads");
            assert_eq!(driver.leave().await, left, "leaving is idempotent");
            if left == Left::Complete {
                let session = client.session_id();
                let below = service.below(&directory);
                let own: Vec<_> = below.iter().filter(|(_, (_, of))| of.is_some() && *of == session).collect();
                assert!(own.is_empty(), "{name} has left {own:?}");
            }
            client.close().await;
        })
    }

    /// A Java member shuts down in its own time.
    pub(super) fn leave_java(&mut self, name: &str) {
        self.say(format_args!("{name} (Java) leaves"));
        let JavaPeer { client, member, reader } = self.java.remove(name).unwrap();
        // It may be in the middle of a round of attempts; its process ends in any case.
        let lasts = SYNC_TIME * 8;
        self.disturbed_for(lasts + SESSION);
        tokio::spawn(async move {
            member.leave();
            sleep(lasts).await;
            client.kill();
            reader.kill();
        });
    }

    pub(super) fn kill_java(&mut self, name: &str) {
        self.say(format_args!("{name} (Java) is killed"));
        let JavaPeer { client, member, reader } = self.java.remove(name).unwrap();
        client.kill();
        reader.kill();
        drop(member);
        self.disturbed_for(SESSION);
    }

    pub(super) fn kill(&mut self, name: &str) {
        self.say(format_args!("{name} is killed"));
        let Member { client, driver, reader } = self.members.remove(name).unwrap();
        client.kill();
        reader.kill();
        drop(driver);
        self.disturbed_for(SESSION);
    }

    pub(super) fn cut(&mut self, name: &str, lasts: Duration, notice: Notice) {
        self.say(format_args!("{name} is cut off for {lasts:?}, noticed {notice:?}"));
        self.members[name].client.cut(lasts, notice);
        self.disturbed_for(lasts);
    }

    pub(super) fn freeze(&mut self, name: &str, lasts: Duration) {
        self.say(format_args!("{name} stands still for {lasts:?}"));
        self.members[name].client.freeze(lasts);
        self.disturbed_for(lasts);
    }

    pub(super) fn strand(&mut self, name: &str, lasts: Duration) {
        self.say(format_args!("the server of {name} is without its leader for {lasts:?}"));
        self.members[name].client.strand(lasts);
        self.disturbed_for(lasts);
    }

    pub(super) fn disturbed_for(&mut self, lasts: Duration) {
        self.disturbed_until = self.disturbed_until.max(Instant::now() + lasts);
    }

    /// What everybody should own, by the nodes that there are.
    fn expected(&self) -> BTreeMap<TopicPartition, String> {
        let ids = self.service.below(&self.root.members(&self.group));
        let consumers = sorted_consumers(ids.into_keys());
        let mut owners = BTreeMap::new();
        for topic in &self.topics {
            let brokers = self.service.below(&self.root.topic(TopicTree::Subscribe, topic));
            let partitions = brokers.iter().flat_map(|(name, (data, _))| {
                let broker = TopicChild::parse(name).unwrap().broker;
                let count = TopicBroker::parse(data.as_bytes()).unwrap().partitions;
                (0..i32::try_from(count).unwrap())
                    .map(move |index| Partition { broker, index: crate::id::PartitionIndex::new(index) })
            });
            let group = TopicGroup { consumers: consumers.clone(), partitions: sorted_partitions(partitions) };
            for me in &consumers {
                let share = group.share(topic, me, &*self.strategy);
                owners.extend(share.into_iter().map(|of| (of, me.clone())));
            }
        }
        owners
    }

    /// Whether everybody owns, by node and by what is read, what the plan gives him; else what is wrong.
    pub(super) fn is_settled(&self) -> Result<(), String> {
        let ids = self.service.below(&self.root.members(&self.group));
        let known: BTreeSet<_> = self.members.keys().chain(self.java.keys()).cloned().collect();
        let present: BTreeSet<_> = ids.keys().cloned().collect();
        if known != present {
            return Err(format!("members are {present:?} instead of {known:?}"));
        }
        for (name, member) in &self.members {
            let state = member.driver.state().borrow().clone();
            let reads = member.reader.reads();
            let is_held_up = member.reader.is_fenced() || !member.reader.may_begin();
            if !state.is_settled() || *state.owned != reads || is_held_up {
                return Err(format!("{name} reads {reads:?}, its driver is {state:?}"));
            }
        }
        let expected = self.expected();
        let mut nodes = BTreeMap::new();
        for topic in &self.topics {
            for (partition, (owner, session)) in self.service.below(&self.root.owners(&self.group, topic)) {
                let of = TopicPartition { topic: topic.clone(), partition: partition.parse().unwrap() };
                if session != ids.get(&owner).and_then(|(_, session)| *session) {
                    return Err(format!("the owner node of {of} is of another session of {owner}"));
                }
                nodes.insert(of, owner);
            }
        }
        // A Java member does not notice that another one has deleted its owner node late: it goes on reading without.
        for (of, owner) in &expected {
            if self.java.get(owner).is_some_and(|peer| peer.reader.reads().contains(of)) {
                nodes.entry(of.clone()).or_insert_with(|| owner.clone());
            }
        }
        if nodes != expected {
            return Err(format!("owners are {nodes:?} instead of {expected:?}"));
        }
        let readers = self.members.iter().map(|(name, member)| (name, &member.reader));
        for (name, reader) in readers.chain(self.java.iter().map(|(name, peer)| (name, &peer.reader))) {
            let share = expected.iter().filter(|(_, owner)| *owner == name).map(|(of, _)| of.clone());
            let reads = reader.reads();
            if reads != share.collect() {
                return Err(format!("{name} reads {reads:?}"));
            }
        }
        Ok(())
    }

    pub(super) fn check(&self) {
        let violations = self.readers.violations();
        assert!(violations.is_empty(), "seed {}: {violations:#?}", self.seed);
    }

    /// Waits until everybody owns what the plan gives him.
    pub(super) async fn settles(&mut self, within: Duration) {
        let start = Instant::now();
        while let Err(reason) = self.is_settled() {
            assert!(start.elapsed() < within, "seed {}: not settled after {within:?}: {reason}", self.seed);
            sleep(Duration::from_millis(100)).await;
            self.check();
        }
        self.check();
    }

    /// Waits until nothing befalls anybody any more, then for the plan, within what is promised.
    pub(super) async fn calms_down(&mut self) {
        while Instant::now() < self.disturbed_until {
            sleep_until(self.disturbed_until.min(Instant::now() + Duration::from_millis(500))).await;
            self.check();
        }
        self.settles(SESSION + self.drain + SLACK).await;
    }

    /// What each member reads, and its log up to here is forgotten.
    pub(super) fn mark(&self) -> BTreeMap<String, BTreeSet<TopicPartition>> {
        let mark = self.members.iter().map(|(name, member)| {
            member.reader.log();
            (name.clone(), member.reader.reads())
        });
        mark.collect()
    }

    /// Nothing has happened to what a member read then and reads now.
    pub(super) fn nothing_was_interrupted(&self, since: &BTreeMap<String, BTreeSet<TopicPartition>>) {
        for (name, before) in since {
            let Some(member) = self.members.get(name) else { continue };
            let after = member.reader.reads();
            let log = member.reader.log();
            let touched: Vec<_> = log.iter().filter(|(_, _, of)| before.contains(of) && after.contains(of)).collect();
            let touched: Vec<_> =
                touched.iter().map(|(at, what, of)| (*at - self.started, what, of.to_string())).collect();
            assert!(touched.is_empty(), "seed {}: {name} was interrupted: {touched:?}", self.seed);
        }
    }
}
