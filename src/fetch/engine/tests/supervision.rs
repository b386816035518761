//! A fault of our own: the engine's task panics.

use std::sync::{Arc, Mutex};

use super::broker::Broker;
use super::listener::Act;
use super::rig::{all, options, rig, rig_observed};
use crate::common::guard::lock;
use crate::fetch::{FetchError, FetchEvent, FetchObserver, FetchOptions};

/// Hears of it.
#[derive(Debug, Default)]
struct Witness(Mutex<Vec<String>>);

impl FetchObserver for Witness {
    fn event(&self, event: &FetchEvent) {
        if let FetchEvent::Panicked { panic } = event {
            lock(&self.0).push(panic.to_string());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_ends_by_a_fault_says_so_to_everybody() {
    let witness = Arc::new(Witness::default());
    let options = FetchOptions { observer: Some(witness.clone()), ..options() };
    let rig = rig_observed(Broker::new(false), |_| Act::Handle, options);
    rig.add([0], 1024).await;
    assert_eq!(rig.engine.panicked(), None);
    rig.engine.fault();
    assert_eq!(rig.engine.ended().await.as_deref(), Some("a fault"));
    let is_told = |error| matches!(error, FetchError::Panicked(panic) if &*panic == "a fault");
    assert!(is_told(rig.engine.commit().await.unwrap_err()));
    assert!(is_told(rig.engine.add(&all([1]), 1024).unwrap_err()));
    assert!(is_told(rig.engine.release(&all([0])).await.unwrap_err()));
    rig.pass(1).await;
    assert_eq!(*lock(&witness.0), ["a fault"], "once");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_when_the_engine_ends_by_a_fault_is_told() {
    let rig = rig();
    rig.engine.fault();
    let waiting = rig.engine.pause(&all([7])).await;
    assert!(matches!(waiting, Err(FetchError::Panicked(_))), "{waiting:?}");
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_was_stopped_has_ended_without_a_fault() {
    let rig = rig();
    rig.engine.stop().await;
    assert_eq!(rig.engine.ended().await, None);
    assert!(matches!(rig.engine.commit().await, Err(FetchError::Stopped)));
}
