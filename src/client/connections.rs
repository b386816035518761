//! One connection for each address, shared by everything of a factory.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::connection::ConnectionOptions;
use super::events::{ClientEvent, Events};
use super::{BrokerClient, ClientError};
use crate::common::guard::lock;

/// What is told of a factory that has been shut down.
pub(super) const FACTORY: &str = "Message session factory";

/// Longer back-offs are cut to this.
const LONGEST_BACKOFF: Duration = Duration::from_secs(3600);

/// Connections by address. They are made when they are first needed, by one attempt at a time for each address.
#[derive(Debug)]
pub(super) struct Connections {
    options: ConnectionOptions,
    backoff: Duration,
    events: Events,
    /// `None` once everything is closed.
    slots: Mutex<Option<HashMap<String, Arc<Slot>>>>,
}

#[derive(Debug)]
struct Slot {
    address: String,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Idle,
    Connecting(watch::Receiver<Option<Attempt>>),
    Connected {
        client: Arc<BrokerClient>,
        /// Before then a loss counts as a failed attempt: a peer that accepts and closes is not hammered either.
        settled: Instant,
    },
    Failed {
        error: ClientError,
        until: Instant,
    },
}

type Attempt = Result<Arc<BrokerClient>, ClientError>;

/// What [`Slot::enter`] found.
enum Entry {
    Now(Attempt),
    Wait(watch::Receiver<Option<Attempt>>),
}

impl Connections {
    pub(super) fn new(options: ConnectionOptions, backoff: Duration, events: Events) -> Self {
        let backoff = backoff.min(LONGEST_BACKOFF);
        Self { options, backoff, events, slots: Mutex::new(Some(HashMap::new())) }
    }

    /// The connection to an address, made now if there is none. Within the back-off after a failure that error comes
    /// at once. Cancellation-safe: the attempt goes on for whoever comes next.
    pub(super) async fn get(&self, address: &str) -> Attempt {
        let slot = self.slot(address)?;
        let mut attempt = match self.enter(&slot) {
            Entry::Now(attempt) => return attempt,
            Entry::Wait(attempt) => attempt,
        };
        let ended = attempt.wait_for(Option::is_some).await;
        // Without a result the runtime is going down.
        ended.ok().and_then(|attempt| attempt.clone()).unwrap_or(Err(ClientError::Shutdown(FACTORY)))
    }

    /// The connection to an address if it is there now; otherwise one is being made from now on.
    pub(super) fn ready(&self, address: &str) -> Option<Arc<BrokerClient>> {
        match self.enter(&self.slot(address).ok()?) {
            Entry::Now(attempt) => attempt.ok(),
            Entry::Wait(_) => None,
        }
    }

    /// The connection to an address if it is there now.
    pub(super) fn present(&self, address: &str) -> Option<Arc<BrokerClient>> {
        let slot = lock(&self.slots).as_ref()?.get(address).cloned()?;
        slot.present()
    }

    /// Every connection that is there now, in the order of addresses.
    pub(super) fn all_present(&self) -> Vec<Arc<BrokerClient>> {
        let slots: Vec<_> = lock(&self.slots).iter().flat_map(HashMap::values).cloned().collect();
        let mut clients: Vec<_> = slots.iter().filter_map(|slot| slot.present()).collect();
        clients.sort_unstable_by(|a, b| a.address().cmp(b.address()));
        clients
    }

    /// Gives a connection up after an error; whoever has requests under way keeps it until they end.
    pub(super) fn give_up(&self, client: &Arc<BrokerClient>) {
        let Some(slot) = lock(&self.slots).as_ref().and_then(|slots| slots.get(client.address()).cloned()) else {
            return;
        };
        let mut state = lock(&slot.state);
        if let State::Connected { client: present, settled } = &*state
            && Arc::ptr_eq(present, client)
        {
            info!(address = client.address(), "broker connection given up after a request without a good answer");
            *state = State::after_loss(client.address(), "it was given up after a request that failed", *settled);
        }
    }

    /// Closes what leads to none of these addresses. Whoever has requests under way keeps a connection until they end.
    pub(super) fn retain(&self, addresses: &HashSet<String>) {
        if let Some(slots) = lock(&self.slots).as_mut() {
            slots.retain(|address, _| addresses.contains(address));
        }
    }

    /// Closes everything, for good.
    pub(super) fn close(&self) {
        drop(lock(&self.slots).take());
    }

    fn slot(&self, address: &str) -> Result<Arc<Slot>, ClientError> {
        let mut slots = lock(&self.slots);
        let slots = slots.as_mut().ok_or(ClientError::Shutdown(FACTORY))?;
        if let Some(slot) = slots.get(address) {
            return Ok(Arc::clone(slot));
        }
        let slot = Arc::new(Slot { address: address.to_owned(), state: Mutex::new(State::Idle) });
        slots.insert(address.to_owned(), Arc::clone(&slot));
        Ok(slot)
    }

    fn enter(&self, slot: &Arc<Slot>) -> Entry {
        let mut state = lock(&slot.state);
        if let State::Connected { client, settled } = &*state {
            if !client.is_lost() {
                return Entry::Now(Ok(Arc::clone(client)));
            }
            *state = State::after_loss(&slot.address, "it has just ended", *settled);
        }
        match &*state {
            State::Connecting(attempt) => return Entry::Wait(attempt.clone()),
            State::Failed { error, until } if *until > Instant::now() => return Entry::Now(Err(error.clone())),
            _ => {}
        }
        let (sender, attempt) = watch::channel(None);
        *state = State::Connecting(attempt.clone());
        tokio::spawn(connect(Arc::clone(slot), self.options, self.pause(), self.events.clone(), sender));
        Entry::Wait(attempt)
    }

    /// The back-off, a quarter more or less.
    fn pause(&self) -> Duration {
        self.backoff.mul_f64(0.75 + fastrand::f64() / 2.0)
    }
}

impl State {
    fn after_loss(address: &str, reason: &str, settled: Instant) -> Self {
        if settled <= Instant::now() {
            return Self::Idle;
        }
        let error = ClientError::NotSent { address: address.to_owned(), reason: reason.to_owned() };
        Self::Failed { error, until: settled }
    }
}

impl Slot {
    fn present(&self) -> Option<Arc<BrokerClient>> {
        match &*lock(&self.state) {
            State::Connected { client, .. } if !client.is_lost() => Some(Arc::clone(client)),
            _ => None,
        }
    }
}

/// Makes one attempt, and follows the connection to its end.
async fn connect(
    slot: Arc<Slot>,
    options: ConnectionOptions,
    pause: Duration,
    events: Events,
    attempt: watch::Sender<Option<Attempt>>,
) {
    let address = slot.address.clone();
    let result = BrokerClient::connect(&address, options).await.map(Arc::new);
    let next = Instant::now() + pause;
    let ended = result.as_ref().ok().map(|client| client.ended());
    *lock(&slot.state) = match &result {
        Ok(client) => State::Connected { client: Arc::clone(client), settled: next },
        Err(error) => State::Failed { error: error.clone(), until: next },
    };
    // From here on the connection is the slot's and the callers' alone.
    drop(slot);
    match &result {
        Ok(_) => {
            info!(address, "broker connected");
            events.emit(ClientEvent::BrokerConnected { address: address.clone() });
        }
        Err(error) => {
            debug!(address, %error, "broker cannot be reached");
            let reason = match error {
                ClientError::Connect { source, .. } => source.to_string(),
                other => other.to_string(),
            };
            events.emit(ClientEvent::BrokerUnreachable { address: address.clone(), reason });
        }
    }
    attempt.send_replace(Some(result));
    drop(attempt);
    let Some(ended) = ended else { return };
    if let Some(reason) = ended.await {
        warn!(address, reason, "broker connection lost");
        events.emit(ClientEvent::BrokerLost { address, reason });
    }
}

#[cfg(test)]
mod tests;
