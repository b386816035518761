//! Java clients with a broker in local mode: there is no other ZooKeeper, and it ends and comes back with the broker.

use std::collections::BTreeSet;

use crate::clients::Member;
use crate::common::broker::MetaqBroker;
use crate::messages::{Message, assert_all_there};
use crate::restart::java_clients_go_on;
use crate::rig::Cluster;

#[test]
fn java_clients_go_on_by_themselves_after_broker_and_zookeeper_were_stopped_or_killed() {
    let Some(cluster) = Cluster::local() else { return };
    java_clients_go_on(&cluster, MetaqBroker::start_local);
}

#[test]
fn a_group_shares_partitions_and_takes_over_those_of_a_member_that_was_killed() {
    let Some(cluster) = Cluster::local() else { return };
    let home = cluster.home(0, &[("shared", "numPartitions=4")]);
    let _broker = MetaqBroker::start_local(&home);
    let victims = cluster.another_java_client();
    let mut producer = cluster.java_stream("shared", "m-");
    let mut survivor = cluster.java_consume("shared", "group");
    let mut victim = cluster.java_consume_by(&victims, "shared", "group");

    // Each has some partitions for itself.
    victim.receive_until("something", |delivered| !delivered.is_empty());
    let partitions = |member: &Member<'_>, since: usize| -> BTreeSet<_> {
        member.delivered()[since..].iter().map(|one| one.place.partition()).collect()
    };
    victim.receive_until("two partitions", |all| {
        all.iter().map(|one| one.place.partition()).collect::<BTreeSet<_>>().len() == 2
    });
    let of_the_victim = partitions(&victim, 0);

    // Only the end of its session tells that it is gone.
    drop(victim);
    drop(victims);
    let seen = survivor.delivered().len();
    survivor.receive_until("all partitions", |all| {
        let now: BTreeSet<_> = all[seen..].iter().map(|one| one.place.partition()).collect();
        now.is_superset(&of_the_victim)
    });
    let acknowledged = producer.go_on(40);
    Member::receive_between_them(std::slice::from_mut(&mut survivor), &acknowledged);
    producer.stop();
}

/// A site that leaves local mode for a Java broker.
#[test]
fn a_java_broker_starts_over_what_local_mode_left() {
    let Some(cluster) = Cluster::new("after-local") else { return };
    let home = cluster.home(0, &[("left", "numPartitions=1")]);
    let files = home.scratch().join("journal/transactions/zookeeper");
    std::fs::create_dir_all(&files).unwrap();
    for name in ["snapshot", "log"] {
        std::fs::write(files.join(name), b"MQZK").unwrap();
    }
    let broker = cluster.start_java_broker(&home);
    let sent = cluster.java_produce("left", &[Message::new("m-0".to_owned())]);
    assert_all_there(&cluster.metaq_log("left"), &sent);
    broker.stop();
    assert_eq!(std::fs::read(files.join("log")).unwrap(), b"MQZK");
}
