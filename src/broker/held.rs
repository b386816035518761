//! Gets at the end of their partition that wait for messages, on behalf of one connection.
//!
//! They hold neither a task nor a buffer: a place among the waiters of the partition, and an entry here. Whoever makes
//! messages visible wakes the connection once, and it answers what can be answered. Other commands go on meanwhile.

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Wake, Waker};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::batch::{Batch, COMMAND_BYTES};
use super::outbound::{AnswerSender, Answers};
use super::processor::{AtEnd, Processor};
use crate::common::guard::lock;
use crate::store::Waiter;

/// Gets that a connection may have waiting; what comes beyond is answered at once.
const MAX_HELD: usize = 1024;

/// The gets of one connection that wait.
#[derive(Debug)]
pub(super) struct HeldGets {
    /// A place is free again when the answer is sent: a client that does not read is not let pile answers up.
    places: Arc<Semaphore>,
    signal: Arc<Signal>,
    waker: Waker,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    held: Vec<Held>,
    closed: bool,
}

#[derive(Debug)]
struct Held {
    get: AtEnd,
    waiter: Waiter,
    place: OwnedSemaphorePermit,
}

/// Wakes the connection's task, whichever waiter is meant.
#[derive(Debug, Default)]
struct Signal(Notify);

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

impl HeldGets {
    /// For a connection that may have so many bytes in flight. Waiting gets are limited by their number instead, half of
    /// what would fit at most: if they took from these bytes, a large put could wait for them.
    pub(super) fn new(in_flight_bytes: usize) -> Self {
        let signal = Arc::new(Signal::default());
        let waker = Waker::from(Arc::clone(&signal));
        let places = Arc::new(Semaphore::new(MAX_HELD.min(in_flight_bytes / 2 / COMMAND_BYTES)));
        Self { places, signal, waker, state: Mutex::default() }
    }

    /// Lets the gets of a batch wait that are to. Those for which there is no place or something to say join its answers.
    pub(super) fn hold(&self, batch: &mut Batch, processor: &Processor) {
        if batch.held.is_empty() {
            return;
        }
        let mut state = self.lock();
        for get in batch.held.drain(..) {
            let place = Arc::clone(&self.places).try_acquire_owned();
            let waiter = place.map(|place| (place, Waiter::new(Arc::clone(&get.log), self.waker.clone())));
            match waiter {
                // What became visible before the waiter was there wakes nobody.
                Ok((place, waiter)) if processor.must_wait(&get) => state.held.push(Held { get, waiter, place }),
                _ => processor.answer_held(&get, &mut batch.answers),
            }
        }
        drop(state);
        // A nearer time may be among them.
        self.signal.0.notify_one();
    }

    /// No command comes any more: what waits is answered as it stands.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.signal.0.notify_one();
    }

    /// Answers gets that have waited long enough, one way or the other, until [`close`](Self::close).
    pub(super) async fn run(&self, processor: &Processor, answers: AnswerSender) {
        loop {
            let (next, closed) = self.answer_ready(processor, &answers);
            if closed {
                return;
            }
            let passed = async {
                match next {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.signal.0.notified() => {}
                () = passed => {}
            }
        }
    }

    /// Answers what can be. Returns the next time at which a get has waited enough, and whether all is over.
    fn answer_ready(&self, processor: &Processor, answers: &AnswerSender) -> (Option<Instant>, bool) {
        let mut state = self.lock();
        let (now, closed) = (Instant::now(), state.closed);
        let is_over = |held: &mut Held| {
            if closed || held.get.deadline <= now {
                return true;
            }
            let was_woken = held.waiter.is_spent();
            if was_woken {
                held.waiter.renew(self.waker.clone());
            }
            was_woken && !processor.must_wait(&held.get)
        };
        let mut ready = Answers::default();
        for Held { get, place, .. } in state.held.extract_if(.., |held| is_over(held)) {
            processor.answer_held(&get, &mut ready);
            match &mut ready.permit {
                Some(places) => places.merge(place),
                none => *none = Some(place),
            }
        }
        if !ready.is_empty() {
            ready.decided_at = Some(now);
            answers.send(ready);
        }
        if state.held.is_empty() {
            // Thousands may have waited here once.
            state.held = Vec::new();
        }
        (state.held.iter().map(|held| held.get.deadline).min(), closed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}
