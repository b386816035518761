//! What changes something.

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::info;

use super::answer::{Failure, JsonLine, text};
use super::app::App;
use super::doors::Peer;
use crate::broker::{PartitionsError, ReloadError, ReloadReport};

/// What the reference answers to a reload (03 §14).
const RELOADED: &str = "Reload config successfully.";

/// Body of a request to close partitions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Close {
    topic: String,
    start: i32,
    end: i32,
}

/// Body of a request to open the partitions of a topic.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Open {
    topic: String,
}

/// Closes partitions for put and get.
pub(super) async fn close_partitions(
    State(app): State<App>,
    Extension(Peer(peer)): Extension<Peer>,
    body: Result<Json<Close>, JsonRejection>,
) -> Result<JsonLine<Value>, Failure> {
    let Close { topic, start, end } = body_of(body, r#"{"topic": "…", "start": first, "end": last}"#)?;
    let control = app.control()?;
    let num_partitions = control.close_partitions(&topic, start, end).map_err(refused)?;
    info!(%peer, topic, start, end, "an operator closed partitions");
    Ok(JsonLine(json!({ "closed": control.closed_partitions(), "numPartitions": num_partitions })))
}

/// Opens all partitions of a topic.
pub(super) async fn open_partitions(
    State(app): State<App>,
    Extension(Peer(peer)): Extension<Peer>,
    body: Result<Json<Open>, JsonRejection>,
) -> Result<JsonLine<Value>, Failure> {
    let Open { topic } = body_of(body, r#"{"topic": "…"}"#)?;
    let control = app.control()?;
    let opened = control.open_partitions(&topic).map_err(refused)?;
    info!(%peer, topic, opened, "an operator opened partitions");
    Ok(JsonLine(json!({ "opened": opened, "closed": control.closed_partitions() })))
}

/// Starts the realtime statistics over.
pub(super) async fn reset_statistics(
    State(app): State<App>,
    Extension(Peer(peer)): Extension<Peer>,
) -> Result<JsonLine<Value>, Failure> {
    app.control()?.reset_statistics();
    info!(%peer, "an operator reset the realtime statistics");
    Ok(JsonLine(json!({ "reset": true })))
}

/// Stops the broker gracefully. The answer comes before it has stopped.
pub(super) async fn stop(
    State(app): State<App>,
    Extension(Peer(peer)): Extension<Peer>,
) -> Result<(StatusCode, JsonLine<Value>), Failure> {
    let control = app.control()?;
    info!(%peer, "an operator asks for a stop");
    control.request_stop();
    Ok((StatusCode::ACCEPTED, JsonLine(json!({ "stopping": true }))))
}

/// Reloads the configuration: what changed, as JSON.
pub(super) async fn reload(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
) -> Result<JsonLine<Value>, Failure> {
    let report = do_reload(&app, peer).await?;
    Ok(JsonLine(json!({ "text": report.to_string(), "report": report })))
}

/// The same in the reference's words: text, also of errors.
pub(super) async fn reload_config(State(app): State<App>, Extension(peer): Extension<Peer>) -> Response {
    match do_reload(&app, peer).await {
        Ok(_) => text(RELOADED),
        Err(Failure { status, text: why }) => (status, text(why)).into_response(),
    }
}

async fn do_reload(app: &App, Peer(peer): Peer) -> Result<ReloadReport, Failure> {
    info!(%peer, "an operator asks for a reload of the configuration");
    app.control()?.reload().await.map_err(|error| {
        let status = match error {
            ReloadError::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::CONFLICT,
        };
        Failure::new(status, error.to_string())
    })
}

fn refused(error: PartitionsError) -> Failure {
    let status = match error {
        PartitionsError::NotConfigured(_) => StatusCode::NOT_FOUND,
        PartitionsError::Range(_) => StatusCode::BAD_REQUEST,
    };
    Failure::new(status, error.to_string())
}

fn body_of<T>(body: Result<Json<T>, JsonRejection>, form: &str) -> Result<T, Failure> {
    body.map(|Json(body)| body).map_err(|rejection| {
        let text = format!("send {form} as application/json: {}", rejection.body_text());
        Failure::new(rejection.status(), text)
    })
}
