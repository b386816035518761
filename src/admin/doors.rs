//! Who may do what.
//!
//! * Reading is free to whoever can connect. Changing (every method but GET and HEAD) needs the token if there is one; if
//!   the port can be reached from other machines and there is none, nobody may.
//! * A page in a browser on the same machine must not reach a port that is bound to loopback: such a port takes only
//!   requests that name a loopback host (a name that an attacker points there is another), and no changing request of
//!   another origin. Health checks name whatever they like.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tracing::warn;

use super::answer::Failure;
use super::app::App;
use super::probes;
use super::token::AdminToken;
use crate::common::guard::lock;
use crate::common::quiet::Quiet;

/// Shortest time between two log lines about refused requests.
const LOG_PERIOD: Duration = Duration::from_secs(10);

/// Where a browser says whence a request comes.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

/// What a request was stopped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    /// A host that is not this machine.
    Host,
    /// A page of another origin.
    Origin,
    /// No token, or the wrong one.
    Token,
    /// There is no token, and the port can be reached from elsewhere.
    Closed,
}

impl Door {
    const ALL: [Self; 4] = [Self::Host, Self::Origin, Self::Token, Self::Closed];

    fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Origin => "origin",
            Self::Token => "token",
            Self::Closed => "closed",
        }
    }

    fn failure(self) -> Failure {
        match self {
            Self::Host => Failure::new(
                StatusCode::FORBIDDEN,
                "this port serves this machine only, so the host of a request must be localhost or a loopback address: \
                 name it so, or set adminBindAddress",
            ),
            Self::Origin => Failure::new(
                StatusCode::FORBIDDEN,
                "a page of another origin may not change anything here: use a program instead of a browser",
            ),
            Self::Token => Failure::new(
                StatusCode::UNAUTHORIZED,
                "what changes something needs the header `Authorization: Bearer <token>` with the token that \
                 METAQ_ADMIN_TOKEN or adminTokenFile gives to the broker",
            ),
            Self::Closed => Failure::new(
                StatusCode::FORBIDDEN,
                "this port can be reached from other machines, so what changes something needs a token, and the broker has \
                 none: set the environment variable METAQ_ADMIN_TOKEN, or adminTokenFile in [metaq], and start it again",
            ),
        }
    }
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Doors {
    loopback: bool,
    token: Option<AdminToken>,
    refused: [AtomicU64; Door::ALL.len()],
    log: Mutex<Quiet>,
}

impl Doors {
    /// Of a port that is bound to an address.
    pub(super) fn new(bound: IpAddr, token: Option<AdminToken>) -> Self {
        let log = Mutex::new(Quiet::new(LOG_PERIOD));
        Self { loopback: bound.to_canonical().is_loopback(), token, refused: Default::default(), log }
    }

    /// How many requests each door stopped.
    pub(super) fn refused(&self) -> Vec<(&'static str, u64)> {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Door::ALL.iter().map(|door| door.name()).zip(self.refused.iter().map(count)).collect()
    }

    fn admit(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Door> {
        if self.loopback && !probes::PATHS.contains(&uri.path()) && !names_loopback(uri, headers) {
            return Err(Door::Host);
        }
        if matches!(*method, Method::GET | Method::HEAD) {
            return Ok(());
        }
        if is_foreign(headers) {
            return Err(Door::Origin);
        }
        match &self.token {
            Some(token) if bearer(headers).is_some_and(|sent| token.is(sent)) => Ok(()),
            Some(_) => Err(Door::Token),
            None if self.loopback => Ok(()),
            None => Err(Door::Closed),
        }
    }

    fn note(&self, door: Door, peer: Option<&Peer>) {
        if let Some(count) = self.refused.get(door as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        // Nothing of the request itself: a client may put its token anywhere.
        if let Some(refused) = lock(&self.log).count() {
            let peer = peer.map(|Peer(address)| address.to_string());
            warn!(peer, %door, refused, "refusing a request to the http port");
        }
    }
}

/// Lets a request in or answers it.
pub(super) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    match app.doors().admit(request.method(), request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(door) => {
            app.doors().note(door, request.extensions().get());
            door.failure().into_response()
        }
    }
}

/// Whether every host that a request names is this machine. One that names none comes from no browser.
fn names_loopback(uri: &Uri, headers: &HeaderMap) -> bool {
    let hosts = headers.get_all(header::HOST).iter();
    uri.authority().is_none_or(is_loopback)
        && hosts.map(host).all(|host| host.is_some_and(|authority| is_loopback(&authority)))
}

fn host(value: &HeaderValue) -> Option<Authority> {
    Authority::try_from(value.as_bytes()).ok()
}

fn is_loopback(authority: &Authority) -> bool {
    let host = authority.host();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || bare.parse().is_ok_and(|address: IpAddr| address.to_canonical().is_loopback())
}

/// Whether a browser says that another origin's page sends it. A page of this port's own is none, also of the same site.
fn is_foreign(headers: &HeaderMap) -> bool {
    let own = headers.get(header::HOST).map(HeaderValue::as_bytes).unwrap_or_default();
    let is_own = |origin: &[u8]| {
        let host = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
        host.is_some_and(|host| host.eq_ignore_ascii_case(own))
    };
    let origins = headers.get_all(header::ORIGIN).iter().map(HeaderValue::as_bytes);
    let sites = headers.get_all(SEC_FETCH_SITE).iter().map(HeaderValue::as_bytes);
    !origins.into_iter().all(is_own) || !sites.into_iter().all(|site| matches!(site, b"same-origin" | b"none"))
}

/// The token that a request carries.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (value, None) = (values.next()?.as_bytes(), values.next()) else { return None };
    let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests;
