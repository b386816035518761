//! What can go wrong on the way to a broker and back.

use std::io;
use std::time::Duration;

use crate::protocol::{DecodeError, Status, Unsendable};

/// A request that brought no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection came about; nothing was sent.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// `host:port` of the broker.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The request cannot be put into the protocol's line; nothing was sent.
    #[error(transparent)]
    Unsendable(#[from] Unsendable),
    /// The connection was lost while the request was under way.
    #[error("the connection to {address} was lost: {reason}")]
    Lost {
        /// `host:port` of the broker.
        address: String,
        /// Why.
        reason: String,
    },
    /// No answer within the time-out.
    #[error("no answer from {address} within {timeout:?}")]
    Timeout {
        /// `host:port` of the broker.
        address: String,
        /// The time-out.
        timeout: Duration,
    },
    /// The broker answered that it did not do it.
    #[error("refused by the broker with status {status}: {text}")]
    Refused {
        /// The status, never 200.
        status: Status,
        /// The broker's text.
        text: String,
    },
    /// The broker answered something that the request cannot have.
    #[error("{address} answered something unexpected: {what}")]
    Unexpected {
        /// `host:port` of the broker.
        address: String,
        /// What.
        what: String,
    },
}

/// What is known of the request behind an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was not carried out.
    NotDone,
    /// It may have been carried out.
    Unknown,
}

impl ClientError {
    /// Whether the broker may have carried out the request.
    pub fn outcome(&self) -> Outcome {
        match self {
            // A put that is answered with 500 because a sync failed may be on disk all the same (02 §16).
            Self::Refused { status, .. } if *status == Status::ERROR => Outcome::Unknown,
            Self::Connect { .. } | Self::Unsendable(_) | Self::Refused { .. } => Outcome::NotDone,
            Self::Lost { .. } | Self::Timeout { .. } | Self::Unexpected { .. } => Outcome::Unknown,
        }
    }
}

/// Why a connection ended, told to everyone who still waits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum End {
    #[error("the broker closed it")]
    Closed,
    #[error("this client closed it")]
    Dropped,
    #[error("{0}")]
    Io(String),
    #[error("the broker sent something that is no answer: {0}")]
    Garbage(#[from] DecodeError),
}
