//! One TCP connection with any number of requests under way.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::ClientError;
use super::error::{End, NoAnswer};
use crate::common::activity::Activity;
use crate::protocol::{Command, Decoder, Limits, Opaque, OpaqueGenerator, Request, Response, Status};

/// Encoded requests that may wait for the socket before [`Connection::send`] waits too.
const OUTBOUND_REQUESTS: usize = 1024;

/// Free space that is made before each read from the socket.
const READ_BYTES: usize = 64 << 10;

/// Stands for times that the clock cannot express.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// Settings of a connection.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionOptions {
    /// Longest time to wait for the TCP connection.
    pub connect_timeout: Duration,
    /// Longest time to wait for each answer.
    pub request_timeout: Duration,
    /// Longest line and body that are accepted from the broker.
    pub limits: Limits,
    /// When a silent connection is asked for a sign of life; `None` never asks.
    pub heartbeat: Option<Heartbeat>,
}

impl Default for ConnectionOptions {
    /// Ten seconds each, the protocol's default limits, no heartbeats.
    fn default() -> Self {
        let timeout = Duration::from_secs(10);
        Self { connect_timeout: timeout, request_timeout: timeout, limits: Limits::default(), heartbeat: None }
    }
}

/// When a silent connection is asked for a sign of life, and when it is given up (01 §13.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// Time without a byte in either direction before a heartbeat is sent; zero never sends one.
    pub idle: Duration,
    /// Longest wait for its answer.
    pub timeout: Duration,
    /// So many failures in a row end the connection, at least one.
    pub failures: u32,
}

impl Default for Heartbeat {
    /// After ten seconds, five for the answer, three failures.
    fn default() -> Self {
        Self { idle: Duration::from_secs(10), timeout: Duration::from_secs(5), failures: 3 }
    }
}

/// A connection to one broker. Dropping it closes the connection; requests under way end as lost.
#[derive(Debug)]
pub struct Connection {
    wire: Arc<Wire>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

/// What requests need of a connection.
#[derive(Debug)]
struct Wire {
    address: Arc<str>,
    options: ConnectionOptions,
    opaques: OpaqueGenerator,
    outbound: mpsc::Sender<BytesMut>,
    pending: Arc<Pending>,
}

impl Connection {
    /// Connects to `host:port`.
    ///
    /// # Errors
    /// [`ClientError::Connect`], also when it took longer than the time-out.
    pub async fn connect(address: &str, options: ConnectionOptions) -> Result<Self, ClientError> {
        let error = |source| ClientError::Connect { address: address.to_owned(), source: Arc::new(source) };
        let stream = tokio::time::timeout(options.connect_timeout, TcpStream::connect(address))
            .await
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "connecting took too long")))
            .map_err(error)?;
        stream.set_nodelay(true).map_err(error)?;
        let (read, write) = stream.into_split();
        let (outbound, queue) = mpsc::channel(OUTBOUND_REQUESTS);
        let pending = Arc::new(Pending::default());
        let activity = Arc::new(Activity::new());
        let decoder = Decoder::new(options.limits);
        let reader = tokio::spawn(read_answers(read, decoder, Arc::clone(&pending), Arc::clone(&activity)));
        let writer = tokio::spawn(write_requests(write, queue, Arc::clone(&pending), Arc::clone(&activity)));
        let opaques = OpaqueGenerator::new();
        let wire = Arc::new(Wire { address: address.into(), options, opaques, outbound, pending });
        let ends = [reader.abort_handle(), writer.abort_handle()];
        let mut tasks = vec![AbortOnDropHandle::new(reader), AbortOnDropHandle::new(writer)];
        if let Some(heartbeat) = options.heartbeat {
            let watch = watch_over(Arc::clone(&wire), activity, heartbeat, ends);
            tasks.push(AbortOnDropHandle::new(tokio::spawn(watch)));
        }
        Ok(Self { wire, _tasks: tasks })
    }

    /// `host:port` of the broker.
    pub fn address(&self) -> &str {
        &self.wire.address
    }

    /// Whether the connection has ended; requests can only fail then.
    pub fn is_lost(&self) -> bool {
        self.wire.pending.end().is_some()
    }

    /// Waits for the end of the connection without keeping it, and tells the reason; `None` if it was dropped.
    /// Cancellation-safe.
    pub(super) fn ended(&self) -> impl Future<Output = Option<String>> + Send + 'static {
        let pending = Arc::clone(&self.wire.pending);
        async move {
            pending.ended.cancelled().await;
            pending.end().filter(|end| *end != End::Dropped).map(|end| end.to_string())
        }
    }

    pub(super) fn request_timeout(&self) -> Duration {
        self.wire.options.request_timeout
    }

    /// An opaque that no request of this connection carries.
    pub fn next_opaque(&self) -> Opaque {
        self.wire.opaques.next()
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// As [`send`](Self::send) and [`PendingAnswer::wait`].
    ///
    /// # Cancellation
    /// Once polled, the request may have been sent when the future is dropped; a late answer is ignored.
    pub async fn request(&self, request: &Request) -> Result<Response, ClientError> {
        self.send(request).await?.wait().await
    }

    /// Queues a request to be sent and returns what waits for its answer. Requests go out in the order in which these
    /// calls return. The time-out of the answer begins here.
    ///
    /// # Errors
    /// [`ClientError::Unsendable`] when a name in it does not fit the protocol's line, [`ClientError::NotSent`] when the
    /// connection is gone or the broker does not read on within the time-out.
    ///
    /// # Cancellation
    /// Cancellation-safe: a dropped future has sent nothing.
    pub async fn send(&self, request: &Request) -> Result<PendingAnswer, ClientError> {
        self.wire.send(request, self.wire.options.request_timeout).await
    }

    /// The same with a time-out of its own.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    ///
    /// # Cancellation
    /// As [`send`](Self::send).
    pub async fn send_within(&self, request: &Request, timeout: Duration) -> Result<PendingAnswer, ClientError> {
        self.wire.send(request, timeout).await
    }
}

impl Wire {
    async fn send(&self, request: &Request, timeout: Duration) -> Result<PendingAnswer, ClientError> {
        request.check()?;
        let deadline = after(timeout);
        let opaque = request.opaque();
        let receiver = self.pending.register(opaque).map_err(|end| self.not_sent(&end))?;
        let registered = Registered { pending: Arc::clone(&self.pending), opaque };
        let mut frame = BytesMut::new();
        request.encode(&mut frame);
        match tokio::time::timeout_at(deadline, self.outbound.send(frame)).await {
            Ok(Ok(())) => Ok(PendingAnswer { registered, receiver, deadline, timeout, address: self.address.clone() }),
            Ok(Err(_)) => Err(self.not_sent(&self.pending.end().unwrap_or(End::Closed))),
            Err(_) => Err(self.not_sent(&format_args!("the broker did not read on for {timeout:?}"))),
        }
    }

    fn not_sent(&self, reason: &impl ToString) -> ClientError {
        ClientError::NotSent { address: self.address.to_string(), reason: reason.to_string() }
    }
}

/// So much later, or what is as good as never.
pub(super) fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or_else(|| now + FAR)
}

/// Asks a silent connection for a sign of life, and ends it when there is none.
async fn watch_over(wire: Arc<Wire>, activity: Arc<Activity>, heartbeat: Heartbeat, ends: [AbortHandle; 2]) {
    let mut failures = 0;
    loop {
        activity.idle_for(heartbeat.idle).await;
        let request = Request::Version(wire.opaques.next());
        let answer = match wire.send(&request, heartbeat.timeout).await {
            Ok(pending) => pending.wait().await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(Response::Result(result)) if result.status == Status::SUCCESS => failures = 0,
            _ if wire.pending.end().is_some() => return,
            _ => failures += 1,
        }
        if failures >= heartbeat.failures.max(1) {
            wire.pending.finish(End::Silent(failures));
            ends.iter().for_each(AbortHandle::abort);
            return;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.wire.pending.finish(End::Dropped);
    }
}

/// A request under way. Dropped, its answer is ignored.
#[derive(Debug)]
pub struct PendingAnswer {
    registered: Registered,
    receiver: oneshot::Receiver<Response>,
    deadline: Instant,
    timeout: Duration,
    address: Arc<str>,
}

impl PendingAnswer {
    /// Puts the end of the time-out off, for a request that the broker may hold back so long before it answers.
    pub fn held_for(mut self, time: Duration) -> Self {
        self.deadline = self.deadline.checked_add(time).unwrap_or(self.deadline);
        self.timeout = self.timeout.saturating_add(time);
        self
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// [`ClientError::Unknown`].
    ///
    /// # Cancellation
    /// A dropped future does not take the request back; its answer is ignored.
    pub async fn wait(mut self) -> Result<Response, ClientError> {
        self.answered().await
    }

    /// The same, to be called until it has returned once. Cancellation-safe.
    pub(super) async fn answered(&mut self) -> Result<Response, ClientError> {
        match tokio::time::timeout_at(self.deadline, &mut self.receiver).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(_)) => {
                let end = self.registered.pending.end().unwrap_or(End::Closed);
                Err(NoAnswer::Lost { address: self.address.to_string(), reason: end.to_string() }.into())
            }
            Err(_) => Err(NoAnswer::Timeout { address: self.address.to_string(), timeout: self.timeout }.into()),
        }
    }
}

/// Who waits for which answer, and how the connection ended.
#[derive(Debug, Default)]
struct Pending {
    state: Mutex<PendingState>,
    ended: CancellationToken,
}

#[derive(Debug, Default)]
struct PendingState {
    waiting: HashMap<Opaque, oneshot::Sender<Response>>,
    end: Option<End>,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, PendingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, opaque: Opaque) -> Result<oneshot::Receiver<Response>, End> {
        let mut state = self.lock();
        if let Some(end) = &state.end {
            return Err(end.clone());
        }
        let (sender, receiver) = oneshot::channel();
        state.waiting.insert(opaque, sender);
        Ok(receiver)
    }

    /// Hands an answer to whoever waits for it; one that nobody waits for is dropped, as every peer does (01 §2.5).
    fn complete(&self, response: Response) {
        let waiting = self.lock().waiting.remove(&response.opaque());
        if let Some(waiting) = waiting {
            let _ = waiting.send(response);
        }
    }

    /// Ends every request under way.
    fn finish(&self, end: End) {
        let mut state = self.lock();
        state.end.get_or_insert(end);
        state.waiting.clear();
        drop(state);
        self.ended.cancel();
    }

    fn end(&self) -> Option<End> {
        self.lock().end.clone()
    }
}

/// Forgets the opaque when nobody waits for its answer any more, for whatever reason.
#[derive(Debug)]
struct Registered {
    pending: Arc<Pending>,
    opaque: Opaque,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.pending.lock().waiting.remove(&self.opaque);
    }
}

async fn read_answers(mut socket: OwnedReadHalf, mut decoder: Decoder, pending: Arc<Pending>, activity: Arc<Activity>) {
    let mut buffer = BytesMut::new();
    let end = loop {
        match decoder.decode(&mut buffer) {
            Ok(Some(Command::Response(response))) => {
                pending.complete(response);
                continue;
            }
            // A client has nothing to offer; the reference's answers 503, which no broker expects.
            Ok(Some(Command::Request(_))) => continue,
            Ok(None) => {}
            Err(error) => break End::Garbage(error),
        }
        buffer.reserve(READ_BYTES);
        match socket.read_buf(&mut buffer).await {
            Ok(0) => break End::Closed,
            Ok(_) => activity.note(),
            Err(error) => break End::Io(error.to_string()),
        }
    };
    pending.finish(end);
}

async fn write_requests(
    mut socket: OwnedWriteHalf,
    mut queue: mpsc::Receiver<BytesMut>,
    pending: Arc<Pending>,
    activity: Arc<Activity>,
) {
    while let Some(mut frames) = queue.recv().await {
        while frames.len() < READ_BYTES {
            let Ok(more) = queue.try_recv() else { break };
            frames.extend_from_slice(&more);
        }
        if let Err(error) = socket.write_all(&frames).await {
            pending.finish(End::Io(error.to_string()));
            return;
        }
        activity.note();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;
    use tokio::net::TcpListener;

    use super::*;
    use crate::protocol::Status;

    /// A peer that reads until it has seen `requests` whole lines, then writes `answer` and closes.
    async fn peer(requests: usize, answer: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut seen = Vec::new();
            while seen.iter().filter(|&&b| b == b'\n').count() < requests {
                assert_ne!(stream.read_buf(&mut seen).await.unwrap(), 0);
            }
            stream.write_all(answer).await.unwrap();
        });
        address
    }

    fn options() -> ConnectionOptions {
        ConnectionOptions { request_timeout: Duration::from_secs(20), ..ConnectionOptions::default() }
    }

    #[tokio::test]
    async fn answers_find_their_request_in_any_order() {
        let address = peer(2, b"result 200 1 -2147483647\r\nBresult 404 1 -2147483648\r\nA").await;
        let connection = Connection::connect(&address, options()).await.unwrap();
        let (first, second) = (connection.next_opaque(), connection.next_opaque());
        let (first_request, second_request) = (Request::Version(first), Request::Version(second));
        let (a, b) = tokio::join!(connection.request(&first_request), connection.request(&second_request));
        assert_eq!(a.unwrap(), Response::result(Status::NOT_FOUND, Bytes::from_static(b"A"), first));
        assert_eq!(b.unwrap(), Response::result(Status::SUCCESS, Bytes::from_static(b"B"), second));
    }

    #[tokio::test]
    async fn a_lost_connection_ends_every_request_and_refuses_new_ones() {
        let address = peer(1, b"").await;
        let connection = Connection::connect(&address, options()).await.unwrap();
        let request = Request::Version(connection.next_opaque());
        assert!(matches!(connection.request(&request).await, Err(ClientError::Unknown(NoAnswer::Lost { .. }))));
        let error = connection.request(&request).await.unwrap_err();
        assert!(matches!(error, ClientError::NotSent { .. }), "{error}");
        assert_eq!(connection.ended().await.as_deref(), Some("the broker closed it"));
    }

    #[tokio::test]
    async fn garbage_from_the_broker_ends_the_connection() {
        let address = peer(1, b"HTTP/1.1 400 Bad Request\r\n").await;
        let connection = Connection::connect(&address, options()).await.unwrap();
        let request = Request::Version(connection.next_opaque());
        let error = connection.request(&request).await.unwrap_err().to_string();
        assert!(error.contains("unknown command 'HTTP/1.1'"), "{error}");
    }

    #[tokio::test]
    async fn a_dropped_connection_ends_its_requests_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let connection = Connection::connect(&address, options()).await.unwrap();
        let pending = connection.send(&Request::Version(connection.next_opaque())).await.unwrap();
        drop(connection);
        assert!(matches!(pending.wait().await, Err(ClientError::Unknown(NoAnswer::Lost { .. }))));
    }

    #[tokio::test]
    async fn names_that_would_break_the_line_are_not_sent() {
        let address = peer(1, b"").await;
        let connection = Connection::connect(&address, options()).await.unwrap();
        for item in ["two words", "line\r\nquit", " "] {
            let stats = crate::protocol::Stats { item: item.into(), opaque: connection.next_opaque() };
            let error = connection.request(&Request::Stats(stats)).await.unwrap_err();
            assert!(matches!(error, ClientError::Unsendable(_)), "{item:?}: {error}");
        }
    }

    #[tokio::test]
    async fn silence_ends_in_a_timeout_and_a_late_answer_is_dropped() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let short = ConnectionOptions { request_timeout: Duration::from_millis(20), ..options() };
        let connection = Connection::connect(&address, short).await.unwrap();
        let request = Request::Version(connection.next_opaque());
        assert!(matches!(connection.request(&request).await, Err(ClientError::Unknown(NoAnswer::Timeout { .. }))));
        assert!(connection.wire.pending.lock().waiting.is_empty());
    }

    /// A peer that answers line after line with these statuses, round and round, if with anything. It counts the lines.
    async fn answering(statuses: &'static [Option<u16>]) -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut seen = Vec::new();
            while stream.read_buf(&mut seen).await.is_ok_and(|n| n > 0) {
                while let Some(end) = seen.iter().position(|&b| b == b'\n') {
                    let line = String::from_utf8(seen.drain(..=end).collect()).unwrap();
                    let opaque = line.trim_end().rsplit(' ').next().unwrap();
                    if let Some(status) = statuses[counter.fetch_add(1, Ordering::SeqCst) % statuses.len()] {
                        stream.write_all(format!("result {status} 0 {opaque}\r\n").as_bytes()).await.unwrap();
                    }
                }
            }
        });
        (address, count)
    }

    #[tokio::test]
    async fn the_third_unanswered_heartbeat_closes_the_connection() {
        let (address, _) = answering(&[None]).await;
        let options = ConnectionOptions { heartbeat: Some(Heartbeat::default()), ..options() };
        let connection = Connection::connect(&address, options).await.unwrap();
        tokio::time::pause();
        let start = Instant::now();
        let reason = connection.ended().await;
        assert_eq!(reason.as_deref(), Some("the broker left 3 heartbeats in a row without a good answer"));
        assert_eq!(start.elapsed().as_secs(), 35, "heartbeats at 10, 20 and 30 s");
        let error = connection.request(&Request::Version(connection.next_opaque())).await.unwrap_err();
        assert!(matches!(error, ClientError::NotSent { .. }), "{error}");
    }

    fn quick_heartbeat() -> ConnectionOptions {
        let heartbeat = Heartbeat { idle: Duration::from_millis(5), ..Heartbeat::default() };
        ConnectionOptions { heartbeat: Some(heartbeat), ..options() }
    }

    #[tokio::test]
    async fn failures_that_do_not_come_in_a_row_keep_the_connection() {
        let (address, count) = answering(&[Some(500), Some(500), Some(200)]).await;
        let connection = Connection::connect(&address, quick_heartbeat()).await.unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while count.load(Ordering::SeqCst) < 10 {
            assert!(Instant::now() < deadline, "heartbeats go on");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(!connection.is_lost());
    }

    #[tokio::test]
    async fn three_bad_answers_in_a_row_close_the_connection() {
        let (address, count) = answering(&[Some(500)]).await;
        let connection = Connection::connect(&address, quick_heartbeat()).await.unwrap();
        assert!(connection.ended().await.unwrap().contains("3 heartbeats"));
        assert_eq!(count.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn nobody_listening_is_told_as_such() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        assert!(matches!(Connection::connect(&address, options()).await, Err(ClientError::Connect { .. })));
    }
}
