//! An engine between a broker, a listener and a storage that a test controls.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::common::guard::lock;
use crate::fetch::testing::partition;
use crate::fetch::{FetchEngine, FetchEvent, FetchObserver, FetchOptions, ReceivedMessage, Released};
use crate::id::TopicPartition;

use super::broker::Broker;
use super::listener::{Act, Listener};
use super::storage::Storage;

pub(super) struct Rig {
    pub(super) broker: Arc<Broker>,
    pub(super) listener: Arc<Listener>,
    pub(super) storage: Arc<Storage>,
    pub(super) events: Arc<Events>,
    pub(super) engine: FetchEngine,
}

#[derive(Debug, Default)]
pub(super) struct Events(Mutex<Vec<FetchEvent>>);

impl FetchObserver for Events {
    fn event(&self, event: &FetchEvent) {
        lock(&self.0).push(event.clone());
    }
}

impl Events {
    pub(super) fn count(&self, is_it: impl Fn(&FetchEvent) -> bool) -> usize {
        lock(&self.0).iter().filter(|event| is_it(event)).count()
    }
}

/// Four runners, whatever the machine has.
pub(super) fn options() -> FetchOptions {
    FetchOptions { runners: NonZeroUsize::new(4).unwrap(), ..FetchOptions::default() }
}

/// The partition's name.
pub(super) fn of(index: i32) -> TopicPartition {
    TopicPartition::clone(&partition(index))
}

pub(super) fn all(indexes: impl IntoIterator<Item = i32>) -> Vec<TopicPartition> {
    indexes.into_iter().map(of).collect()
}

/// A broker that does not hold gets, and a listener that handles everything.
pub(super) fn rig() -> Rig {
    rig_with(Broker::new(false), |_| Act::Handle, options())
}

pub(super) fn rig_with(
    broker: Broker,
    plan: impl Fn(&ReceivedMessage) -> Act + Send + Sync + 'static,
    options: FetchOptions,
) -> Rig {
    let events = Arc::new(Events::default());
    let options = FetchOptions { observer: Some(events.clone()), ..options };
    Rig { events, ..rig_observed(broker, plan, options) }
}

/// With the observer of the options.
pub(super) fn rig_observed(
    broker: Broker,
    plan: impl Fn(&ReceivedMessage) -> Act + Send + Sync + 'static,
    options: FetchOptions,
) -> Rig {
    let (broker, listener) = (Arc::new(broker), Arc::new(Listener::new(plan)));
    let (storage, events) = (Arc::new(Storage::new()), Arc::default());
    let group = crate::id::GroupName::new("g").unwrap();
    let engine = FetchEngine::start(broker.clone(), listener.clone(), storage.clone(), group, options);
    Rig { broker, listener, storage, events, engine }
}

impl Rig {
    pub(super) async fn add(&self, indexes: impl IntoIterator<Item = i32>, size: i32) {
        self.engine.add(&all(indexes), size).unwrap();
        self.settle().await;
    }

    pub(super) async fn lose(&self, indexes: impl IntoIterator<Item = i32>) {
        self.engine.lose(&all(indexes)).unwrap();
        self.settle().await;
    }

    /// Whatever was asked for before has been taken note of.
    async fn settle(&self) {
        self.engine.states().await;
    }

    pub(super) async fn release(&self, indexes: impl IntoIterator<Item = i32>) -> Released {
        self.engine.release(&all(indexes)).await.unwrap()
    }

    /// Lets so many milliseconds of the paused clock pass.
    pub(super) async fn pass(&self, ms: u64) {
        sleep(Duration::from_millis(ms)).await;
    }

    /// Waits until something is so, looking every millisecond of the paused clock.
    pub(super) async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(3600);
        while !is_so(self) {
            assert!(Instant::now() < deadline, "it is so within an hour of the paused clock");
            self.pass(1).await;
        }
    }

    pub(super) async fn position(&self, index: i32) -> Option<String> {
        Some(self.engine.position(&of(index)).await?.to_string())
    }

    /// When messages were given to the listener, in milliseconds.
    pub(super) fn given_at(&self) -> Vec<u128> {
        self.listener.given().iter().map(|given| given.at).collect()
    }
}
