//! Panics of what the engine calls.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::fetch::{FetchEngine, FetchError, FetchEvent, FetchObserver, FetchOptions};
use crate::id::GroupName;

use super::broker::{Answer, Broker};
use super::listener::{Act, Listener};
use super::rig::{all, of, options, rig};
use super::storage::Storage;

#[tokio::test(start_paused = true)]
async fn a_storage_that_panics_has_failed_and_nobody_waits_for_it() {
    let rig = rig();
    rig.broker.put(0, 1, 10);
    rig.add([0], 1024).await;
    rig.until(|rig| rig.listener.handled(0) == [1]).await;
    rig.storage.panics.store(true, Ordering::SeqCst);
    let error = rig.engine.commit().await.unwrap_err();
    assert!(matches!(&error, FetchError::NotCommitted { failed: 1, .. }), "{error}");
    assert!(error.to_string().contains("the offset storage panicked"), "{error}");
    assert_eq!(rig.release([0]).await.not_committed.len(), 1);
    rig.add([0], 1024).await;
    rig.pass(100).await;
    let told = |event: &FetchEvent| matches!(event, FetchEvent::LoadFailed { error, .. } if error.contains("panic"));
    assert_eq!(rig.events.count(told), 1);
    rig.storage.panics.store(false, Ordering::SeqCst);
    rig.until(|rig| rig.listener.handled(0) == [1, 1]).await;
    rig.engine.commit().await.unwrap();
    assert_eq!(rig.storage.offset(0), Some(30));
}

#[derive(Debug)]
struct Bomb;

impl FetchObserver for Bomb {
    fn event(&self, _: &FetchEvent) {
        panic!("no bread");
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_stops_nothing() {
    let (broker, listener) = (Arc::new(Broker::new(false)), Arc::new(Listener::new(|_| Act::Handle)));
    let (storage, group) = (Arc::new(Storage::new()), GroupName::new("g").unwrap());
    let options = FetchOptions { observer: Some(Arc::new(Bomb)), ..options() };
    let engine = FetchEngine::start(broker.clone(), listener.clone(), storage.clone(), group, options);
    broker.script(0, [Answer::Failure]);
    broker.put(0, 1, 10);
    engine.add(&all([0]), 1024).unwrap();
    listener.until(|listener| listener.handled(0) == [1]).await;
    engine.commit().await.unwrap();
    assert_eq!((storage.offset(0), engine.assigned().await), (Some(30), vec![of(0)]));
    assert!(engine.stop().await.not_committed.is_empty());
}
