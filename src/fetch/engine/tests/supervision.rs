//! A fault of our own, for which an observer stands in: it is called by the engine's task.

use crate::fetch::{FetchEvent, FetchObserver, FetchOptions};
use std::sync::{Arc, Mutex};

use super::broker::Broker;
use super::listener::Act;
use super::rig::{Rig, all, options, rig_observed};
use crate::common::guard::lock;
use crate::fetch::FetchError;

/// Panics at the first message, and hears of it.
#[derive(Debug, Default)]
struct Fault(Mutex<Vec<String>>);

impl FetchObserver for Fault {
    fn event(&self, event: &FetchEvent) {
        match event {
            FetchEvent::Received { .. } => panic!("a fault"),
            FetchEvent::Panicked { panic } => lock(&self.0).push(panic.to_string()),
            _ => {}
        }
    }
}

fn faulty() -> (Rig, Arc<Fault>) {
    let fault = Arc::new(Fault::default());
    let options = FetchOptions { observer: Some(fault.clone()), ..options() };
    let rig = rig_observed(Broker::new(false), |_| Act::Handle, options);
    (rig, fault)
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_ends_by_a_fault_says_so_to_everybody() {
    let (rig, fault) = faulty();
    assert_eq!(rig.engine.panicked(), None);
    rig.broker.put(0, 1, 10);
    rig.engine.add(&all([0]), 1024).unwrap();
    assert_eq!(rig.engine.ended().await.as_deref(), Some("a fault"));
    let is_told = |error| matches!(error, FetchError::Panicked(panic) if &*panic == "a fault");
    assert!(is_told(rig.engine.commit().await.unwrap_err()));
    assert!(is_told(rig.engine.add(&all([1]), 1024).unwrap_err()));
    assert!(is_told(rig.engine.release(&all([0])).await.unwrap_err()));
    rig.pass(1).await;
    assert_eq!(*lock(&fault.0), ["a fault"], "once");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_when_the_engine_ends_by_a_fault_is_told() {
    let (rig, _) = faulty();
    // The answer and the call come at the same time.
    rig.broker.put(0, 1, 10);
    rig.engine.add(&all([0]), 1024).unwrap();
    let mut last = rig.engine.pause(&all([7])).await;
    while last.is_ok() {
        last = rig.engine.pause(&all([7])).await;
    }
    assert!(matches!(last, Err(FetchError::Panicked(_))), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_was_stopped_has_ended_without_a_fault() {
    let (rig, _) = faulty();
    rig.engine.stop().await;
    assert_eq!(rig.engine.ended().await, None);
    assert!(matches!(rig.engine.commit().await, Err(FetchError::Stopped)));
}
