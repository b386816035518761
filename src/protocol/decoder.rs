//! The incremental decoder (01 §2).

use bytes::{Bytes, BytesMut};

use super::error::excerpt;
use super::tokens::Tokens;
use super::{DecodeError, Request, Response, request, response};

/// A whole frame. Either side may send either kind: what a peer does not expect it drops or answers with 503.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// The peer asks.
    Request(Request),
    /// The peer answers.
    Response(Response),
}

impl Command {
    /// Appends the frame to a buffer.
    pub fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Request(request) => request.encode(out),
            Self::Response(response) => response.encode(out),
        }
    }

    fn with_body(self, body: Bytes) -> Self {
        match self {
            Self::Request(request) => Self::Request(request.with_body(body)),
            Self::Response(response) => Self::Response(response.with_body(body)),
        }
    }
}

/// What a decoder accepts. The reference knows no limits; ours are far above what its clients can use (01 §2.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Longest command line in bytes, its end not counted.
    pub line_bytes: usize,
    /// Longest body in bytes.
    pub body_bytes: usize,
}

impl Default for Limits {
    /// 64 KiB and 64 MiB.
    fn default() -> Self {
        Self { line_bytes: 64 << 10, body_bytes: 64 << 20 }
    }
}

/// Decoder of one connection. It keeps what it has learnt of an incomplete frame, so that no byte is looked at twice.
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    /// Bytes at the start of the buffer that are known to hold no end of line.
    scanned: usize,
    /// A command that waits for its body.
    waiting: Option<(usize, Command)>,
}

impl Decoder {
    /// A decoder at the boundary of a frame.
    pub fn new(limits: Limits) -> Self {
        Self { limits, scanned: 0, waiting: None }
    }

    /// Takes the next whole command off the front of the buffer; `None` when it needs more bytes.
    ///
    /// The caller appends to the same buffer and calls again. Bodies are handed out as slices of the buffer.
    ///
    /// # Errors
    /// Input that is no command, or that is beyond the limits. The stream has no boundary to resume at: the caller
    /// closes the connection and does not call again.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Command>, DecodeError> {
        let (length, command) = match self.waiting.take() {
            Some(waiting) => waiting,
            None => match self.take_line(buffer)? {
                Some(line) => self.decode_line(line)?,
                None => return Ok(None),
            },
        };
        if buffer.len() < length {
            self.waiting = Some((length, command));
            return Ok(None);
        }
        Ok(Some(if length == 0 { command } else { command.with_body(buffer.split_to(length).freeze()) }))
    }

    /// Whether the decoder stands between two frames, given what it left in the buffer. False at the end of a stream
    /// means that the peer broke off in the middle of a command.
    pub fn is_at_boundary(&self, buffer: &BytesMut) -> bool {
        self.waiting.is_none() && buffer.is_empty()
    }

    /// Whether nothing of the next command was looked at yet.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_none() && self.scanned == 0
    }

    /// Bytes that the command in progress still needs beyond those in the buffer, as far as that is known.
    pub fn missing(&self, buffer: &BytesMut) -> usize {
        self.waiting.as_ref().map_or(0, |(length, _)| length.saturating_sub(buffer.len()))
    }

    fn take_line(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, DecodeError> {
        let too_long = DecodeError::LineTooLong { limit: self.limits.line_bytes };
        let unseen = buffer.get(self.scanned..).unwrap_or_default();
        match memchr::memmem::find(unseen, b"\r\n") {
            Some(at) => {
                let end = self.scanned + at;
                self.scanned = 0;
                if end > self.limits.line_bytes {
                    return Err(too_long);
                }
                let mut line = buffer.split_to(end + 2).freeze();
                line.truncate(end);
                Ok(Some(line))
            }
            None => {
                // A CR at the very end may be the first half of the end of the line.
                self.scanned = buffer.len().saturating_sub(1);
                if self.scanned > self.limits.line_bytes { Err(too_long) } else { Ok(None) }
            }
        }
    }

    /// The command of a line, and how long its body is.
    fn decode_line(&self, line: Bytes) -> Result<(usize, Command), DecodeError> {
        let mut tokens = Tokens::new(line);
        let word = tokens.bytes();
        if word.is_empty() {
            return Err(DecodeError::Blank);
        }
        let unknown = || DecodeError::UnknownCommand(excerpt(&word));
        let (length, command) = match word.first() {
            Some(b'r' | b'v') if *word != *b"version" => {
                let head = response::Head::decode(&word, tokens).ok_or_else(unknown)??;
                (head.length, Command::Response(head.response))
            }
            _ => match request::Head::decode(&word, tokens).ok_or_else(unknown)?? {
                request::Head::Complete(request) => (0, Command::Request(request)),
                request::Head::Body { length, request } => (length, Command::Request(request)),
            },
        };
        if length > self.limits.body_bytes {
            return Err(DecodeError::BodyTooLong { length, limit: self.limits.body_bytes });
        }
        Ok((length, command))
    }
}
