//! Requests to the HTTP interface of a broker, one connection each.

use std::io;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

/// The longest answer that is read: topics with some hundred thousand partitions.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Characters of an answer that is none of ours that an error quotes.
const QUOTED_CHARS: usize = 200;

/// A broker's HTTP interface.
#[derive(Debug)]
pub(in crate::cli) struct AdminClient {
    /// `host:port`.
    address: String,
    /// What changes carry; marked as sensitive, so that it is never shown.
    authorization: Option<HeaderValue>,
    /// Longest wait for the connection, and for the answer.
    timeout: Duration,
}

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum AdminError {
    /// Nobody listens.
    #[error(
        "no broker answers at http://{address}: {source}; start it, or name its HTTP interface with --admin HOST:PORT or its \
         configuration file with -f FILE"
    )]
    Connect { address: String, source: io::Error },
    /// No answer in time.
    #[error(
        "the broker at http://{address} gives no answer within {timeout:?}: it hangs or has too much to do; its log tells more"
    )]
    Silent { address: String, timeout: Duration },
    /// The connection ended before the answer did.
    #[error(
        "the connection to http://{address} was lost before there was an answer: {source}; is that the HTTP interface of a \
         broker (dashboardHttpPort)? If so, what you asked for may be done or not: look with metaq admin status"
    )]
    Lost { address: String, source: Box<dyn std::error::Error + Send + Sync> },
    /// The broker wants to know who asks.
    #[error("{text}: set METAQ_ADMIN_TOKEN here too, or give --token-file FILE")]
    Unauthorized { text: String },
    /// There is no such thing.
    #[error("{text}")]
    NotFound { text: String },
    /// The broker says why not.
    #[error("{text}")]
    Refused { text: String },
    /// Something else listens there.
    #[error("what answers at http://{address} is no metaq broker: {what}")]
    Foreign { address: String, what: String },
}

impl AdminClient {
    pub(super) fn new(address: String, authorization: Option<HeaderValue>, timeout: Duration) -> Self {
        Self { address, authorization, timeout }
    }

    /// `host:port`.
    pub(in crate::cli) fn address(&self) -> &str {
        &self.address
    }

    /// What a path shows.
    pub(in crate::cli) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, AdminError> {
        self.json(Method::GET, path, Body::empty()).await
    }

    /// Changes something.
    pub(in crate::cli) async fn post(&self, path: &str, body: Option<&Value>) -> Result<Value, AdminError> {
        self.json(Method::POST, path, body.map_or_else(Body::empty, |body| Body::from(body.to_string()))).await
    }

    async fn json<T: DeserializeOwned>(&self, method: Method, path: &str, body: Body) -> Result<T, AdminError> {
        let (status, bytes) = self.request(method, path, body).await?;
        if status.is_success() {
            return serde_json::from_slice(&bytes).map_err(|error| self.foreign(error.to_string()));
        }
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let Some(text) = answer.get("error").and_then(Value::as_str) else {
            let quoted: String = String::from_utf8_lossy(&bytes).chars().take(QUOTED_CHARS).collect();
            return Err(self.foreign(format!("{status} {quoted}")));
        };
        let text = text.to_owned();
        Err(match status {
            StatusCode::UNAUTHORIZED => AdminError::Unauthorized { text },
            StatusCode::NOT_FOUND => AdminError::NotFound { text },
            _ => AdminError::Refused { text },
        })
    }

    async fn request(&self, method: Method, path: &str, body: Body) -> Result<(StatusCode, Bytes), AdminError> {
        let refused = |source| AdminError::Connect { address: self.address.clone(), source };
        let stream = match tokio::time::timeout(self.timeout, TcpStream::connect(&self.address)).await {
            Ok(stream) => stream.map_err(refused)?,
            Err(_) => return Err(self.silent()),
        };
        match tokio::time::timeout(self.timeout, self.exchange(stream, method, path, body)).await {
            Ok(answer) => answer,
            Err(_) => Err(self.silent()),
        }
    }

    async fn exchange(
        &self,
        stream: TcpStream,
        method: Method,
        path: &str,
        body: Body,
    ) -> Result<(StatusCode, Bytes), AdminError> {
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.lost(error.into()))?;
        let _driven = AbortOnDropHandle::new(tokio::spawn(connection));
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &self.address)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request.body(body).map_err(|error| self.foreign(error.to_string()))?;
        let answer: Response<Incoming> = match sender.send_request(request).await {
            Ok(answer) => answer,
            Err(error) if error.is_parse() => return Err(self.foreign("its answer is not HTTP".to_owned())),
            Err(error) => return Err(self.lost(error.into())),
        };
        let (head, body) = answer.into_parts();
        let bytes = to_bytes(Body::new(body), MAX_ANSWER_BYTES).await.map_err(|error| self.lost(error.into()))?;
        Ok((head.status, bytes))
    }

    fn silent(&self) -> AdminError {
        AdminError::Silent { address: self.address.clone(), timeout: self.timeout }
    }

    fn lost(&self, source: Box<dyn std::error::Error + Send + Sync>) -> AdminError {
        AdminError::Lost { address: self.address.clone(), source }
    }

    fn foreign(&self, what: String) -> AdminError {
        AdminError::Foreign { address: self.address.clone(), what }
    }
}
