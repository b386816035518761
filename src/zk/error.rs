//! What can go wrong in a call to the coordination service.

use std::time::Duration;

/// A failed call, by what the caller can conclude from it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CoordinatorError {
    /// Create: there is a node of this name. After an unknown outcome it can be the caller's own.
    #[error("ZooKeeper node {0} exists already")]
    NodeExists(String),
    /// There is no such node.
    #[error("ZooKeeper node {0} does not exist")]
    NoNode(String),
    /// Delete: the node has children.
    #[error("ZooKeeper node {0} has children and cannot be deleted")]
    NotEmpty(String),
    /// Conditional set or delete: the node has another version.
    #[error("ZooKeeper node {0} was changed by somebody else meanwhile")]
    BadVersion(String),
    /// Create: the parent is ephemeral.
    #[error("ZooKeeper node {0} cannot be created below an ephemeral node; delete the ephemeral parent")]
    NoChildrenForEphemerals(String),
    /// The service refused for another reason, and nothing has changed; repeating alone does not help.
    #[error("ZooKeeper refused to {operation} {path}: {reason}")]
    Refused {
        /// What was asked.
        operation: &'static str,
        /// Of which node.
        path: String,
        /// The service's reason.
        reason: String,
    },
    /// The call may or may not have been carried out, or may be carried out later: read back and decide.
    #[error("no answer from ZooKeeper to {operation} {path} ({reason}); it may have been carried out")]
    Unknown {
        /// What was asked.
        operation: &'static str,
        /// Of which node.
        path: String,
        /// What happened to the answer.
        reason: String,
    },
    /// The session ended during the call. A change may have been made before; ephemeral nodes go with the session.
    #[error("the ZooKeeper session ended before {operation} {path} was answered")]
    SessionOver {
        /// What was asked.
        operation: &'static str,
        /// Of which node.
        path: String,
    },
    /// There is no session at present, nothing was sent.
    #[error("not connected to ZooKeeper, {operation} {path} was not sent; check zk.zkConnect and the servers it names")]
    NoSession {
        /// What was asked.
        operation: &'static str,
        /// Of which node.
        path: String,
    },
}

impl CoordinatorError {
    /// Whether this is the service's final word on the state of a node: the call was carried out or refused as a
    /// whole, and the tree is as the error says.
    pub fn is_semantic(&self) -> bool {
        !matches!(self, Self::Unknown { .. } | Self::SessionOver { .. } | Self::NoSession { .. })
    }
}

/// Why [`connected`](super::connected) gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotConnected {
    /// No session within the time allowed.
    #[error("unable to connect to zookeeper server within timeout: {ms} ms; check zk.zkConnect and the servers it names", ms = .0.as_millis())]
    Within(Duration),
    /// The coordinator was closed.
    #[error("the connection to ZooKeeper was closed")]
    Closed,
}

/// Turns "no such node" into `None`.
pub(crate) fn optional<T>(result: Result<T, CoordinatorError>) -> Result<Option<T>, CoordinatorError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(CoordinatorError::NoNode(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Takes "no such node" as done, for deletes.
pub(crate) fn gone(result: Result<(), CoordinatorError>) -> Result<(), CoordinatorError> {
    optional(result).map(|_| ())
}
