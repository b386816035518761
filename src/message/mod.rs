//! The stored message: one byte layout for the disk and the body of a `value` answer (01 §5–6, 02 §3–4).

mod body;
mod checksum;
mod record;
mod records;

pub use body::{Attribute, Body, InvalidBody, encode_body, encoded_body_len};
pub use checksum::{NO_CHECKSUM, checksum};
pub use record::{FLAG_ATTRIBUTE, HEADER_LEN, RecordHeader};
pub use records::{InvalidRecord, Record, Records};
