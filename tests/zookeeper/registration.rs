//! The nodes of a master: what they are, how they follow the desired state, what is left of them.

use std::time::{Duration, Instant};

use metaq::zk::{Cluster, ClusterError, Coordinator, NodeKind, RegistrationState, Root, SessionState, Unregistered};

use crate::common::zookeeper::Ensemble;
use crate::common::{DEADLINE, eventually};
use crate::rig::{
    Broker, COMPARE_PERIOD, SESSION_TIMEOUT, all, broker_id, created, plain, recorded, recorded_versions, session_of,
    topic, tree, url, zookeeper,
};

const UNREGISTER_WITHIN: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_tree_is_that_of_the_reference_and_readable_by_clients() {
    let Some(server) = Ensemble::single() else { return };
    let observer = zookeeper(&server.connect_string(), SESSION_TIMEOUT);
    session_of(&*observer).await;
    let broker = Broker::start(&server.connect_string(), 8200);
    broker.registration.registered().await.unwrap();
    let seen = tree(&*observer, "/meta").await.unwrap();
    assert_eq!(plain(&seen), recorded(&url(8200)));
    let versions: std::collections::BTreeMap<_, _> =
        seen.iter().map(|(path, node)| (path.clone(), i64::from(node.stat.version))).collect();
    assert_eq!(versions, recorded_versions());

    // Children that no broker of ours writes but readers must bear.
    for (path, data) in [
        ("/meta/brokers/topics-pub/meta-test/2-m", r#"{"numParts":"2"}"#),
        ("/meta/brokers/topics-pub/meta-test/10-m", r#"{"broker":"10-m","numParts":1}"#),
        ("/meta/brokers/topics-pub/meta-test/3-m", ""),
        ("/meta/brokers/topics-pub/meta-test/4-m", r#"{"numParts":1,"x":1}"#),
        ("/meta/brokers/topics-pub/meta-test/0-s0", r#"{"numParts":9}"#),
        ("/meta/brokers/topics-pub/meta-test/5-m-x", r#"{"numParts":1}"#),
        ("/meta/brokers/topics-sub/test/0-s0", r#"{"numParts":11,"broker":"0-s0"}"#),
        ("/meta/brokers/topics-sub/test/10-m", r#"{"numParts":1,"broker":"10-m"}"#),
        ("/meta/brokers/topics-sub/test/2-m", r#"{"numParts":1,"broker":"2-m"}"#),
        ("/meta/brokers/ids/5/master", " "),
        ("/meta/brokers/ids/6/master", "nonsense"),
    ] {
        observer.create(path, data.as_bytes(), NodeKind::Ephemeral).await.unwrap();
    }
    let cluster = Cluster::new(observer.clone(), Root::default());
    let texts = |partitions: Vec<metaq::id::Partition>| {
        partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let publish = cluster.partitions_for_publish(&topic("meta-test")).await.unwrap();
    assert_eq!(texts(publish), "0-0 0-1 0-2 0-3 2-0 2-1 10-0");
    let subscribe = cluster.partitions_for_subscribe(&topic("test")).await.unwrap();
    assert_eq!(texts(subscribe), "0-0 0-1 0-10 0-2 0-3 0-4 0-5 0-6 0-7 0-8 0-9 10-0 2-0");
    let absent = cluster.partitions_for_publish(&topic("absent")).await.unwrap_err();
    assert!(absent.to_string().contains("no broker offers topic 'absent'"), "{absent}");

    assert_eq!(cluster.master_url(broker_id()).await, Ok(url(8200)));
    let master = |id| metaq::id::BrokerId::new(id).unwrap();
    assert!(matches!(cluster.master_url(master(4)).await, Err(ClusterError::NoMaster { .. })));
    assert!(matches!(cluster.master_url(master(5)).await, Err(ClusterError::NoMaster { .. })));
    assert!(matches!(cluster.master_url(master(6)).await, Err(ClusterError::Damaged { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_changed_topic_is_made_anew_and_all_others_are_left_alone() {
    let Some(server) = Ensemble::single() else { return };
    let observer = zookeeper(&server.connect_string(), SESSION_TIMEOUT);
    session_of(&*observer).await;
    let broker = Broker::start(&server.connect_string(), 8200);
    broker.registration.registered().await.unwrap();
    let before = tree(&*observer, "/meta").await.unwrap();

    broker.change_topics(|topics| {
        topics.insert(topic("test"), all(11));
        topics.insert(topic("new"), all(1));
    });
    let is = |path: &'static str, data: &'static str| {
        let observer = observer.clone();
        move || {
            let observer = observer.clone();
            async move {
                match observer.get(path).await {
                    Ok(node) if node.data == data.as_bytes() => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            }
        }
    };
    eventually("a new count", is("/meta/brokers/topics-sub/test/0-m", r#"{"numParts":11,"broker":"0-m"}"#)).await;
    eventually("a new topic", is("/meta/brokers/topics-sub/new/0-m", r#"{"numParts":1,"broker":"0-m"}"#)).await;
    // Several comparisons later nothing else has been touched.
    tokio::time::sleep(COMPARE_PERIOD * 3).await;
    let after = tree(&*observer, "/meta").await.unwrap();
    for (path, node) in &before {
        let made_anew = after[path].stat.created != node.stat.created;
        assert_eq!(made_anew, path.ends_with("/test/0-m"), "{path}");
        assert!(made_anew || after[path].stat.version == node.stat.version, "{path}");
    }

    broker.change_topics(|topics| {
        topics.remove(&topic("new"));
        if let Some(test) = topics.get_mut("test") {
            test.accept_publish = false;
        }
        if let Some(test) = topics.get_mut("meta-test") {
            test.accept_subscribe = false;
        }
    });
    eventually("flags and removal are followed", || async {
        let present: Vec<_> = plain(&tree(&*observer, "/meta/brokers").await.unwrap())
            .into_keys()
            .filter_map(|path| path.strip_suffix("/0-m").map(|path| path.replace("/meta/brokers/", "")))
            .collect();
        let expected = ["topics-pub/meta-test", "topics-sub/test", "topics/meta-test", "topics/test"];
        if present == expected { Ok(()) } else { Err(format!("{present:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn nodes_deleted_or_changed_by_hand_come_back() {
    let Some(server) = Ensemble::single() else { return };
    let observer = zookeeper(&server.connect_string(), SESSION_TIMEOUT);
    session_of(&*observer).await;
    let broker = Broker::start(&server.connect_string(), 8200);
    broker.settles(&*observer).await;
    for path in [
        "/meta/brokers/ids/0/master",
        "/meta/brokers/ids/0/master_config_checksum",
        "/meta/brokers/topics/test/0-m",
        "/meta/brokers/topics-pub/test/0-m",
        "/meta/brokers/topics-sub/meta-test/0-m",
    ] {
        let before = created(&*observer, path).await;
        observer.delete(path, None).await.unwrap();
        broker.settles(&*observer).await;
        assert_ne!(created(&*observer, path).await, before, "{path}");
    }
    observer.set("/meta/brokers/ids/0", b"meta://old:1", None).await.unwrap();
    observer.set("/meta/brokers/topics-sub/test/0-m", b"{}", None).await.unwrap();
    broker.settles(&*observer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_id_node_comes_back_without_waiting_for_a_comparison() {
    let Some(server) = Ensemble::single() else { return };
    let observer = zookeeper(&server.connect_string(), SESSION_TIMEOUT);
    session_of(&*observer).await;
    let never = Duration::from_secs(3600);
    let broker = Broker::comparing(never, zookeeper(&server.connect_string(), SESSION_TIMEOUT), 8200);
    broker.settles(&*observer).await;
    // Twice, since a watch fires once.
    for _ in 0..2 {
        observer.delete("/meta/brokers/ids/0/master", None).await.unwrap();
        broker.settles(&*observer).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_predecessor_s_nodes_are_taken_over_while_its_session_lives() {
    let Some(server) = Ensemble::single() else { return };
    let observer = zookeeper(&server.connect_string(), SESSION_TIMEOUT);
    session_of(&*observer).await;
    let old_zookeeper = zookeeper(&server.connect_string(), Duration::from_secs(10));
    let old = Broker::with(old_zookeeper.clone(), 8200);
    old.settles(&*observer).await;
    // As after a kill: nobody cares for the nodes, but the session is there.
    drop(old);
    let started = Instant::now();
    let new = Broker::start(&server.connect_string(), 8200);
    new.settles(&*observer).await;
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert!(matches!(*old_zookeeper.session().borrow(), SessionState::Connected(_)));

    // The end of the old session takes nothing away any more.
    let before = tree(&*observer, "/meta").await.unwrap();
    old_zookeeper.close().await;
    assert_eq!(tree(&*observer, "/meta").await.unwrap(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_broker_with_our_id_and_another_address_is_named_and_left_alone() {
    let Some(server) = Ensemble::single() else { return };
    let observer = zookeeper(&server.connect_string(), SESSION_TIMEOUT);
    session_of(&*observer).await;
    let first = Broker::start(&server.connect_string(), 8200);
    first.settles(&*observer).await;
    let before = tree(&*observer, "/meta").await.unwrap();

    let started = Instant::now();
    let second = Broker::start(&server.connect_string(), 8201);
    second.reaches("waiting", |state| matches!(state, RegistrationState::Waiting { .. })).await;
    let conflict = second.registration.registered().await.unwrap_err();
    assert!(started.elapsed() >= SESSION_TIMEOUT, "{:?}", started.elapsed());
    assert!(conflict.to_string().contains("broker id 0 is taken by another broker, meta://127.0.0.1:8200"));
    assert_eq!(tree(&*observer, "/meta").await.unwrap(), before);

    // When the other one goes, the id is free.
    assert_eq!(first.registration.unregister(UNREGISTER_WITHIN).await, Unregistered::Complete);
    second.settles(&*observer).await;

    // Once registered, a conflict is told at once, and over when the other one goes; also a second process that
    // announces the very same address, so that the two do not take turns.
    let master = "/meta/brokers/ids/0/master";
    for intruder in ["meta://127.0.0.1:8202", "meta://127.0.0.1:8201"] {
        eventually("the intruder is faster", || async {
            let (_, made) = tokio::join!(
                biased;
                observer.delete(master, None),
                observer.create(master, intruder.as_bytes(), NodeKind::Ephemeral)
            );
            made.map_err(|error| error.to_string())
        })
        .await;
        let state = second.reaches("in conflict", |state| matches!(state, RegistrationState::Conflict(_))).await;
        assert!(state.to_string().contains(intruder), "{state}");
        tokio::time::sleep(COMPARE_PERIOD * 3).await;
        assert_eq!(observer.get(master).await.unwrap().data, intruder.as_bytes());
        observer.delete(master, None).await.unwrap();
        second.settles(&*observer).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn unregistering_leaves_what_the_reference_leaves() {
    let Some(server) = Ensemble::single() else { return };
    let observer = zookeeper(&server.connect_string(), SESSION_TIMEOUT);
    session_of(&*observer).await;
    let slave = "/meta/brokers/ids/0/slave0";
    for slave_registered in [false, true] {
        let broker = Broker::start(&server.connect_string(), 8200);
        broker.settles(&*observer).await;
        if slave_registered {
            observer.create(slave, b"meta://127.0.0.1:8201", NodeKind::Ephemeral).await.unwrap();
        }
        let zookeeper = broker.zookeeper.clone();
        assert_eq!(broker.registration.unregister(UNREGISTER_WITHIN).await, Unregistered::Complete);
        assert_eq!(*zookeeper.session().borrow(), SessionState::Closed);

        let left = plain(&tree(&*observer, "/meta").await.unwrap());
        let mut expected = recorded(&url(8200));
        expected.retain(|_, (_, ephemeral)| !*ephemeral);
        if slave_registered {
            expected.insert("/meta/brokers/ids/0".to_owned(), (String::new(), false));
            expected.insert(slave.to_owned(), ("meta://127.0.0.1:8201".to_owned(), true));
        } else {
            expected.remove("/meta/brokers/ids/0");
        }
        assert_eq!(left, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_unreachable_zookeeper_is_waited_for_and_does_not_hold_up_a_stop() {
    let Some(mut server) = Ensemble::prepare(1) else { return };
    let never = Broker::start(&server.connect_string(), 8200);
    assert_eq!(*never.registration.state().borrow(), RegistrationState::Connecting);
    assert_eq!(never.registration.unregister(UNREGISTER_WITHIN).await, Unregistered::Complete);

    let broker = Broker::start(&server.connect_string(), 8200);
    let early = tokio::time::timeout(Duration::from_millis(500), broker.registration.registered()).await;
    assert!(early.is_err(), "nobody can be registered yet");
    assert_eq!(*broker.registration.state().borrow(), RegistrationState::Connecting);
    server.start_all();
    let observer = zookeeper(&server.connect_string(), SESSION_TIMEOUT);
    broker.settles(&*observer).await;

    // Frozen, not closed: calls would wait for an answer.
    server.freeze(0);
    let started = Instant::now();
    let outcome = broker.registration.unregister(Duration::from_secs(1)).await;
    assert!(matches!(outcome, Unregistered::Incomplete { .. }));
    assert!(started.elapsed() < DEADLINE / 3, "{:?}", started.elapsed());
}
