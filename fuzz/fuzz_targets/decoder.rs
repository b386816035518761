//! Any bytes, split anywhere: the decoder neither panics nor holds more than its limits, gives the same commands
//! however the input is split, and what it gives survives encoding.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use metaq::protocol::{Command, Decoder, Limits};

const LIMITS: Limits = Limits { line_bytes: 256, body_bytes: 1024 };

fn decode(pieces: &[&[u8]]) -> (Vec<Command>, bool) {
    let mut decoder = Decoder::new(LIMITS);
    let mut buffer = BytesMut::new();
    let mut commands = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.decode(&mut buffer) {
                Ok(Some(command)) => commands.push(command),
                Ok(None) => break,
                Err(_) => return (commands, false),
            }
        }
        assert!(buffer.len() <= LIMITS.line_bytes.max(LIMITS.body_bytes) + 1);
    }
    (commands, true)
}

fuzz_target!(|input: (u16, Vec<u8>)| {
    let (cut, bytes) = input;
    let cut = usize::from(cut) % (bytes.len() + 1);
    let whole = decode(&[&bytes]);
    assert_eq!(decode(&[&bytes[..cut], &bytes[cut..]]), whole);

    let mut encoded = BytesMut::new();
    for command in &whole.0 {
        command.encode(&mut encoded);
    }
    // Replaced text and spelled-out opaques may make a line longer than the limit that it came under.
    let mut decoder = Decoder::new(Limits { line_bytes: 4096, ..LIMITS });
    for command in whole.0 {
        assert_eq!(decoder.decode(&mut encoded), Ok(Some(command)));
    }
});
