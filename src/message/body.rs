//! Body of a message: an optional attribute block, then the payload (01 §5.2).

use bytes::{Buf, BufMut, Bytes};
use bytestring::ByteString;

use super::FLAG_ATTRIBUTE;

/// The text that a producer may attach to a message; the empty text is an attribute too.
pub type Attribute = ByteString;

/// A body taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Body {
    /// The attribute, `None` when the flag says that there is none.
    pub attribute: Option<Attribute>,
    /// What the application sent.
    pub payload: Bytes,
}

/// The flag announces an attribute block that does not fit the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the attribute block claims {claimed} bytes, the body has {available} for it")]
pub struct InvalidBody {
    claimed: i64,
    available: usize,
}

impl Body {
    /// Takes a body apart. Malformed UTF-8 in the attribute is replaced by U+FFFD, as the reference does.
    ///
    /// # Errors
    /// When bit 0 of the flag is set and the attribute block is longer than the body.
    pub fn decode(flag: i32, mut body: Bytes) -> Result<Self, InvalidBody> {
        if flag & FLAG_ATTRIBUTE == 0 {
            return Ok(Self { attribute: None, payload: body });
        }
        let len = body.len();
        let claimed = body.try_get_i32().map_err(|_| InvalidBody { claimed: 4, available: len })?;
        let invalid = InvalidBody { claimed: claimed.into(), available: body.len() };
        let attribute_len = usize::try_from(claimed).ok().filter(|&n| n <= body.len()).ok_or(invalid)?;
        let attribute = body.split_to(attribute_len);
        let attribute = ByteString::try_from(attribute.clone())
            .unwrap_or_else(|_| ByteString::from(String::from_utf8_lossy(&attribute).into_owned()));
        Ok(Self { attribute: Some(attribute), payload: body })
    }
}

/// Bytes of the body that [`encode_body`] writes.
pub fn encoded_body_len(attribute: Option<&str>, payload: &[u8]) -> usize {
    attribute.map_or(0, |attribute| 4 + attribute.len()) + payload.len()
}

/// Writes a body and returns the flag that belongs to it.
pub fn encode_body(attribute: Option<&str>, payload: &[u8], out: &mut impl BufMut) -> i32 {
    let flag = match attribute {
        Some(attribute) => {
            // An attribute beyond 2 GiB cannot be sent at all; the command's own length check refuses it.
            out.put_i32(i32::try_from(attribute.len()).unwrap_or(i32::MAX));
            out.put_slice(attribute.as_bytes());
            FLAG_ATTRIBUTE
        }
        None => 0,
    };
    out.put_slice(payload);
    flag
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(attribute: Option<&str>, payload: &[u8]) -> (i32, Vec<u8>) {
        let mut out = Vec::new();
        let flag = encode_body(attribute, payload, &mut out);
        assert_eq!(out.len(), encoded_body_len(attribute, payload));
        let body = Body::decode(flag, Bytes::from(out.clone())).unwrap();
        assert_eq!(body.attribute.as_deref(), attribute);
        assert_eq!(&body.payload[..], payload);
        (flag, out)
    }

    #[test]
    fn bodies_have_the_layout_of_the_reference() {
        assert_eq!(round_trip(None, b"hello"), (0, b"hello".to_vec()));
        assert_eq!(round_trip(Some("attr"), b"hello"), (1, b"\0\0\0\x04attrhello".to_vec()));
        assert_eq!(round_trip(Some(""), b""), (1, b"\0\0\0\0".to_vec()));
        round_trip(Some("属性"), b"\r\n");
    }

    #[test]
    fn an_attribute_block_longer_than_the_body_is_refused() {
        for body in [&b"\0\0"[..], b"\0\0\0\x05attr", b"\xff\xff\xff\xffattr"] {
            assert!(Body::decode(1, Bytes::copy_from_slice(body)).is_err(), "{body:?}");
        }
    }

    #[test]
    fn malformed_text_in_an_attribute_is_replaced() {
        let body = Body::decode(1, Bytes::from_static(b"\0\0\0\x02a\xffz")).unwrap();
        assert_eq!(body.attribute.as_deref(), Some("a\u{fffd}"));
        assert_eq!(&body.payload[..], b"z");
    }
}
