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
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::ClientError;
use super::error::End;
use crate::protocol::{Command, Decoder, Limits, Opaque, OpaqueGenerator, Request, Response};

/// Encoded requests that may wait for the socket before [`Connection::send`] waits too.
const OUTBOUND_REQUESTS: usize = 1024;

/// Free space that is made before each read from the socket.
const READ_BYTES: usize = 64 << 10;

/// Settings of a connection.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionOptions {
    /// Longest time to wait for the TCP connection.
    pub connect_timeout: Duration,
    /// Longest time to wait for each answer.
    pub request_timeout: Duration,
    /// Longest line and body that are accepted from the broker.
    pub limits: Limits,
}

impl Default for ConnectionOptions {
    /// Ten seconds each, and the protocol's default limits.
    fn default() -> Self {
        let timeout = Duration::from_secs(10);
        Self { connect_timeout: timeout, request_timeout: timeout, limits: Limits::default() }
    }
}

/// A connection to one broker. Dropping it closes the connection; requests under way end as lost.
#[derive(Debug)]
pub struct Connection {
    address: Arc<str>,
    options: ConnectionOptions,
    opaques: OpaqueGenerator,
    outbound: mpsc::Sender<BytesMut>,
    pending: Arc<Pending>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl Connection {
    /// Connects to `host:port`.
    ///
    /// # Errors
    /// [`ClientError::Connect`], also when it took longer than the time-out.
    pub async fn connect(address: &str, options: ConnectionOptions) -> Result<Self, ClientError> {
        let error = |source| ClientError::Connect { address: address.to_owned(), source };
        let stream = tokio::time::timeout(options.connect_timeout, TcpStream::connect(address))
            .await
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "connecting took too long")))
            .map_err(error)?;
        stream.set_nodelay(true).map_err(error)?;
        let (read, write) = stream.into_split();
        let (outbound, queue) = mpsc::channel(OUTBOUND_REQUESTS);
        let pending = Arc::new(Pending::default());
        let reader = tokio::spawn(read_answers(read, Decoder::new(options.limits), Arc::clone(&pending)));
        let writer = tokio::spawn(write_requests(write, queue, Arc::clone(&pending)));
        Ok(Self {
            address: address.into(),
            options,
            opaques: OpaqueGenerator::new(),
            outbound,
            pending,
            _tasks: [AbortOnDropHandle::new(reader), AbortOnDropHandle::new(writer)],
        })
    }

    /// `host:port` of the broker.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether the connection has ended; requests can only fail then.
    pub fn is_lost(&self) -> bool {
        self.pending.end().is_some()
    }

    /// An opaque that no request of this connection carries.
    pub fn next_opaque(&self) -> Opaque {
        self.opaques.next()
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// [`ClientError::Lost`] and [`ClientError::Timeout`]; the outcome is unknown then.
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
    /// [`ClientError::Unsendable`] when a name in it does not fit the protocol's line, [`ClientError::Lost`] when the
    /// connection is gone, [`ClientError::Timeout`] when the broker does not read on.
    pub async fn send(&self, request: &Request) -> Result<PendingAnswer, ClientError> {
        request.check()?;
        let deadline = Instant::now() + self.options.request_timeout;
        let opaque = request.opaque();
        let receiver = self.pending.register(opaque).map_err(|end| self.lost(&end))?;
        let pending = PendingAnswer {
            registered: Registered { pending: Arc::clone(&self.pending), opaque },
            receiver,
            deadline,
            timeout: self.options.request_timeout,
            address: self.address.clone(),
        };
        let mut frame = BytesMut::new();
        request.encode(&mut frame);
        match tokio::time::timeout_at(deadline, self.outbound.send(frame)).await {
            Ok(Ok(())) => Ok(pending),
            Ok(Err(_)) => Err(self.lost(&self.pending.end().unwrap_or(End::Closed))),
            Err(_) => Err(pending.timed_out()),
        }
    }

    fn lost(&self, end: &End) -> ClientError {
        ClientError::Lost { address: self.address.to_string(), reason: end.to_string() }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.pending.finish(End::Dropped);
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
        self.deadline += time;
        self.timeout += time;
        self
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// [`ClientError::Lost`] and [`ClientError::Timeout`]; the outcome is unknown then.
    pub async fn wait(mut self) -> Result<Response, ClientError> {
        match tokio::time::timeout_at(self.deadline, &mut self.receiver).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(_)) => {
                let end = self.registered.pending.end().unwrap_or(End::Closed);
                Err(ClientError::Lost { address: self.address.to_string(), reason: end.to_string() })
            }
            Err(_) => Err(self.timed_out()),
        }
    }

    fn timed_out(&self) -> ClientError {
        ClientError::Timeout { address: self.address.to_string(), timeout: self.timeout }
    }
}

/// Who waits for which answer, and how the connection ended.
#[derive(Debug, Default)]
struct Pending(Mutex<PendingState>);

#[derive(Debug, Default)]
struct PendingState {
    waiting: HashMap<Opaque, oneshot::Sender<Response>>,
    end: Option<End>,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, PendingState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

async fn read_answers(mut socket: OwnedReadHalf, mut decoder: Decoder, pending: Arc<Pending>) {
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
            Ok(_) => {}
            Err(error) => break End::Io(error.to_string()),
        }
    };
    pending.finish(end);
}

async fn write_requests(mut socket: OwnedWriteHalf, mut queue: mpsc::Receiver<BytesMut>, pending: Arc<Pending>) {
    while let Some(mut frames) = queue.recv().await {
        while frames.len() < READ_BYTES {
            let Ok(more) = queue.try_recv() else { break };
            frames.extend_from_slice(&more);
        }
        if let Err(error) = socket.write_all(&frames).await {
            pending.finish(End::Io(error.to_string()));
            return;
        }
    }
}

#[cfg(test)]
mod tests {
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
        assert!(matches!(connection.request(&request).await, Err(ClientError::Lost { .. })));
        assert!(matches!(connection.request(&request).await, Err(ClientError::Lost { .. })));
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
        assert!(matches!(pending.wait().await, Err(ClientError::Lost { .. })));
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
        assert!(matches!(connection.request(&request).await, Err(ClientError::Timeout { .. })));
        assert!(connection.pending.lock().waiting.is_empty());
    }

    #[tokio::test]
    async fn nobody_listening_is_told_as_such() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        assert!(matches!(Connection::connect(&address, options()).await, Err(ClientError::Connect { .. })));
    }
}
