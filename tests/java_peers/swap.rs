//! The purpose of it all: a Java broker is replaced by ours, on its number, port and directories, while Java clients work.

use std::collections::BTreeSet;

use crate::clients::{Member, Stream};
use crate::common::broker::MetaqBroker;
use crate::messages::assert_all_there;
use crate::restart::assert_nothing_passed_over;
use crate::rig::Cluster;

const TOPIC: (&str, &str) = ("swap", "numPartitions=3");

/// The clients work with the brokers that there are now.
fn work(producer: &mut Stream<'_>, consumers: &mut [Member<'_>]) {
    let acknowledged = producer.go_on(100);
    Member::receive_between_them(consumers, &acknowledged);
}

#[test]
fn a_java_broker_is_swapped_for_ours_and_back_without_loss_under_java_clients() {
    let Some(cluster) = Cluster::new("swap") else { return };
    let home = cluster.home(0, &[TOPIC]);
    let java = cluster.start_java_broker(&home);
    let mut producer = cluster.java_stream("swap", "m-");
    let mut consumer = [cluster.java_consume("swap", "group")];

    work(&mut producer, &mut consumer);
    java.stop();
    let ours = MetaqBroker::start(&home);
    work(&mut producer, &mut consumer);
    ours.stop();
    let java = cluster.start_java_broker(&home);
    work(&mut producer, &mut consumer);
    // Its nodes in ZooKeeper are still there when ours takes over.
    java.kill();
    let _ours = MetaqBroker::start(&home);
    work(&mut producer, &mut consumer);

    let acknowledged = producer.stop();
    let log = cluster.metaq_log("swap");
    assert_all_there(&log, &acknowledged);
    Member::receive_between_them(&mut consumer, &log);
    let [consumer] = consumer;
    assert_nothing_passed_over(&consumer.stop(), &log);
}

#[test]
fn the_brokers_of_a_java_cluster_are_swapped_one_by_one_under_a_group_of_java_clients() {
    let Some(cluster) = Cluster::new("one-by-one") else { return };
    let homes = [cluster.home(0, &[TOPIC]), cluster.home(1, &[TOPIC])];
    let [java_0, java_1] = homes.each_ref().map(|home| cluster.start_java_broker(home));
    cluster.await_partitions("swap", 6);
    let mut producer = cluster.java_stream("swap", "m-");
    let mut group = [cluster.java_consume("swap", "group"), cluster.java_consume("swap", "group")];

    work(&mut producer, &mut group);
    java_0.stop();
    producer.go_on(100); // with what is left
    let ours_0 = MetaqBroker::start(&homes[0]);
    work(&mut producer, &mut group);
    java_1.kill();
    let _ours_1 = MetaqBroker::start(&homes[1]);
    work(&mut producer, &mut group);
    ours_0.stop();
    producer.go_on(100);
    let _ours_0 = MetaqBroker::start(&homes[0]);
    cluster.await_partitions("swap", 6);
    let last = producer.go_on(100);
    let brokers: BTreeSet<_> = last.iter().map(|one| one.place.broker).collect();

    let acknowledged = producer.stop();
    let log = cluster.metaq_log("swap");
    assert_all_there(&log, &acknowledged);
    Member::receive_between_them(&mut group, &log);
    assert_eq!(brokers, BTreeSet::from([0, 1]), "brokers used in the end");
}
