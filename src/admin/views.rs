//! What can be looked at.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;

use super::answer::{Failure, JsonLine, text};
use super::app::App;
use super::metrics;
use crate::broker::{BrokerStatus, ClosedRange, TopicStatus};

/// Everything in short.
pub(super) async fn status(State(app): State<App>) -> Result<JsonLine<BrokerStatus>, Failure> {
    app.look(|control| control.status()).await.map(JsonLine)
}

/// All topics with their partitions.
pub(super) async fn topics(State(app): State<App>) -> Result<JsonLine<Vec<TopicStatus>>, Failure> {
    app.look(|control| control.topics()).await.map(JsonLine)
}

/// One of them.
pub(super) async fn topic(
    State(app): State<App>,
    name: Result<Path<String>, PathRejection>,
) -> Result<JsonLine<TopicStatus>, Failure> {
    let name = element(name)?;
    let found = app.look(move |control| control.topic(&name)).await?;
    found.map(JsonLine).ok_or_else(|| {
        Failure::new(
            StatusCode::NOT_FOUND,
            "no topic of this name is configured or has data: GET /api/v1/topics lists those that are",
        )
    })
}

/// Statistics of the broker, in the form of the command `stats`.
pub(super) async fn broker_stats(State(app): State<App>) -> Result<Response, Failure> {
    item_of(&app, String::new()).await
}

/// Statistics of an item.
pub(super) async fn stats(
    State(app): State<App>,
    item: Result<Path<String>, PathRejection>,
) -> Result<Response, Failure> {
    item_of(&app, element(item)?).await
}

async fn item_of(app: &App, item: String) -> Result<Response, Failure> {
    app.look(move |control| control.stats(&item)).await?.map(text).map_err(unreadable)
}

/// The configuration file as it is now.
pub(super) async fn config(State(app): State<App>) -> Result<Response, Failure> {
    app.look(|control| control.config_text()).await?.map(text).map_err(unreadable)
}

fn unreadable(why: String) -> Failure {
    Failure::new(StatusCode::INTERNAL_SERVER_ERROR, why)
}

/// Closed partitions.
pub(super) async fn closed_partitions(State(app): State<App>) -> Result<JsonLine<Vec<ClosedRange>>, Failure> {
    Ok(JsonLine(app.control()?.closed_partitions()))
}

/// The exposition for Prometheus.
pub(super) async fn metrics(State(app): State<App>) -> Result<Response, Failure> {
    let refused = app.doors().refused();
    let exposition = app.look(move |control| metrics::exposition(control, &refused)).await?;
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], Bytes::from(exposition)).into_response())
}

/// The last element of a path, decoded.
fn element(path: Result<Path<String>, PathRejection>) -> Result<String, Failure> {
    path.map(|Path(element)| element).map_err(|rejection| Failure::new(rejection.status(), rejection.body_text()))
}
