//! The form of answers: JSON or text, and errors that are the same everywhere.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;
use serde_json::json;

/// JSON and the end of the line, so that the prompt of a shell does not stick to it.
#[derive(Debug)]
pub(super) struct JsonLine<T>(pub(super) T);

impl<T: Serialize> IntoResponse for JsonLine<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(mut body) => {
                body.push(b'\n');
                ([(header::CONTENT_TYPE, "application/json")], body).into_response()
            }
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    }
}

/// A request that was not carried out: `{"error": "what to do"}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) status: StatusCode,
    pub(super) text: String,
}

impl Failure {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = (self.status, JsonLine(json!({ "error": self.text }))).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// What an unknown path is answered.
pub(super) async fn not_found() -> Failure {
    Failure::new(
        StatusCode::NOT_FOUND,
        "there is nothing at this path: try /api/v1/status, /api/v1/topics, /api/v1/stats, /metrics or /healthz",
    )
}

/// What another method than those of the path is answered; the header `Allow` names them.
pub(super) async fn method_not_allowed() -> Failure {
    Failure::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "this path does not take that method: use one that the header Allow names",
    )
}

/// UTF-8 text.
pub(super) fn text(body: impl Into<Bytes>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body.into()).into_response()
}
