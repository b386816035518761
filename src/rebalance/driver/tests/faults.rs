//! Faults of our own, for which an assignee stands in: the driver's task calls it.

use std::sync::Arc;

use futures_core::future::BoxFuture;

use super::world::{SESSION, World};
use crate::id::TopicPartition;
use crate::rebalance::driver::{Driver, DriverOptions, JoinError, Left, Phase};
use crate::rebalance::simulated::Client;
use crate::rebalance::{Assignee, RangeStrategy};

/// Panics at whatever it is told.
#[derive(Debug)]
struct Fault;

impl Assignee for Fault {
    fn assigned(&self, _: &[TopicPartition]) {
        panic!("a fault");
    }

    fn release<'a>(&'a self, _: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn lost(&self, _: &[TopicPartition]) {
        panic!("another one");
    }

    fn fence(&self, _: bool) {}
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_ends_by_a_fault_says_so_to_everybody() {
    let world = World::new(1, RangeStrategy, &[2], Default::default()).await;
    let client = Client::connect(&world.service, SESSION, 1);
    let (root, membership, options) = (world.root.clone(), world.membership("g_a"), DriverOptions::default());
    let lease = options.lease.clone();
    let driver = Driver::start(client, root, membership, world.strategy.clone(), Arc::new(Fault), options);
    let mut states = driver.state();
    let state = states.wait_for(|state| matches!(state.phase, Phase::Panicked(_))).await.unwrap().clone();
    assert_eq!(state.phase, Phase::Panicked("a fault".into()));
    assert!(state.owned.is_empty() && !lease.holds());
    assert_eq!(driver.panicked().as_deref(), Some("a fault"));
    assert_eq!(driver.joined().await, Err(JoinError::Panicked("a fault".into())));
    let left = driver.leave().await;
    assert!(matches!(&left, Left::Incomplete { reason } if reason.contains("a fault")), "{left:?}");
}
