//! Small things that several rooms need and none of them owns: nothing of a broker, no sockets and no files.

pub(crate) mod activity;
pub(crate) mod clock;
pub(crate) mod guard;
pub(crate) mod host;
pub(crate) mod panics;
pub(crate) mod quiet;
