//! Registration through lost sessions, dead and frozen servers.

use std::time::Duration;

use crate::common::zookeeper::Ensemble;
use crate::rig::{Broker, SESSION_TIMEOUT, session_of, zookeeper};

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_expired_session_and_a_restarted_server_are_survived() {
    let Some(mut server) = Ensemble::single() else { return };
    let observer = zookeeper(&server.connect_string(), SESSION_TIMEOUT);
    session_of(&*observer).await;
    let broker = Broker::start(&server.connect_string(), 8200);
    let first = broker.settles(&*observer).await;
    for _ in 0..2 {
        broker.loses_its_session(&server).await;
        broker.settles(&*observer).await;
    }
    assert_ne!(session_of(&*broker.zookeeper).await.id, first.id);

    server.kill(0);
    server.start(0);
    broker.settles(&*observer).await;

    // Longer than any session lives on the client's side; the server's clock renews the old ones at its start.
    server.kill(0);
    tokio::time::sleep(SESSION_TIMEOUT * 2).await;
    server.start(0);
    broker.settles(&*observer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_ensemble_s_troubles_are_survived() {
    let Some(mut ensemble) = Ensemble::of_three() else { return };
    let observer = zookeeper(&ensemble.connect_string(), Duration::from_secs(6));
    session_of(&*observer).await;
    let broker = Broker::start(&ensemble.connect_string(), 8200);
    broker.settles(&*observer).await;

    for node in 0..ensemble.size() {
        ensemble.kill(node);
        broker.settles(&*observer).await;
        ensemble.start(node);
    }
    broker.settles(&*observer).await;

    let leader = ensemble.leader();
    ensemble.freeze(leader);
    tokio::time::sleep(SESSION_TIMEOUT).await;
    broker.settles(&*observer).await;
    ensemble.thaw(leader);
    broker.settles(&*observer).await;

    broker.loses_its_session(&ensemble).await;
    broker.settles(&*observer).await;

    ensemble.kill_all();
    ensemble.start_all();
    broker.settles(&*observer).await;
}
