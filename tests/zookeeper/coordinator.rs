//! Calls, errors, watches and the life of a session.

use metaq::zk::{Coordinator, CoordinatorError, NodeKind, SessionState, WatchEvent};

use crate::common::DEADLINE;
use crate::common::zookeeper::Ensemble;
use crate::rig::{SESSION_TIMEOUT, session_of, zookeeper};

async fn fires(watch: metaq::zk::Watch) -> WatchEvent {
    tokio::time::timeout(DEADLINE, watch).await.expect("the watch fires")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn calls_and_watches_do_what_the_seam_says() {
    let Some(server) = Ensemble::single() else { return };
    // A directory that does not exist yet.
    let below = zookeeper(&format!(" {} ,/", server.connect_string()), SESSION_TIMEOUT);
    let zk = zookeeper(&format!("{}/a/b/", server.connect_string()), SESSION_TIMEOUT);
    let session = session_of(&*zk).await;
    assert_eq!(session.generation, 1);
    assert_eq!(session.timeout, SESSION_TIMEOUT);

    zk.create("/x/y/z", b"1", NodeKind::Ephemeral).await.unwrap();
    let node = zk.get("/x/y/z").await.unwrap();
    assert_eq!((node.data.as_slice(), node.stat.version), (&b"1"[..], 0));
    assert_eq!(node.stat.ephemeral_owner, Some(session.id));
    assert_eq!(zk.get("/x/y").await.unwrap().stat.ephemeral_owner, None);
    session_of(&*below).await;
    assert_eq!(below.get("/a/b/x/y/z").await.unwrap(), node);

    type E = CoordinatorError;
    let path = "/x/y/z".to_owned();
    assert_eq!(zk.create("/x/y/z", b"", NodeKind::Persistent).await, Err(E::NodeExists(path.clone())));
    assert_eq!(zk.delete("/x/y", None).await, Err(E::NotEmpty("/x/y".to_owned())));
    assert_eq!(zk.get("/none").await, Err(E::NoNode("/none".to_owned())));
    assert_eq!(zk.exists("/none").await, Ok(None));
    let below_ephemeral = zk.create("/x/y/z/0", b"", NodeKind::Persistent).await;
    assert_eq!(below_ephemeral, Err(E::NoChildrenForEphemerals("/x/y/z/0".to_owned())));
    let refused = zk.get("no path").await.unwrap_err();
    assert!(matches!(refused, E::Refused { .. }) && refused.is_semantic(), "{refused}");

    assert_eq!(zk.set("/x/y/z", b"2", Some(0)).await.map(|stat| stat.version), Ok(1));
    assert_eq!(zk.set("/x/y/z", b"3", Some(0)).await, Err(E::BadVersion(path.clone())));
    assert_eq!(zk.delete("/x/y/z", Some(0)).await, Err(E::BadVersion(path)));

    let (_, data) = zk.watch_data("/x/y/z").await.unwrap();
    let (children, child) = zk.watch_children("/x/y").await.unwrap();
    let (absent, creation) = zk.watch_exists("/w").await.unwrap();
    assert_eq!((children, absent), (vec!["z".to_owned()], None));
    below.set("/a/b/x/y/z", b"4", None).await.unwrap();
    below.create("/a/b/w", b"", NodeKind::Persistent).await.unwrap();
    below.delete("/a/b/x/y/z", None).await.unwrap();
    for watch in [data, child, creation] {
        assert_eq!(fires(watch).await, WatchEvent::Changed);
    }

    // The end of a session reaches its watches, and another one follows.
    let (_, watch) = zk.watch_exists("/v").await.unwrap();
    zk.create("/mine", b"", NodeKind::Ephemeral).await.unwrap();
    server.expire(session.id.0);
    assert_eq!(fires(watch).await, WatchEvent::SessionOver);
    let mut states = zk.session();
    let newer = |state: &SessionState| state.connected().is_some_and(|session| session.generation == 2);
    tokio::time::timeout(DEADLINE, states.wait_for(newer)).await.unwrap().unwrap();
    assert_eq!(zk.exists("/mine").await, Ok(None));

    zk.create("/mine", b"", NodeKind::Ephemeral).await.unwrap();
    zk.close().await;
    assert_eq!(*zk.session().borrow(), SessionState::Closed);
    assert_eq!(below.exists("/a/b/mine").await, Ok(None), "a closed session's ephemeral node is gone at once");
    assert!(matches!(zk.exists("/mine").await, Err(E::NoSession { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_call_without_an_answer_ends_in_time_with_an_unknown_outcome() {
    let Some(server) = Ensemble::single() else { return };
    let zk = zookeeper(&server.connect_string(), SESSION_TIMEOUT);
    session_of(&*zk).await;
    let mut states = zk.session();
    server.freeze(0);
    let error = zk.create("/x", b"", NodeKind::Persistent).await.unwrap_err();
    assert!(matches!(error, CoordinatorError::Unknown { .. }) && !error.is_semantic(), "{error}");
    let lost = |state: &SessionState| state.connected().is_none();
    tokio::time::timeout(DEADLINE, states.wait_for(lost)).await.unwrap().unwrap();
    server.thaw(0);
    session_of(&*zk).await;
    // Read back and decide: whatever became of it, afterwards the node is there or can be made.
    match zk.create("/x", b"", NodeKind::Persistent).await {
        Ok(()) | Err(CoordinatorError::NodeExists(_)) => {}
        Err(error) => panic!("{error}"),
    }
}
