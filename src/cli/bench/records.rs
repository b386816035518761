//! The messages in the answer to a get.

use anyhow::{Context as _, bail};

use crate::message::{HEADER_LEN, RecordHeader};

/// Shows the body of every whole message and returns how many bytes those are. Neither checksums are verified nor is
/// anything copied: it is the broker that is measured.
///
/// # Errors
/// When there is no whole message, or something that is none.
pub(super) fn walk(data: &[u8], max_size: i32, mut each: impl FnMut(&[u8])) -> anyhow::Result<usize> {
    let mut at = 0;
    while let Some(header) = data.get(at..).and_then(<[u8]>::first_chunk::<HEADER_LEN>) {
        let len = RecordHeader::decode(header).record_len().and_then(|len| usize::try_from(len).ok());
        let len = len.context("the broker sent something that is no message")?;
        let Some(body) = data.get(at + HEADER_LEN..at + len) else { break };
        each(body);
        at += len;
    }
    if at == 0 {
        bail!("a message does not fit {max_size} bytes, or the broker's limit for a transfer: raise --max-size");
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::MessageId;

    fn record(body: &[u8]) -> Vec<u8> {
        let length = i32::try_from(body.len()).unwrap();
        let mut bytes = Vec::new();
        RecordHeader { length, checksum: 0, id: MessageId::new(1), flag: 0 }.encode(&mut bytes);
        [&bytes, body].concat()
    }

    #[test]
    fn whole_messages_are_seen_and_the_cut_one_is_left() {
        let data = [record(b"one"), record(b""), record(b"three")].concat();
        for (cut, expected, consumed) in
            [(data.len(), 3, data.len()), (data.len() - 1, 2, 43), (50, 2, 43), (23, 1, 23)]
        {
            let mut seen = Vec::new();
            assert_eq!(walk(&data[..cut], 1, |body| seen.push(body.to_vec())).unwrap(), consumed);
            assert_eq!(seen, [&b"one"[..], b"", b"three"][..expected]);
        }
    }

    #[test]
    fn what_no_message_can_be_found_in_is_an_error() {
        assert!(walk(&record(b"one")[..22], 22, |_| {}).unwrap_err().to_string().contains("does not fit 22 bytes"));
        let error = walk(&[0xff; 40], 40, |_| {}).unwrap_err();
        assert_eq!(error.to_string(), "the broker sent something that is no message");
    }
}
