//! What the server refuses a request with.

/// Error codes of ZooKeeper that this server uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Code {
    /// An operation of a transaction was not tried, since one before it failed.
    RuntimeInconsistency = -2,
    /// The server has no such request.
    Unimplemented = -6,
    /// The arguments make no sense, or the tree is full.
    BadArguments = -8,
    NoNode = -101,
    BadVersion = -103,
    NoChildrenForEphemerals = -108,
    NodeExists = -110,
    NotEmpty = -111,
    InvalidAcl = -114,
    NoWatcher = -121,
}

impl Code {
    /// As on the wire.
    pub(super) fn number(self) -> i32 {
        self as i32
    }
}
