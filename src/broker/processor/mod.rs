//! Carrying out commands: each gets its answer at once, but for puts, which are answered when they are stored, and gets
//! that wait for messages.

mod get;
mod put;
mod stats;
#[cfg(test)]
mod tests;

pub(super) use self::get::AtEnd;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::BytesMut;

use super::batch::Batch;
use super::counters::Counters;
use super::identity::{Identity, VERSION};
use super::realtime::Realtime;
use super::refusal::Refusal;
use super::room::Room;
use super::routes::Routes;
use super::topics::Topics;
use super::unsent::Unsent;
use crate::common::quiet::Quiet;
use crate::protocol::{Opaque, Request, Response, Status, TransactionType};
use crate::store::{Committer, Store};

/// Bytes of puts that may wait for the committer, over all connections; their connections are not read beyond. A larger
/// batch goes when nothing else waits.
const COMMITTER_BYTES: usize = 16 << 20;

/// Shortest time between two log lines about partitions that cannot be made.
const FAILURE_LOG_PERIOD: Duration = Duration::from_secs(10);

/// What commands work on. Shared by all connections.
#[derive(Debug)]
pub(super) struct Processor {
    identity: Arc<Identity>,
    topics: Arc<Topics>,
    store: Arc<Store>,
    counters: Arc<Counters>,
    realtime: Realtime,
    routes: Routes,
    committer_room: Room,
    receive_room: Room,
    unsent: Arc<Unsent>,
    partition_failures: Mutex<Quiet>,
    started: Instant,
    stopping: AtomicBool,
}

impl Processor {
    pub(super) fn new(identity: Identity, topics: Arc<Topics>, store: Arc<Store>) -> Self {
        let metaq = &topics.config().metaq;
        let (receive_room, unsent) = (Room::new(metaq.max_receiving_bytes), Unsent::new(metaq.max_unsent_bytes));
        Self {
            identity: Arc::new(identity),
            topics,
            store,
            counters: Arc::default(),
            realtime: Realtime::new(),
            routes: Routes::default(),
            committer_room: Room::new(COMMITTER_BYTES),
            receive_room,
            unsent,
            partition_failures: Mutex::new(Quiet::new(FAILURE_LOG_PERIOD)),
            started: Instant::now(),
            stopping: AtomicBool::new(false),
        }
    }

    pub(super) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Room for large bodies that are arriving, over all connections.
    pub(super) fn receive_room(&self) -> &Room {
        &self.receive_room
    }

    /// Answers that are not sent yet, over all connections.
    pub(super) fn unsent(&self) -> &Arc<Unsent> {
        &self.unsent
    }

    /// Room for puts that wait for the committer, over all connections.
    pub(super) fn committer_room(&self) -> &Room {
        &self.committer_room
    }

    pub(super) fn committer(&self) -> &Committer {
        self.store.committer()
    }

    pub(super) fn topics(&self) -> &Arc<Topics> {
        &self.topics
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub(super) fn routes(&self) -> &Routes {
        &self.routes
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Time since the start.
    pub(super) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// From now on answers 503 to everything that reads or writes messages.
    pub(super) fn stop_serving(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Appends an answer that is no success, and counts it.
    fn refuse(&self, refusal: &Refusal<'_>, opaque: Opaque, out: &mut BytesMut) {
        self.counters.refused(refusal.status());
        refusal.encode(&self.identity, opaque, out);
    }

    /// Carries out one command. Its answer, or the put, joins the batch.
    pub(super) fn process(&self, request: Request, batch: &mut Batch) {
        batch.count_command();
        let opaque = request.opaque();
        let serves_messages = matches!(request, Request::Put(_) | Request::Get(_) | Request::Offset(_));
        if serves_messages && self.is_stopping() {
            return self.refuse(&Refusal::Stopping, opaque, batch.answers.buffer());
        }
        match request {
            Request::Put(put) => self.put(put, batch),
            Request::Get(get) => self.get(&get, batch),
            Request::Offset(query) => self.nearest_offset(&query, batch.answers.buffer()),
            Request::Stats(stats) => {
                batch.count_statistics();
                self.stats(&stats, batch.answers.buffer());
            }
            Request::Version(opaque) => {
                Response::result(Status::SUCCESS, VERSION, opaque).encode(batch.answers.buffer());
            }
            // Never answered: clients do not wait for it (01 §9.4).
            Request::Transaction(transaction) if transaction.kind == TransactionType::End => {}
            Request::Transaction(_) => {
                self.refuse(&Refusal::Transactions, opaque, batch.answers.buffer());
            }
            Request::Sync(_) => self.refuse(&Refusal::NoProcessor, opaque, batch.answers.buffer()),
            // The connection ends before it comes here.
            Request::Quit => {}
        }
    }
}
