//! Which path leads where. The paths of the reference's dashboard (03 §14) are left free for it, but for `/reload-config`,
//! which is the same there.

use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};

use super::answer::{Failure, method_not_allowed, not_found};
use super::app::App;
use super::{changes, doors, probes, views};

/// The largest body of a request.
pub(super) const MAX_BODY_BYTES: usize = 1 << 20;

/// Longest time for a request, from its header to the start of the answer.
pub(super) const REQUEST_TIME: Duration = Duration::from_secs(30);

/// All paths, behind the doors.
pub(super) fn router(app: App) -> Router {
    Router::new()
        .route("/healthz", get(probes::healthz))
        .route("/readyz", get(probes::readyz))
        .route("/metrics", get(views::metrics))
        .route("/reload", post(changes::reload))
        .route("/reload-config", post(changes::reload_config))
        .route("/api/v1/status", get(views::status))
        .route("/api/v1/topics", get(views::topics))
        .route("/api/v1/topics/{topic}", get(views::topic))
        .route("/api/v1/stats", get(views::broker_stats))
        .route("/api/v1/stats/reset", post(changes::reset_statistics))
        .route("/api/v1/stats/{item}", get(views::stats))
        .route("/api/v1/config", get(views::config))
        .route("/api/v1/partitions/closed", get(views::closed_partitions))
        .route("/api/v1/partitions/close", post(changes::close_partitions))
        .route("/api/v1/partitions/open", post(changes::open_partitions))
        .route("/api/v1/stop", post(changes::stop))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(from_fn_with_state(app.clone(), doors::check))
        .layer(from_fn(frame))
        .with_state(app)
}

/// What holds for every request: a limit of its time and of its declared length, and an answer that nobody keeps or guesses
/// the type of.
async fn frame(request: Request, next: Next) -> Response {
    let declared =
        request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let mut response = if declared.is_some_and(|length| length > MAX_BODY_BYTES as u64) {
        Failure::new(StatusCode::PAYLOAD_TOO_LARGE, format!("a body has at most {MAX_BODY_BYTES} bytes here"))
            .into_response()
    } else {
        match tokio::time::timeout(REQUEST_TIME, next.run(request)).await {
            Ok(response) => response,
            Err(_) => Failure::new(
                StatusCode::SERVICE_UNAVAILABLE,
                format!(
                    "not done within {} s, though it may still be: look before you send it again",
                    REQUEST_TIME.as_secs()
                ),
            )
            .into_response(),
        }
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
