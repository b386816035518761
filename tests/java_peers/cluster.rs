//! Several brokers behind one ZooKeeper, ours and the reference's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::clients::Member;
use crate::common::DEADLINE;
use crate::common::broker::MetaqBroker;
use crate::messages::{Message, Stored, assert_all_there};
use crate::rig::Cluster;

const TOPIC: (&str, &str) = ("shared", "numPartitions=3");
/// Of both brokers.
const PARTITIONS: usize = 6;

#[test]
fn java_clients_use_two_of_our_brokers() {
    let Some(cluster) = Cluster::new("two-of-ours") else { return };
    let homes = [cluster.home(0, &[TOPIC]), cluster.home(1, &[TOPIC])];
    let _brokers = homes.each_ref().map(MetaqBroker::start);
    assert_both_serve(&cluster);
}

#[test]
fn java_clients_use_one_of_our_brokers_beside_one_of_java() {
    let Some(cluster) = Cluster::new("one-of-each") else { return };
    let homes = [cluster.home(0, &[TOPIC]), cluster.home(1, &[TOPIC])];
    let _java = cluster.start_java_broker(&homes[0]);
    let _ours = MetaqBroker::start(&homes[1]);
    assert_both_serve(&cluster);
}

/// A Java producer uses both brokers, and a Java group of two members splits the partitions and gets everything.
fn assert_both_serve(cluster: &Cluster) {
    cluster.await_partitions("shared", PARTITIONS);
    let mut members = [cluster.java_consume("shared", "group"), cluster.java_consume("shared", "group")];
    let mut sent = Vec::new();
    let started = Instant::now();
    // The group takes a moment to agree. Meanwhile either member may get a message, or both.
    let steady = loop {
        let round = send_round(cluster, &mut sent);
        let owners = owners_of(&mut members, &round);
        if owners.values().all(|owners| owners.len() == 1) && members_with_partitions(&owners) == 2 {
            break owners;
        }
        assert!(started.elapsed() < DEADLINE, "the group does not split the partitions: {owners:?}");
    };
    let shares = [0, 1].map(|member| steady.values().filter(|owners| owners.contains(&member)).count());
    assert_eq!(shares, [PARTITIONS / 2; 2], "{steady:?}");
    // From now on nobody gets anything of the other's, and nothing comes twice.
    let before: usize = members.iter().map(|member| member.delivered().len()).sum();
    for _ in 0..3 {
        let round = send_round(cluster, &mut sent);
        assert_eq!(owners_of(&mut members, &round), steady);
    }
    let log = cluster.metaq_log("shared");
    assert_all_there(&log, &sent);
    let after: Vec<_> = members.into_iter().flat_map(Member::stop).collect();
    assert_eq!(after.len() - before, 3 * PARTITIONS, "deliveries to a group at rest");
    let delivered: BTreeSet<_> = after.iter().map(|one| one.place).collect();
    assert_eq!(delivered, log.iter().map(|one| one.place).collect(), "places delivered");
}

/// Sends one message to each partition of both brokers.
fn send_round(cluster: &Cluster, sent: &mut Vec<Stored>) -> Vec<Stored> {
    let messages: Vec<_> = (0..PARTITIONS).map(|i| Message::new(format!("m-{}", sent.len() + i))).collect();
    let round = cluster.java_produce("shared", &messages);
    let partitions: BTreeSet<_> = round.iter().map(|stored| stored.place.partition()).collect();
    assert_eq!(partitions.len(), PARTITIONS, "the producer uses all partitions: {round:?}");
    sent.extend(round.iter().cloned());
    round
}

/// Which members have got the message of each partition, once all messages have been delivered.
fn owners_of(members: &mut [Member<'_>], round: &[Stored]) -> BTreeMap<(i64, i64), BTreeSet<usize>> {
    let started = Instant::now();
    loop {
        let mut owners = BTreeMap::<_, BTreeSet<_>>::new();
        for (number, member) in members.iter_mut().enumerate() {
            member.receive_for(Duration::from_millis(20));
            let got = member.delivered().iter().filter(|one| round.contains(one));
            got.for_each(|one| _ = owners.entry(one.place.partition()).or_default().insert(number));
        }
        if owners.len() == round.len() {
            return owners;
        }
        assert!(started.elapsed() < DEADLINE, "not delivered: {round:?} to others than {owners:?}");
    }
}

fn members_with_partitions(owners: &BTreeMap<(i64, i64), BTreeSet<usize>>) -> usize {
    owners.values().flatten().collect::<BTreeSet<_>>().len()
}
