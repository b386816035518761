//! The connection of one process to the service.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::service::{Event, Outcome, Service, Way};
use crate::id::TopicPartition;
use crate::zk::{
    Call, Coordinator, CoordinatorError, Node, NodeKind, NodeStat, Session, SessionId, SessionState, Watch, WatchEvent,
};

/// Longest way of a request or an answer.
const LATENCY: u64 = 3;
/// Longest time of a call, as in production.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// When a client notices that its connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// At once: the server's end was reset.
    AtOnce,
    /// After 9/20 of the session's time-out, as in production: nothing comes through.
    Late,
}

/// One process's session with the [`Service`], kept up as in production.
pub(crate) struct Client {
    shared: Arc<Shared>,
    queue: mpsc::UnboundedSender<Request>,
}

struct Shared {
    service: Arc<Service>,
    timeout: Duration,
    rng: Mutex<fastrand::Rng>,
    link: watch::Sender<Link>,
    states: watch::Sender<SessionState>,
    /// Sessions that the service ended for no reason.
    ended: Mutex<BTreeSet<SessionId>>,
    /// When the last thing that was sent to the client reaches it.
    returned: Mutex<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Link {
    /// Cuts that are in force.
    cuts: u32,
    notice: Notice,
    /// Freezes that are in force.
    freezes: u32,
    /// Times in force in which the server has lost the leader.
    strandings: u32,
    dead: bool,
    closed: bool,
    /// Counts the cuts.
    epoch: u64,
}

struct Request {
    session: SessionId,
    sent: Instant,
    /// The server needs nobody for it.
    is_read: bool,
    /// Carries it out, or tells that it came to nothing.
    run: Box<dyn FnOnce(Result<Reply, Lost>) + Send>,
}

/// How the answer gets back.
#[derive(Debug, Clone, Copy)]
struct Reply {
    at: Instant,
    epoch: u64,
}

#[derive(Debug, Clone, Copy)]
enum Lost {
    Connection,
    Session,
}

impl Link {
    fn is_alive(&self) -> bool {
        self.cuts == 0 && self.freezes == 0 && !self.dead
    }

    /// Whether the service's news come through.
    fn hears(&self) -> bool {
        self.is_alive() && self.strandings == 0
    }
}

impl Client {
    /// Connects, with a time-out of sessions.
    pub(crate) fn connect(service: &Arc<Service>, timeout: Duration, seed: u64) -> Arc<Self> {
        let link =
            Link { cuts: 0, notice: Notice::AtOnce, freezes: 0, strandings: 0, dead: false, closed: false, epoch: 0 };
        let shared = Arc::new(Shared {
            service: service.clone(),
            timeout,
            rng: Mutex::new(fastrand::Rng::with_seed(seed)),
            link: watch::Sender::new(link),
            states: watch::Sender::new(SessionState::Connecting),
            ended: Mutex::default(),
            returned: Mutex::new(Instant::now()),
        });
        let (queue, requests) = mpsc::unbounded_channel();
        tokio::spawn(keep(shared.clone()));
        tokio::spawn(carry(shared.clone(), requests));
        Arc::new(Self { shared, queue })
    }

    /// Nothing comes through for so long.
    pub(crate) fn cut(&self, lasts: Duration, notice: Notice) {
        self.shared.link.send_modify(|link| {
            link.cuts += 1;
            link.epoch += 1;
            link.notice = notice;
        });
        let shared = self.shared.clone();
        tokio::spawn(async move {
            sleep(lasts).await;
            shared.link.send_modify(|link| link.cuts -= 1);
        });
    }

    /// The process stands still for so long.
    pub(crate) fn freeze(&self, lasts: Duration) {
        self.shared.link.send_modify(|link| link.freezes += 1);
        let shared = self.shared.clone();
        tokio::spawn(async move {
            sleep(lasts).await;
            shared.link.send_modify(|link| link.freezes -= 1);
        });
    }

    /// The server that the client is connected to has lost the leader for so long. It goes on answering reads; whatever
    /// needs the leader stays on its way, with all that comes behind it, and the service hears nothing of the session.
    pub(crate) fn strand(&self, lasts: Duration) {
        let Some(session) = self.session_id() else { return };
        self.shared.link.send_modify(|link| link.strandings += 1);
        self.shared.service.silent(session, self.shared.timeout);
        let shared = self.shared.clone();
        tokio::spawn(async move {
            sleep(lasts).await;
            shared.service.heard(session);
            shared.link.send_modify(|link| link.strandings -= 1);
        });
    }

    /// The process is gone; the session lives on until its time-out.
    pub(crate) fn kill(&self) {
        self.shared.link.send_modify(|link| {
            link.dead = true;
            link.epoch += 1;
        });
    }

    /// The service ends the session for no reason.
    pub(crate) fn expire(&self) {
        if let Some(session) = self.session_id() {
            self.shared.ended.lock().unwrap().insert(session);
            self.shared.service.end(session);
        }
    }

    /// The session that the process believes it has.
    pub(crate) fn session_id(&self) -> Option<SessionId> {
        match *self.shared.states.borrow() {
            SessionState::Connected(session) | SessionState::Disconnected(session) => Some(session.id),
            _ => None,
        }
    }

    /// Whether the service has ended a session before its time, so that the process could not know.
    pub(crate) fn lost_unawares(&self, session: SessionId) -> bool {
        self.shared.ended.lock().unwrap().contains(&session)
    }

    /// Whether somebody who does not look whose it is has deleted the owner node of a partition in this session, so lately
    /// that the process need not have heard of it.
    pub(crate) fn robbed_unawares(&self, session: SessionId, of: &TopicPartition) -> bool {
        let node = format!("/owners/{}/{}", of.topic, of.partition);
        self.shared.service.robbed(session, &node).is_some_and(|at| at.elapsed() <= self.shared.timeout)
    }

    /// Waits while the process stands still.
    pub(crate) async fn thawed(&self) {
        self.shared.thawed().await;
    }

    fn call<T: Send + 'static>(
        &self,
        operation: &'static str,
        path: &str,
        run: impl FnOnce(&Service, SessionId, &str) -> Outcome<T> + Send + 'static,
    ) -> Call<'_, T> {
        let path = path.to_owned();
        Box::pin(async move {
            let unknown =
                |reason: &str| CoordinatorError::Unknown { operation, path: path.clone(), reason: reason.to_owned() };
            let Some(session) = self.session_id() else {
                return Err(CoordinatorError::NoSession { operation, path });
            };
            let (answer, answered) = oneshot::channel();
            let (service, at) = (self.shared.service.clone(), path.clone());
            let run = move |reply: Result<Reply, Lost>| {
                let result = reply.map(|reply| (run(&service, session, &at), reply));
                // The caller may have gone; what was asked is done all the same.
                let _ = answer.send(result);
            };
            let is_read = matches!(operation, "read" | "list" | "check" | "watch");
            let request = Request { session, sent: Instant::now(), is_read, run: Box::new(run) };
            if self.queue.send(request).is_err() {
                return Err(unknown("the process is gone"));
            }
            let limit = CALL_TIMEOUT.min(self.shared.timeout);
            match timeout(limit, answered).await {
                Ok(Ok(Ok((result, reply)))) => {
                    sleep_until(reply.at).await;
                    self.thawed().await;
                    if self.shared.link.borrow().epoch == reply.epoch { result } else { Err(unknown("lost")) }
                }
                Ok(Ok(Err(Lost::Session))) => Err(CoordinatorError::SessionOver { operation, path }),
                Ok(_) => Err(unknown("connection lost")),
                Err(_) => Err(unknown("none in time")),
            }
        })
    }

    /// An event comes through when the connection is there, also after it was lost.
    fn watch(&self, event: Event) -> Watch {
        let shared = self.shared.clone();
        Watch::new(async move {
            let fired = event.await;
            if let Ok(at) = fired {
                sleep_until(at).await;
            }
            let mut link = shared.link.subscribe();
            while !link.borrow().hears() {
                let _ = link.wait_for(Link::hears).await;
                sleep(shared.way()).await;
            }
            if fired.is_ok() { WatchEvent::Changed } else { WatchEvent::SessionOver }
        })
    }

    fn way(&self) -> Way {
        let shared = self.shared.clone();
        Arc::new(move || shared.returns())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

impl Shared {
    fn way(&self) -> Duration {
        Duration::from_millis(self.rng.lock().unwrap().u64(0..=LATENCY))
    }

    /// When something that is sent to the client now reaches it.
    fn returns(&self) -> Instant {
        let mut returned = self.returned.lock().unwrap();
        *returned = returned.max(Instant::now() + self.way());
        *returned
    }

    fn coin(&self) -> bool {
        self.rng.lock().unwrap().bool()
    }

    async fn thawed(&self) {
        let mut link = self.link.subscribe();
        let _ = link.wait_for(|link| link.freezes == 0).await;
    }

    /// States reach a process only while it runs.
    async fn publish(&self, state: SessionState) {
        self.thawed().await;
        self.states.send_if_modified(|present| std::mem::replace(present, state) != state);
    }
}

/// Carries requests to the service in their order.
async fn carry(shared: Arc<Shared>, mut requests: mpsc::UnboundedReceiver<Request>) {
    let mut link = shared.link.subscribe();
    let mut arrived = Instant::now();
    while let Some(request) = requests.recv().await {
        let is_read = request.is_read;
        let is_served = |link: &Link| link.hears() || is_read && link.is_alive();
        let Ok((epoch, is_stranded)) = link.wait_for(is_served).await.map(|link| (link.epoch, !link.hears())) else {
            return;
        };
        arrived = arrived.max(request.sent + shared.way());
        sleep_until(arrived).await;
        // A connection that breaks now may have carried the request or not.
        let is_lost = link.borrow().epoch != epoch && shared.coin();
        if is_lost {
            (request.run)(Err(Lost::Connection));
        } else if !is_stranded && !shared.service.is_open(request.session) {
            (request.run)(Err(Lost::Session));
        } else {
            (request.run)(Ok(Reply { at: shared.returns(), epoch }));
        }
    }
}

/// Opens one session after the other.
async fn keep(shared: Arc<Shared>) {
    for generation in 1.. {
        shared.publish(SessionState::Connecting).await;
        let mut link = shared.link.subscribe();
        if link.wait_for(Link::is_alive).await.is_err() {
            return;
        }
        sleep(shared.way()).await;
        let (id, over) = shared.service.open();
        let session = Session { id, generation, timeout: shared.timeout };
        shared.publish(SessionState::Connected(session)).await;
        if serve(&shared, session, over).await {
            shared.service.end(id);
            return shared.publish(SessionState::Closed).await;
        }
        shared.publish(SessionState::Expired(session)).await;
    }
}

/// Follows a session to its end; true if that was asked for.
async fn serve(shared: &Arc<Shared>, session: Session, mut over: watch::Receiver<bool>) -> bool {
    let mut link = shared.link.subscribe();
    loop {
        tokio::select! {
            biased;
            () = async { _ = over.wait_for(|over| *over).await } => {
                _ = link.wait_for(|link| link.strandings == 0).await;
                sleep(shared.way()).await;
                return false;
            }
            closed = async { link.wait_for(|link| !link.is_alive() || link.closed).await.is_ok_and(|l| l.closed) } => {
                if closed {
                    return true;
                }
            }
        }
        let since = Instant::now();
        shared.service.silent(session.id, session.timeout);
        let (frozen, late) = {
            let link = shared.link.borrow();
            (link.freezes > 0, link.notice == Notice::Late)
        };
        let notices = if late { session.timeout * 9 / 20 } else { Duration::ZERO };
        if !frozen && timeout_at(since + notices, link.wait_for(Link::is_alive)).await.is_err() {
            shared.publish(SessionState::Disconnected(session)).await;
        }
        // Without a server the client gives the session up by its own clock.
        let gives_up = since + session.timeout * 7 / 5;
        let is_back = timeout_at(gives_up, link.wait_for(Link::is_alive)).await.is_ok_and(|link| link.is_ok());
        shared.thawed().await;
        if !is_back && !link.borrow().is_alive() {
            return false;
        }
        sleep(shared.way()).await;
        if !shared.service.heard(session.id) {
            return false;
        }
        shared.publish(SessionState::Connected(session)).await;
    }
}

impl Coordinator for Client {
    fn session(&self) -> watch::Receiver<SessionState> {
        self.shared.states.subscribe()
    }

    fn create<'a>(&'a self, path: &'a str, data: &'a [u8], kind: NodeKind) -> Call<'a, ()> {
        let data = data.to_vec();
        self.call("create", path, move |service, session, path| service.create(session, path, &data, kind))
    }

    fn delete<'a>(&'a self, path: &'a str, version: Option<i32>) -> Call<'a, ()> {
        self.call("delete", path, move |service, session, path| service.delete(session, path, version))
    }

    fn get<'a>(&'a self, path: &'a str) -> Call<'a, Node> {
        self.call("read", path, |service, _, path| service.get(path))
    }

    fn set<'a>(&'a self, path: &'a str, data: &'a [u8], version: Option<i32>) -> Call<'a, NodeStat> {
        let data = data.to_vec();
        self.call("set", path, move |service, _, path| service.set(path, &data, version))
    }

    fn children<'a>(&'a self, path: &'a str) -> Call<'a, Vec<String>> {
        self.call("list", path, |service, _, path| service.children(path))
    }

    fn exists<'a>(&'a self, path: &'a str) -> Call<'a, Option<NodeStat>> {
        self.call("check", path, |service, _, path| Ok(service.exists(path)))
    }

    fn sync<'a>(&'a self, path: &'a str) -> Call<'a, ()> {
        self.call("sync", path, |_, _, _| Ok(()))
    }

    fn watch_data<'a>(&'a self, path: &'a str) -> Call<'a, (Node, Watch)> {
        Box::pin(async move {
            let way = self.way();
            let read = self.call("watch", path, move |service, session, path| {
                service.get(path).map(|node| (node, service.watch_node(session, path, way)))
            });
            read.await.map(|(node, event)| (node, self.watch(event)))
        })
    }

    fn watch_children<'a>(&'a self, path: &'a str) -> Call<'a, (Vec<String>, Watch)> {
        Box::pin(async move {
            let way = self.way();
            let read = self.call("watch", path, move |service, session, path| {
                service.children(path).map(|names| (names, service.watch_children(session, path, way)))
            });
            read.await.map(|(names, event)| (names, self.watch(event)))
        })
    }

    fn watch_exists<'a>(&'a self, path: &'a str) -> Call<'a, (Option<NodeStat>, Watch)> {
        Box::pin(async move {
            let way = self.way();
            let read = self.call("watch", path, move |service, session, path| {
                Ok((service.exists(path), service.watch_node(session, path, way)))
            });
            read.await.map(|(stat, event)| (stat, self.watch(event)))
        })
    }

    fn close(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            self.shared.link.send_modify(|link| link.closed = true);
            let mut states = self.shared.states.subscribe();
            let _ = states.wait_for(|state| *state == SessionState::Closed).await;
        })
    }
}
