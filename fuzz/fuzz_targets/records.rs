//! Any bytes as the body of a `value`: the walk over its records neither panics nor passes its end.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use metaq::message::Records;

fuzz_target!(|data: &[u8]| {
    let mut records = Records::new(Bytes::copy_from_slice(data), 4096);
    let mut end = 0;
    for record in records.by_ref().flatten() {
        assert_eq!(record.position, end);
        end += metaq::message::HEADER_LEN + record.body.len();
        let _ = record.decode_body();
    }
    assert_eq!(records.consumed(), end);
    assert!(end <= data.len());
});
