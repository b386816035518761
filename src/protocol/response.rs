//! Responses (01 §4).

use std::fmt::Write as _;

use bytes::{Bytes, BytesMut};

use super::request::{body_length, put_number, put_opaque};
use super::tokens::Tokens;
use super::{DecodeError, Opaque, Status};

/// What a peer answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Response {
    /// A status with a text; every answer but the data of a get.
    Result(ResultResponse),
    /// The data of a successful get.
    Value(ValueResponse),
}

/// `result code length opaque` and a text
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultResponse {
    /// How it went.
    pub status: Status,
    /// Text, UTF-8 but for `stats config`, which sends a file as it is. The wire does not tell no text from an empty one.
    pub body: Bytes,
    /// Opaque of the request.
    pub opaque: Opaque,
}

/// `value length opaque` and whole or cut records
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueResponse {
    /// Bytes of the log from the requested offset on.
    pub data: Bytes,
    /// Opaque of the request.
    pub opaque: Opaque,
}

/// A response whose line is complete and whose body may not be.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) length: usize,
    pub(super) response: Response,
}

impl Head {
    /// Decodes a line whose first word was taken and is a response's.
    pub(super) fn decode(word: &[u8], mut tokens: Tokens) -> Option<Result<Self, DecodeError>> {
        match word {
            b"result" => Some(Self::result(&mut tokens)),
            b"value" => Some(Self::value(&mut tokens)),
            _ => None,
        }
    }

    fn result(tokens: &mut Tokens) -> Result<Self, DecodeError> {
        tokens.expect("result", tokens.count() >= 4)?;
        let status = Status::new(tokens.number("status")?);
        let length = body_length(tokens)?;
        let opaque = Opaque::new(tokens.number("opaque")?);
        Ok(Self { length, response: Response::Result(ResultResponse { status, body: Bytes::new(), opaque }) })
    }

    fn value(tokens: &mut Tokens) -> Result<Self, DecodeError> {
        tokens.expect("value", tokens.count() >= 3)?;
        let length = body_length(tokens)?;
        let opaque = Opaque::new(tokens.number("opaque")?);
        Ok(Self { length, response: Response::Value(ValueResponse { data: Bytes::new(), opaque }) })
    }
}

impl Response {
    /// A `result`.
    pub fn result(status: Status, body: impl Into<Bytes>, opaque: Opaque) -> Self {
        Self::Result(ResultResponse { status, body: body.into(), opaque })
    }

    /// Opaque of the request that is answered.
    pub fn opaque(&self) -> Opaque {
        match self {
            Self::Result(result) => result.opaque,
            Self::Value(value) => value.opaque,
        }
    }

    /// Appends the frame to a buffer.
    pub fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Result(result) => {
                let _ = write!(out, "result {} {} ", result.status, result.body.len());
                put_opaque(out, result.opaque);
                out.extend_from_slice(&result.body);
            }
            Self::Value(value) => {
                encode_value_head(value.data.len(), value.opaque, out);
                out.extend_from_slice(&value.data);
            }
        }
    }

    pub(super) fn with_body(mut self, body: Bytes) -> Self {
        match &mut self {
            Self::Result(result) => result.body = body,
            Self::Value(value) => value.data = body,
        }
        self
    }
}

/// Appends the line of a `value` whose data go another way than through the buffer.
pub fn encode_value_head(length: usize, opaque: Opaque, out: &mut BytesMut) {
    out.extend_from_slice(b"value ");
    put_number(out, length);
    put_opaque(out, opaque);
}
