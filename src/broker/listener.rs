//! Accepting connections, within limits.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::connection::{self, ConnectionLimits};
use super::processor::Processor;
use super::reactors::Reactors;
use crate::common::quiet::Quiet;

/// Connections that may wait to be accepted, as in the reference (01 §1).
const BACKLOG: u32 = 1000;

/// Pause after a failed accept, doubled up to the longest while failures go on: typically no descriptor is free.
const ACCEPT_PAUSE_MIN: Duration = Duration::from_millis(5);
const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Shortest time between two log lines about refused connections.
const REFUSAL_LOG_PERIOD: Duration = Duration::from_secs(10);

/// Binds the broker's port. Port 0 takes a free one.
///
/// # Errors
/// What the system says, typically that the port is in use.
pub(super) fn bind(address: IpAddr, port: u16) -> io::Result<TcpListener> {
    let address = SocketAddr::new(address, port);
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A port whose last connections are still in TIME_WAIT can be taken at once after a restart.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// What the listener gives to every connection.
#[derive(Debug, Clone)]
pub(super) struct Acceptor {
    pub(super) processor: Arc<Processor>,
    pub(super) reactors: Reactors,
    pub(super) limits: ConnectionLimits,
    pub(super) max_connections: usize,
    /// Knows every connection; closed and awaited at stop.
    pub(super) connections: TaskTracker,
    /// Ends accepting and the reading of every connection.
    pub(super) stop: CancellationToken,
    /// Drops the connections that do not end by themselves.
    pub(super) abort: CancellationToken,
}

impl Acceptor {
    /// Accepts until the stop.
    pub(super) async fn run(self, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(self.max_connections));
        let mut pause = ACCEPT_PAUSE_MIN;
        let mut refused = Quiet::new(REFUSAL_LOG_PERIOD);
        loop {
            let accepted = tokio::select! {
                () = self.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "cannot accept a connection; if descriptors have run out, raise the limit of open files");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(ACCEPT_PAUSE_MAX);
                    continue;
                }
            };
            pause = ACCEPT_PAUSE_MIN;
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                self.processor.counters().refused_connections.add_one();
                if let Some(since) = refused.count() {
                    warn!(%peer, limit = self.max_connections, refused = since, "closing a connection beyond maxConnections");
                }
                continue;
            };
            if let Err(error) = set_options(&stream) {
                debug!(%peer, %error, "connection lost while it was accepted");
                continue;
            }
            let stream = match stream.into_std() {
                Ok(stream) => stream,
                Err(error) => {
                    warn!(%peer, %error, "cannot take over a connection");
                    continue;
                }
            };
            let open = self.processor.counters().connection_opened();
            let token = self.connections.token();
            let (limits, stop, abort) = (self.limits, self.stop.clone(), self.abort.clone());
            self.reactors.spawn(move |reactor| async move {
                match TcpStream::from_std(stream) {
                    Ok(stream) => {
                        let connection = connection::serve(stream, peer, reactor, limits, stop);
                        let _ended = abort.run_until_cancelled(connection).await;
                    }
                    Err(error) => warn!(%peer, %error, "cannot serve a connection"),
                }
                drop((open, place, token));
            });
        }
    }
}

fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // Ends connections whose peer vanished without a word, long after the idle time-out would.
    SockRef::from(stream).set_keepalive(true)
}
