//! One thing at a time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::time::{Instant, sleep};

use super::world::{SESSION, World};
use crate::id::{Partition, TopicPartition};
use crate::rebalance::driver::{
    CONNECTION_TIMEOUT, Driver, DriverOptions, JoinError, Left, Phase, REMOVE_TIMEOUT, UNCLAIMED_AFTER,
};
use crate::rebalance::simulated::{Client, Notice};
use crate::rebalance::{Assignee, Group, LoadBalanceStrategy, RangeStrategy, simulated::Reader};
use crate::zk::{Coordinator, CoordinatorError, NodeKind, NotConnected, SessionId, SessionState, connected};

const NO_DRAIN: Duration = Duration::ZERO;
/// The session of somebody who deletes what is not his.
const SOMEBODY: SessionId = SessionId(i64::MAX);

async fn world(partitions: u32) -> World {
    World::new(1, RangeStrategy, &[partitions], NO_DRAIN).await
}

fn owner(world: &World, partition: &str) -> String {
    let of = TopicPartition { topic: world.topics[0].clone(), partition: partition.parse().unwrap() };
    world.root.owner(&world.group, &of)
}

/// What has happened to the partitions of a member, without times.
fn log(reader: &Reader) -> Vec<(&'static str, String)> {
    reader.log().into_iter().map(|(_, what, of)| (what, of.partition.to_string())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_member_that_joins_has_the_tree_of_the_reference() {
    let mut world = World::new(1, RangeStrategy, &[1, 1], NO_DRAIN).await;
    world.join_as("g_a", Client::connect(&world.service, SESSION, 1));
    world.members["g_a"].driver.joined().await.unwrap();
    world.settles(SESSION).await;
    let session = world.members["g_a"].client.session_id();
    let nodes: Vec<_> = world.service.below("/meta/consumers/g").into_iter().collect();
    let node = |path: &str, data: &str, session| (path.to_owned(), (data.to_owned(), session));
    assert_eq!(
        nodes,
        [
            node("ids", "", None),
            node("ids/g_a", "t0,t1", session),
            node("owners", "", None),
            node("owners/t0", "", None),
            node("owners/t0/0-0", "g_a", session),
            node("owners/t1", "", None),
            node("owners/t1/0-0", "g_a", session),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_thousand_partitions_are_claimed_at_the_same_time() {
    let mut world = world(1000).await;
    let start = Instant::now();
    let name = world.join();
    world.settles(SESSION).await;
    // One after the other they would take seconds.
    assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
    assert_eq!(world.members[&name].driver.owned().len(), 1000);
}

#[tokio::test(start_paused = true)]
async fn a_partition_changes_hands_only_when_it_is_released() {
    let mut world = World::new(3, RangeStrategy, &[2], Duration::from_secs(10)).await;
    world.join_as("g_a", Client::connect(&world.service, SESSION, 1));
    world.settles(SESSION).await;
    assert_eq!(log(&world.members["g_a"].reader), [("assigned", "0-0".to_owned()), ("assigned", "0-1".to_owned())]);
    world.join_as("g_b", Client::connect(&world.service, SESSION, 2));
    world.members["g_b"].driver.joined().await.unwrap();
    assert_eq!(world.members["g_b"].driver.wanted().len(), 1);
    world.calms_down().await;
    let released: Vec<_> = world.members["g_a"].reader.log();
    let assigned = world.members["g_b"].reader.log();
    assert_eq!(released.iter().map(|(_, what, _)| *what).collect::<Vec<_>>(), ["release", "released"]);
    assert_eq!(assigned.iter().map(|(_, what, _)| *what).collect::<Vec<_>>(), ["assigned"]);
    assert!(released[1].0 <= assigned[0].0, "{released:?} {assigned:?}");
    let state = world.members["g_a"].driver.state().borrow().clone();
    assert_eq!((state.rebalance.number, state.rebalance.kept, state.rebalance.released), (2, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_node_of_a_killed_predecessor_is_waited_for() {
    let mut world = world(1).await;
    world.join_as("g_a", Client::connect(&world.service, SESSION, 1));
    world.settles(SESSION).await;
    world.kill("g_a");
    world.join_as("g_a", Client::connect(&world.service, SESSION, 2));
    world.members["g_a"].driver.joined().await.unwrap();
    world.calms_down().await;
}

#[tokio::test(start_paused = true)]
async fn an_id_that_another_consumer_keeps_is_an_error_that_names_it() {
    let mut world = world(1).await;
    let first = Client::connect(&world.service, SESSION, 1);
    world.join_as("g_a", first.clone());
    world.settles(SESSION).await;
    let node = "/meta/consumers/g/ids/g_a";
    // In another process, and in the same one.
    for client in [Client::connect(&world.service, SESSION, 2), first.clone()] {
        let options = DriverOptions::default();
        let reader = world.reader("g_a again", &client, Some(options.lease.clone()));
        let (root, membership) = (world.root.clone(), world.membership("g_a"));
        let driver = Driver::start(client, root, membership, world.strategy.clone(), Arc::new(reader), options);
        let error = driver.joined().await.unwrap_err();
        let session = first.session_id().unwrap();
        assert_eq!(error, JoinError::IdInUse { consumer: "g_a".to_owned(), path: node.to_owned(), session });
        assert!(error.to_string().contains("is in use by another consumer"), "{error}");
        assert_eq!(driver.leave().await, Left::Complete);
    }
    // The first one has not noticed.
    world.settles(SESSION).await;
    assert_eq!(log(&world.members["g_a"].reader), [("assigned", "0-0".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_node_of_no_session_in_the_place_of_the_id_is_an_error() {
    let mut world = world(1).await;
    let client = Client::connect(&world.service, SESSION, 1);
    connected(&*client, SESSION).await.unwrap();
    client.create("/meta/consumers/g/ids/g_a", b"", NodeKind::Persistent).await.unwrap();
    world.join_as("g_a", client);
    let error = world.members["g_a"].driver.joined().await.unwrap_err();
    assert!(matches!(error, JoinError::IdBlocked { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_cannot_be_reached_is_an_error_in_time() {
    let mut world = world(1).await;
    let client = Client::connect(&world.service, SESSION, 1);
    client.cut(Duration::from_secs(1000), Notice::AtOnce);
    let start = Instant::now();
    world.join_as("g_a", client);
    let driver = &world.members["g_a"].driver;
    assert_eq!(driver.joined().await, Err(JoinError::NotConnected(NotConnected::Within(CONNECTION_TIMEOUT))));
    assert_eq!(start.elapsed().as_secs(), CONNECTION_TIMEOUT.as_secs());
    assert_eq!(driver.leave().await, Left::Complete);
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_admits_no_children_is_an_error_at_once() {
    let mut world = world(1).await;
    let client = Client::connect(&world.service, SESSION, 1);
    connected(&*client, SESSION).await.unwrap();
    client.create("/meta/consumers/g/ids", b"", NodeKind::Ephemeral).await.unwrap();
    world.join_as("g_a", client);
    let error = world.members["g_a"].driver.joined().await.unwrap_err();
    assert!(matches!(error, JoinError::Refused(CoordinatorError::NoChildrenForEphemerals(_))), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_topic_that_cannot_be_told_to_others_is_refused() {
    let mut world = world(1).await;
    world.topics.push(crate::id::TopicName::new("a,b").unwrap());
    let name = world.join();
    let error = world.members[&name].driver.joined().await.unwrap_err();
    assert_eq!(error, JoinError::Topic(world.topics[1].clone()));
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_fences_after_half_the_time_out_and_a_confirmed_session_goes_on() {
    let mut world = world(2).await;
    let name = world.join();
    world.settles(SESSION).await;
    let member = &world.members[&name];
    let session = member.client.session_id();
    member.client.cut(SESSION * 9 / 10, Notice::AtOnce);
    sleep(SESSION / 2 - Duration::from_millis(100)).await;
    assert!(!member.reader.is_fenced());
    sleep(Duration::from_millis(200)).await;
    assert!(member.reader.is_fenced() && member.driver.state().borrow().fenced);
    member.reader.log();
    world.settles(SESSION).await;
    let member = &world.members[&name];
    assert_eq!(member.client.session_id(), session);
    let expected: Vec<_> = ["0-0", "0-1"].map(|partition| ("unfenced", partition.to_owned())).to_vec();
    assert_eq!(log(&member.reader), expected);
}

#[tokio::test(start_paused = true)]
async fn a_lost_session_loses_everything_and_a_new_one_claims_it_again() {
    let mut world = world(2).await;
    let name = world.join();
    world.settles(SESSION).await;
    let member = &world.members[&name];
    member.reader.log();
    let mut sessions = member.client.session();
    let before = member.client.session_id();
    member.client.expire();
    let is_new = |state: &SessionState| state.connected().is_some_and(|session| Some(session.id) != before);
    sessions.wait_for(is_new).await.unwrap();
    world.settles(SESSION).await;
    let member = &world.members[&name];
    assert_ne!(member.client.session_id(), before);
    let each = |what| ["0-0", "0-1"].map(|partition: &str| (what, partition.to_owned()));
    assert_eq!(log(&member.reader), [each("lost"), each("assigned")].concat());
}

/// An assignee whose releases end when the session does, and what it was told.
#[derive(Debug)]
struct UntilTheEnd(Arc<Client>, Mutex<Vec<&'static str>>);

impl UntilTheEnd {
    fn note(&self, what: &'static str) {
        self.1.lock().unwrap().push(what);
    }
}

impl Assignee for UntilTheEnd {
    fn assigned(&self, _: &[TopicPartition]) {
        self.note("assigned");
    }

    fn release<'a>(&'a self, _: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        Box::pin(async {
            self.note("release");
            let session = self.0.session_id();
            _ = self.0.session().wait_for(|state| state.connected().map(|present| present.id) != session).await;
            self.note("released");
        })
    }

    fn lost(&self, _: &[TopicPartition]) {
        self.note("lost");
    }

    fn fence(&self, _: bool) {}
}

#[tokio::test(start_paused = true)]
async fn what_is_released_when_the_session_is_over_is_not_taken_back() {
    let (mut before, mut after) = (0, 0);
    for seed in 0..40 {
        let mut world = World::new(seed, RangeStrategy, &[2], NO_DRAIN).await;
        let client = Client::connect(&world.service, SESSION, seed);
        let assignee = Arc::new(UntilTheEnd(client.clone(), Mutex::default()));
        let (root, membership, options) = (world.root.clone(), world.membership("g_a"), DriverOptions::default());
        let driver = Driver::start(client.clone(), root, membership, world.strategy.clone(), assignee.clone(), options);
        let mut states = driver.state();
        states.wait_for(|state| state.owned.len() == 2).await.unwrap();
        world.join_as("g_b", Client::connect(&world.service, SESSION, !seed));
        states.wait_for(|state| state.releasing == 1).await.unwrap();
        // It wants back what it is still giving up.
        world.leave("g_b").await.unwrap();
        states.wait_for(|state| state.wanted.len() == 2 && state.releasing == 1).await.unwrap();
        assignee.1.lock().unwrap().clear();
        client.expire();
        states.wait_for(|state| state.owned.len() == 2 && state.is_settled()).await.unwrap();
        // Which of the two is seen first is the runtime's choice.
        let told = assignee.1.lock().unwrap().clone();
        match told.as_slice() {
            ["released", "lost", "assigned", ..] => before += 1,
            ["lost", "released", "assigned", ..] => after += 1,
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    assert!(before > 0 && after > 0, "{before} {after}");
}

#[tokio::test(start_paused = true)]
async fn an_owner_node_that_somebody_deletes_is_noticed_and_claimed_again() {
    let mut world = world(2).await;
    let name = world.join();
    world.settles(SESSION).await;
    world.members[&name].reader.log();
    world.service.delete(SOMEBODY, &owner(&world, "0-1"), None).unwrap();
    sleep(Duration::from_millis(50)).await;
    world.settles(SESSION).await;
    let expected: Vec<_> = ["lost", "assigned"].map(|what| (what, "0-1".to_owned())).to_vec();
    assert_eq!(log(&world.members[&name].reader), expected);
}

#[tokio::test(start_paused = true)]
async fn an_owner_node_that_somebody_writes_another_name_into_is_lost_and_made_anew() {
    let mut world = world(2).await;
    let name = world.join();
    world.settles(SESSION).await;
    world.members[&name].reader.log();
    world.service.set(&owner(&world, "0-1"), b"g_nobody", None).unwrap();
    sleep(Duration::from_millis(50)).await;
    world.settles(SESSION).await;
    let expected: Vec<_> = ["lost", "assigned"].map(|what| (what, "0-1".to_owned())).to_vec();
    assert_eq!(log(&world.members[&name].reader), expected);
}

#[tokio::test(start_paused = true)]
async fn an_owner_node_that_names_another_member_of_the_session_is_that_ones_until_it_goes() {
    let mut world = world(4).await;
    let client = Client::connect(&world.service, SESSION, 1);
    world.join_as("g_a", client.clone());
    world.join_as("g_b", client.clone());
    world.settles(SESSION).await;
    let path = owner(&world, "0-1");
    assert_eq!(client.get(&path).await.unwrap().data, b"g_a");
    world.members["g_a"].reader.log();
    world.service.set(&path, b"g_b", None).unwrap();
    sleep(SESSION * 10).await;
    assert_eq!(log(&world.members["g_a"].reader), [("lost", "0-1".to_owned())]);
    assert_eq!(client.get(&path).await.unwrap().data, b"g_b");
    client.delete(&path, None).await.unwrap();
    sleep(Duration::from_millis(50)).await;
    world.settles(SESSION).await;
    assert_eq!(log(&world.members["g_a"].reader), [("assigned", "0-1".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_node_of_somebody_else_is_waited_for() {
    let mut world = world(2).await;
    let stranger = Client::connect(&world.service, SESSION, 9);
    let session = connected(&*stranger, SESSION).await.unwrap();
    let path = owner(&world, "0-1");
    stranger.create(&path, b"g_stranger", NodeKind::Ephemeral).await.unwrap();
    let name = world.join();
    let driver = &world.members[&name].driver;
    driver.joined().await.unwrap();
    sleep(SESSION * 10).await;
    assert_eq!(driver.owned().len(), 1);
    let pending: Vec<_> = driver.state().borrow().pending().map(ToString::to_string).collect();
    assert_eq!(pending, ["t0 0-1"]);
    let node = stranger.get(&path).await.unwrap();
    assert_eq!((node.data.as_slice(), node.stat.ephemeral_owner), (&b"g_stranger"[..], Some(session.id)));
    let start = Instant::now();
    stranger.close().await;
    world.settles(SESSION).await;
    assert!(start.elapsed() < Duration::from_millis(300), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_id_node_that_somebody_deletes_is_made_again_and_nothing_is_interrupted() {
    let mut world = world(2).await;
    let name = world.join();
    world.settles(SESSION).await;
    let before = world.mark();
    world.service.delete(SOMEBODY, &world.root.member(&world.group, &name), None).unwrap();
    world.settles(SESSION).await;
    world.nothing_was_interrupted(&before);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_changes_a_topic_does_not_interrupt_what_stays() {
    let mut world = world(2).await;
    let name = world.join();
    world.settles(SESSION).await;
    let before = world.mark();
    world.publish(0, 0, 3).await;
    sleep(Duration::from_millis(100)).await;
    world.settles(SESSION).await;
    assert_eq!(world.members[&name].driver.owned().len(), 3);
    world.nothing_was_interrupted(&before);
}

#[tokio::test(start_paused = true)]
async fn leaving_without_a_connection_ends_and_says_what_may_remain() {
    let mut world = world(2).await;
    let name = world.join();
    world.settles(SESSION).await;
    let member = &world.members[&name];
    member.client.cut(Duration::from_secs(3), Notice::AtOnce);
    sleep(Duration::from_millis(1)).await;
    let (first, second) = tokio::join!(member.driver.leave(), member.driver.leave());
    assert_eq!((&first, &second), (&Left::Complete, &Left::Complete), "the connection came back in time");
    // A session that outlives the waiting.
    let client = Client::connect(&world.service, Duration::from_secs(300), 7);
    world.join_as("g_long", client);
    sleep(Duration::from_secs(1)).await;
    let member = &world.members["g_long"];
    assert_eq!(member.driver.owned().len(), 2);
    member.client.cut(Duration::from_secs(1000), Notice::AtOnce);
    let start = Instant::now();
    let left = member.driver.leave().await;
    assert!(matches!(&left, Left::Incomplete { .. }), "{left}");
    assert_eq!(start.elapsed().as_secs(), REMOVE_TIMEOUT.as_secs());
    assert_eq!(member.reader.reads(), BTreeSet::new());
    assert_eq!(member.driver.joined().await, Err(JoinError::Left));
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_is_dropped_loses_everything_and_stops() {
    let mut world = world(2).await;
    let name = world.join();
    world.settles(SESSION).await;
    let super::world::Member { driver, reader, client } = world.members.remove(&name).unwrap();
    let mut states = driver.state();
    drop(driver);
    // The sender goes with the task.
    while states.changed().await.is_ok() {}
    assert_eq!(reader.reads(), BTreeSet::new());
    assert!(client.session_id().is_some(), "the session is not the driver's to close");
}

#[tokio::test(start_paused = true)]
async fn a_closed_coordinator_ends_the_driver() {
    let mut world = world(2).await;
    let name = world.join();
    world.settles(SESSION).await;
    let member = &world.members[&name];
    member.client.close().await;
    let mut states = member.driver.state();
    states.wait_for(|state| state.phase == Phase::Left(Left::Complete)).await.unwrap();
    assert_eq!(member.reader.reads(), BTreeSet::new());
}

#[tokio::test(start_paused = true)]
async fn a_member_that_does_not_claim_its_share_is_called_on_once_a_minute() {
    let mut world = world(4).await;
    let name = world.join();
    world.settles(SESSION).await;
    // A member as Java's are after a failed round: it is there and does nothing.
    let idle = Client::connect(&world.service, SESSION, 9);
    connected(&*idle, SESSION).await.unwrap();
    let (_, mut watch) = idle.watch_children("/meta/consumers/g/ids").await.unwrap();
    idle.create("/meta/consumers/g/ids/g_zz", b"t0", NodeKind::Ephemeral).await.unwrap();
    (&mut watch).await;
    let id = world.root.member(&world.group, &name);
    let mut before = world.service.exists(&id).unwrap().created;
    for _ in 0..3 {
        let (_, watch) = idle.watch_children("/meta/consumers/g/ids").await.unwrap();
        let start = Instant::now();
        watch.await;
        assert!((55..95).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
        sleep(Duration::from_millis(100)).await;
        let now = world.service.exists(&id).unwrap().created;
        assert!(now > before, "the id node was made anew");
        before = now;
        assert_eq!(world.members[&name].driver.owned().len(), 2);
    }
    // When the other one has gone, there is nobody to call on.
    idle.close().await;
    world.settles(SESSION).await;
    let now = world.service.exists(&id).unwrap().created;
    sleep(UNCLAIMED_AFTER * 4).await;
    assert_eq!(world.service.exists(&id).unwrap().created, now);
}

/// Knows nothing of groups.
#[derive(Debug)]
struct Lonely;

impl LoadBalanceStrategy for Lonely {
    fn partitions_of(&self, _: &str, group: Group<'_>) -> Vec<Partition> {
        assert_eq!(group.consumers.len(), 1, "who is that");
        group.partitions.to_vec()
    }
}

#[tokio::test(start_paused = true)]
async fn a_strategy_that_panics_fails_who_joins_and_leaves_the_others_what_they_own() {
    let mut world = World::new(1, Lonely, &[2], NO_DRAIN).await;
    world.join_as("g_a", Client::connect(&world.service, SESSION, 1));
    world.members["g_a"].driver.joined().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    world.join_as("g_b", Client::connect(&world.service, SESSION, 2));
    let error = world.members["g_b"].driver.joined().await.unwrap_err();
    assert!(matches!(&error, JoinError::Strategy(panic) if panic.contains("who is that")), "{error}");
    assert!(!world.service.below(&world.root.members(&world.group)).contains_key("g_b"), "it takes part in nothing");
    assert_eq!(world.members["g_a"].driver.owned().len(), 2);
    world.publish(0, 0, 3).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(world.members["g_a"].driver.owned().len(), 3, "alone again, it goes on");
}

#[tokio::test(start_paused = true)]
async fn the_longest_times_are_as_good_as_never() {
    let mut world = world(1).await;
    let client = Client::connect(&world.service, SESSION, 1);
    let options = DriverOptions {
        connection_timeout: Duration::MAX,
        compare_period: Duration::MAX,
        unclaimed_after: Duration::MAX,
        remove_timeout: Duration::MAX,
        ..DriverOptions::default()
    };
    let reader = world.reader("g_a", &client, Some(options.lease.clone()));
    let (root, membership) = (world.root.clone(), world.membership("g_a"));
    let driver = Driver::start(client, root, membership, Arc::new(RangeStrategy), Arc::new(reader), options);
    driver.joined().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(driver.owned().len(), 1);
    assert_eq!(driver.leave().await, Left::Complete);
}
