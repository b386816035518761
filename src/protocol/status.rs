//! Status codes of `result` (01 §4.3).

use std::fmt;

/// Status code of a `result`; codes beyond the known ones are carried as they are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Status(i32);

impl Status {
    /// The command was carried out.
    pub const SUCCESS: Self = Self(200);
    /// The get is answered elsewhere: the body is the offset to continue from.
    pub const MOVED: Self = Self(301);
    /// A get whose maximal size is not positive.
    pub const BAD_REQUEST: Self = Self(400);
    /// The partition was closed by the operator.
    pub const FORBIDDEN: Self = Self(403);
    /// No such partition, or nothing to read at the offset yet.
    pub const NOT_FOUND: Self = Self(404);
    /// Every other failure; the body says which.
    pub const ERROR: Self = Self(500);
    /// The peer does not process such commands, or is stopping.
    pub const UNAVAILABLE: Self = Self(503);

    /// Takes a code as it stands on the wire.
    pub const fn new(code: i32) -> Self {
        Self(code)
    }

    /// The bare code.
    pub const fn code(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
