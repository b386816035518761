//! A sink that does with each message what a test tells it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::common::guard::lock;
use crate::fetch::{Batch, MessageSink, ReceivedMessage, RejectError, Verdict};

/// What to do with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Handle,
    Retry,
    Reject,
    /// Handle it and complain all the same.
    Complain,
    /// Handle it after a while.
    Slowly(Duration),
    /// Wait until the test opens the gate, then handle it.
    Gate,
    Panic,
}

/// A message as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Given {
    /// Milliseconds since the listener was made.
    pub(super) at: u128,
    pub(super) index: i32,
    pub(super) offset: i64,
    pub(super) id: i64,
    pub(super) redeliveries: u32,
}

type Plan = Box<dyn Fn(&ReceivedMessage) -> Act + Send + Sync>;

pub(super) struct Listener {
    start: Instant,
    plan: Plan,
    pub(super) gate: Notify,
    given: Mutex<Vec<Given>>,
    handled: Mutex<Vec<(i32, i64)>>,
    rejected: Mutex<Vec<(i32, i64, String)>>,
    /// Whether messages cannot be put away.
    pub(super) full: AtomicBool,
    /// Whether it looks before each message but the first whether the batch is stopped, as a sink should.
    pub(super) looks: AtomicBool,
    running: Mutex<HashMap<i32, usize>>,
    most: AtomicUsize,
    news: Notify,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

impl Listener {
    pub(super) fn new(plan: impl Fn(&ReceivedMessage) -> Act + Send + Sync + 'static) -> Self {
        Self {
            start: Instant::now(),
            plan: Box::new(plan),
            gate: Notify::new(),
            given: Mutex::default(),
            handled: Mutex::default(),
            rejected: Mutex::default(),
            full: AtomicBool::new(false),
            looks: AtomicBool::new(false),
            running: Mutex::default(),
            most: AtomicUsize::new(0),
            news: Notify::new(),
        }
    }

    /// All messages in the order in which they came.
    pub(super) fn given(&self) -> Vec<Given> {
        lock(&self.given).clone()
    }

    /// Ids of the handled messages of a partition, in order.
    pub(super) fn handled(&self, index: i32) -> Vec<i64> {
        lock(&self.handled).iter().filter(|(of, _)| *of == index).map(|(_, id)| *id).collect()
    }

    pub(super) fn rejected(&self) -> Vec<(i32, i64, String)> {
        lock(&self.rejected).clone()
    }

    /// The most batches that were here at the same time.
    pub(super) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    /// Batches that are here now.
    pub(super) fn running(&self) -> usize {
        lock(&self.running).values().sum()
    }

    /// Waits until what is asked for is so.
    pub(super) async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        let wait = async {
            loop {
                let news = self.news.notified();
                if is_so(self) {
                    return;
                }
                news.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(3600), wait)
            .await
            .expect("it is so within an hour of the paused clock");
    }

    async fn handle(&self, batch: &Batch) -> Verdict {
        for (place, message) in batch.messages().iter().enumerate() {
            let given = Given {
                at: self.start.elapsed().as_millis(),
                index: message.from.partition.index.get(),
                offset: message.offset.get(),
                id: message.id.get(),
                redeliveries: message.redeliveries,
            };
            lock(&self.given).push(given);
            self.news.notify_waiters();
            match (self.plan)(message) {
                Act::Handle => {}
                Act::Retry => return Verdict::Retry("not now".to_owned()),
                Act::Reject => return Verdict::Reject("never".to_owned()),
                Act::Complain => {
                    batch.handled(place + 1);
                    lock(&self.handled).push((given.index, given.id));
                    return Verdict::Retry("what for?".to_owned());
                }
                Act::Slowly(time) => sleep(time).await,
                Act::Gate => self.gate.notified().await,
                Act::Panic => panic!("the listener's own fault"),
            }
            batch.handled(place + 1);
            lock(&self.handled).push((given.index, given.id));
            self.news.notify_waiters();
            if self.looks.load(Ordering::SeqCst) && batch.is_stopped() {
                return Verdict::Stopped;
            }
        }
        Verdict::Done
    }
}

/// Counts batches, also those that are broken off, and sees to it that a partition has one at a time.
struct Running<'a>(&'a Listener, i32);

impl<'a> Running<'a> {
    fn new(listener: &'a Listener, index: i32) -> Self {
        let mut running = lock(&listener.running);
        let own = running.entry(index).or_default();
        *own += 1;
        assert_eq!(*own, 1, "two batches of partition {index} at the same time");
        listener.most.fetch_max(running.values().sum(), Ordering::SeqCst);
        Self(listener, index)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        lock(&self.0.running).insert(self.1, 0);
        self.0.news.notify_waiters();
    }
}

impl MessageSink for Listener {
    fn deliver<'a>(&'a self, batch: &'a Batch) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            let _running = Running::new(self, batch.messages()[0].from.partition.index.get());
            self.handle(batch).await
        })
    }

    fn reject<'a>(&'a self, message: &'a ReceivedMessage, reason: &'a str) -> BoxFuture<'a, Result<(), RejectError>> {
        Box::pin(async move {
            if self.full.load(Ordering::SeqCst) {
                return Err("no room for rejected messages".into());
            }
            let index = message.from.partition.index.get();
            lock(&self.rejected).push((index, message.id.get(), reason.to_owned()));
            self.news.notify_waiters();
            Ok(())
        })
    }
}
