//! Java clients across the end of our broker, orderly or not.

use std::collections::HashMap;

use crate::clients::Member;
use crate::common::broker::{BrokerHome, MetaqBroker};
use crate::messages::{Stored, assert_all_there, assert_same_log, by_partition};
use crate::rig::Cluster;

/// Asserts that nothing was passed over: in each partition each delivery is the next of the log, or one that was
/// delivered before, which at-least-once delivery allows; and the last one of the log was delivered.
#[track_caller]
pub(crate) fn assert_nothing_passed_over(delivered: &[Stored], log: &[Stored]) {
    let position: HashMap<_, _> = by_partition(log)
        .into_values()
        .flat_map(|partition| partition.into_iter().enumerate().map(|(i, one)| (one.place, (i, one))))
        .collect();
    let mut next = HashMap::new();
    for one in delivered {
        let (i, stored) = position.get(&one.place).unwrap_or_else(|| panic!("delivered but not in the log: {one:?}"));
        assert_eq!(one, *stored, "delivered otherwise than it is in the log");
        let next = next.entry(one.place.partition()).or_insert(0);
        assert!(i <= next, "message {next} of partition {:?} was passed over by {one:?}", one.place.partition());
        *next = (i + 1).max(*next);
    }
    for (partition, log) in by_partition(log) {
        assert_eq!(next.get(&partition), Some(&log.len()), "messages delivered of partition {partition:?}");
    }
}

#[test]
fn a_java_group_that_stops_resumes_from_its_committed_offsets_after_a_restart() {
    let Some(cluster) = Cluster::new("resume") else { return };
    let home = cluster.home(0, &[("resume", "numPartitions=3")]);
    let broker = MetaqBroker::start(&home);
    let mut producer = cluster.java_stream("resume", "m-");

    let mut first = cluster.java_consume("resume", "group");
    first.receive_until("some messages", |delivered| delivered.len() >= 100);
    let before = first.stop();

    producer.go_on(100);
    broker.stop();
    let broker = MetaqBroker::start(&home);
    producer.go_on(100);
    broker.kill();
    let _broker = MetaqBroker::start(&home);
    producer.go_on(100);
    let acknowledged = producer.stop();

    let log = cluster.metaq_log("resume");
    assert_all_there(&log, &acknowledged);

    // The new member goes on exactly where the old one had stopped.
    let mut second = cluster.java_consume("resume", "group");
    second.receive_until("the rest", |delivered| before.len() + delivered.len() >= log.len());
    assert_same_log(&[before, second.stop()].concat(), &log);
}

#[test]
fn a_java_consumer_goes_on_by_itself_after_our_broker_was_stopped_or_killed() {
    let Some(cluster) = Cluster::new("go-on") else { return };
    java_clients_go_on(&cluster, MetaqBroker::start);
}

/// A Java producer and a Java consumer, while the broker is stopped and started again, and killed and started again.
pub(crate) fn java_clients_go_on(cluster: &Cluster, start: impl Fn(&BrokerHome) -> MetaqBroker) {
    let home = cluster.home(0, &[("go-on", "numPartitions=3")]);
    let mut broker = start(&home);
    let mut producer = cluster.java_stream("go-on", "m-");
    let mut consumer = [cluster.java_consume("go-on", "group")];

    for kill in [false, true] {
        let acknowledged = producer.go_on(100);
        Member::receive_between_them(&mut consumer, &acknowledged);
        if kill {
            broker.kill()
        } else {
            broker.stop()
        }
        broker = start(&home);
    }
    producer.go_on(100);

    let acknowledged = producer.stop();
    let log = cluster.metaq_log("go-on");
    assert_all_there(&log, &acknowledged);
    Member::receive_between_them(&mut consumer, &log);
    let [consumer] = consumer;
    assert_nothing_passed_over(&consumer.stop(), &log);
}
