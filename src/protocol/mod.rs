//! Commands and responses of the wire protocol: decoder and encoder in one place, shared by broker and client (01).
//!
//! A frame is one line of tokens joined by single spaces and ended by CRLF, for some commands followed by a body of the
//! length that the line names. The room is free of IO: [`Decoder`] takes bytes as they come and yields [`Command`]s,
//! every command type encodes itself into a buffer.

#![deny(clippy::indexing_slicing)]

mod decoder;
mod error;
mod opaque;
mod plain_put;
mod request;
mod response;
mod status;
mod tokens;
mod transaction;

pub use decoder::{Command, Decoder, Limits};
pub use error::DecodeError;
pub use opaque::{Opaque, OpaqueGenerator};
pub use plain_put::{PlainPut, encode_put_answer};
pub(crate) use request::check_token;
pub use request::{Get, MAX_WAIT, OffsetQuery, Put, Request, Stats, Sync, Unsendable};
pub use response::{Response, ResultResponse, ValueResponse, encode_value_head};
pub use status::Status;
pub use transaction::{InvalidTransactionKey, Transaction, TransactionKey, TransactionType};
