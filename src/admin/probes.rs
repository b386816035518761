//! What orchestrators and load balancers ask.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};

use super::answer::{Failure, text};
use super::app::App;

/// Paths of the probes, which are asked under any host name.
pub(super) const PATHS: [&str; 2] = ["/healthz", "/readyz"];

/// Whether the process should be left alone: 200 `ok`, or 503 with what only a restart can end. It is alive while it
/// starts and while it stops.
pub(super) async fn healthz(State(app): State<App>) -> Response {
    verdict("ok\n", app.started().map(|control| control.reasons_to_restart()).unwrap_or_default())
}

/// Whether clients should come here: 200 `ready`, or 503 with the reasons.
pub(super) async fn readyz(State(app): State<App>) -> Response {
    match app.control() {
        Ok(control) => verdict("ready\n", control.reasons_not_ready()),
        Err(starting) => starting.into_response(),
    }
}

fn verdict(good: &'static str, reasons: Vec<String>) -> Response {
    if reasons.is_empty() {
        return text(good);
    }
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, reasons.join("; ")).into_response()
}
