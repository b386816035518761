//! Frames beside those of requests: the beginning of a connection, answers, events.

use bytes::Bytes;

use super::jute::{Malformed, Reader, Writer};
use super::sessions::{PASSWORD_BYTES, Password};
use super::watches::Event;

/// Number of an event's frame in the place of a request's.
const EVENT_XID: i32 = -1;
/// The only state of a connection that a server tells of.
const CONNECTED: i32 = 3;

/// The first frame of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConnectRequest {
    /// The last transaction that the client knows of.
    pub(super) last_zxid: i64,
    /// Milliseconds that it asks for.
    pub(super) timeout_ms: i32,
    /// The session to take up again; 0 for a new one.
    pub(super) session: i64,
    /// That of the session; `None` if it is no password of ours.
    pub(super) password: Option<Password>,
    /// Whether it ends with the byte that tells if a read-only server will do, which older clients do not send.
    pub(super) has_read_only: bool,
}

impl ConnectRequest {
    /// Reads the frame without its length.
    pub(super) fn read(frame: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(frame);
        let _protocol_version = r.int()?;
        let (last_zxid, timeout_ms, session) = (r.long()?, r.int()?, r.long()?);
        let password = r.buffer()?.and_then(Password::from_bytes);
        let has_read_only = !r.is_empty();
        if has_read_only {
            r.bool()?;
        }
        r.end()?;
        Ok(Self { last_zxid, timeout_ms, session, password, has_read_only })
    }

    /// The answer that grants a session.
    pub(super) fn granted(&self, session: i64, password: &Password, timeout_ms: i32) -> Bytes {
        self.answer(session, password.bytes(), timeout_ms)
    }

    /// The answer that the session is over or was never ours.
    pub(super) fn refused(&self) -> Bytes {
        self.answer(0, &[0; PASSWORD_BYTES], 0)
    }

    fn answer(&self, session: i64, password: &[u8], timeout_ms: i32) -> Bytes {
        let mut w = Writer::frame();
        w.int(0);
        w.int(timeout_ms);
        w.long(session);
        w.buffer(Some(password));
        if self.has_read_only {
            w.bool(false);
        }
        w.finish()
    }
}

/// The begin of the answer to a request: its number, the last transaction, the error or 0. What it asked for follows.
pub(super) fn answer(xid: i32, zxid: i64, error: i32) -> Writer {
    let mut w = Writer::frame();
    w.int(xid);
    w.long(zxid);
    w.int(error);
    w
}

/// A watch that fired.
pub(super) fn event(event: &Event) -> Bytes {
    let mut w = answer(EVENT_XID, -1, 0);
    w.int(event.what as i32);
    w.int(CONNECTED);
    w.text(&event.path);
    w.finish()
}

/// The length of a frame from its first four bytes; `None` if it is none or beyond the limit.
pub(super) fn frame_length(bytes: [u8; 4], limit: usize) -> Option<usize> {
    usize::try_from(i32::from_be_bytes(bytes)).ok().filter(|len| *len <= limit)
}

/// The header of one result of a `multi`, or with code -1 of its end.
pub(super) fn multi_header(w: &mut Writer, code: i32, is_end: bool, error: i32) {
    w.int(code);
    w.bool(is_end);
    w.int(error);
}
