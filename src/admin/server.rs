//! The port, its connections and their limits.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use super::app::App;
use super::doors::{Doors, Peer};
use super::routes::router;
use super::stream::Watched;
use super::token::{AdminToken, TokenError};
use crate::broker::BrokerControl;
use crate::common::activity::Activity;
use crate::common::quiet::Quiet;
use crate::config::ServerConfig;

/// Connections at a time; more are closed at once, so that the descriptors of clients and segments stay theirs.
const MAX_CONNECTIONS: usize = 64;

/// Longest time for the header of a request, and between two requests of a connection.
const HEADER_TIME: Duration = Duration::from_secs(10);

/// A connection on which no byte moved for so long is closed, in the middle of an answer too. Longer than a request takes.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// Bytes of the header of a request.
const MAX_HEADER_BYTES: usize = 32 << 10;

/// Longest time that a stop waits for answers to be taken.
const FAREWELL_TIME: Duration = Duration::from_secs(1);

/// Pause after a failed accept: typically no descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Shortest time between two log lines about connections that are not served, of each kind.
const REFUSAL_LOG_PERIOD: Duration = Duration::from_secs(10);

/// Where to listen, and who may change something.
#[derive(Debug, Clone)]
pub struct AdminOptions {
    /// The address; port 0 lets the system choose.
    pub address: SocketAddr,
    /// What changing requests must carry.
    pub token: Option<AdminToken>,
}

/// Why there is no port for operators.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The port cannot be opened.
    #[error(
        "cannot listen on {address} for the HTTP interface: {source}; stop what uses the port, or set dashboardHttpPort in \
         [system] (0 lets the system choose) or adminBindAddress in [metaq]"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

impl AdminOptions {
    /// What a configuration and the environment of the process say.
    ///
    /// # Errors
    /// When a token is asked for and there is none that can be used.
    pub fn of(config: &ServerConfig) -> Result<Self, TokenError> {
        let address = SocketAddr::new(config.metaq.admin_bind_address, config.system.dashboard_http_port);
        Ok(Self { address, token: AdminToken::find(config.metaq.admin_token_file.as_deref())? })
    }
}

/// The running interface. [`stop`](Self::stop) it, or drop it to close everything at once.
#[derive(Debug)]
pub struct AdminServer {
    address: SocketAddr,
    app: App,
    connections: TaskTracker,
    stop: CancellationToken,
    _stop_when_dropped: DropGuard,
}

impl AdminServer {
    /// Opens the port. Until there is a broker to [`serve`](Self::serve), it answers that one is starting.
    ///
    /// # Errors
    /// When the port cannot be opened, typically because another broker of this machine has it.
    pub async fn start(options: AdminOptions) -> Result<Self, AdminError> {
        let AdminOptions { address, token } = options;
        let failed = |source| AdminError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let has_token = token.is_some();
        let app = App::new(Doors::new(address.ip(), token));
        let (connections, stop) = (TaskTracker::new(), CancellationToken::new());
        let acceptor = Acceptor { router: router(app.clone()), connections: connections.clone(), stop: stop.clone() };
        tokio::spawn(acceptor.run(listener));
        info!(%address, has_token, "serving operators by http");
        let _stop_when_dropped = stop.clone().drop_guard();
        Ok(Self { address, app, connections, stop, _stop_when_dropped })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on it tells of this broker.
    pub fn serve(&self, control: BrokerControl) {
        self.app.serve(control);
    }

    /// Closes the port; answers that are under way have a moment to be taken.
    pub async fn stop(self) {
        self.stop.cancel();
        self.connections.close();
        self.connections.wait().await;
    }
}

struct Acceptor {
    router: Router,
    connections: TaskTracker,
    stop: CancellationToken,
}

impl Acceptor {
    async fn run(self, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let [mut failed, mut refused] = [(); 2].map(|()| Quiet::new(REFUSAL_LOG_PERIOD));
        loop {
            let accepted = tokio::select! {
                () = self.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    if let Some(failures) = failed.count() {
                        warn!(%error, failures, "cannot accept a connection to the http port; if descriptors have run out, raise the limit of open files");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                if let Some(refused) = refused.count() {
                    warn!(%peer, limit = MAX_CONNECTIONS, refused, "closing a connection to the http port beyond its limit");
                }
                continue;
            };
            let (router, stop) = (self.router.clone(), self.stop.clone());
            self.connections.spawn(async move {
                serve(stream, peer, router, stop).await;
                drop(place);
            });
        }
    }
}

/// Serves a connection until it ends, falls silent, or everything stops.
async fn serve<S>(stream: S, peer: SocketAddr, router: Router, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Arc::new(Activity::new());
    let stream = TokioIo::new(Watched::new(stream, Arc::clone(&activity)));
    let service = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: http::Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        service.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(stream, service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = activity.idle_for(IDLE_TIME) => return debug!(%peer, "closing a silent connection to the http port"),
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(FAREWELL_TIME, connection).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        debug!(%peer, %error, "connection to the http port lost");
    }
}

#[cfg(test)]
mod tests;
