//! Checksum of a message body (01 §5.3).

/// What a producer sends that did not compute a checksum; never the checksum of a body.
pub const NO_CHECKSUM: i32 = -1;

/// CRC-32 (IEEE) of the body with the sign bit cleared, hence 0 to 2 147 483 647.
pub fn checksum(body: &[u8]) -> i32 {
    (crc32fast::hash(body) & 0x7fff_ffff).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_bodies_have_the_checksums_of_the_reference() {
        assert_eq!(checksum(b""), 0);
        assert_eq!(checksum(b"hello"), 907_060_870);
        assert_eq!(checksum(b"world"), 980_881_731);
        assert_eq!(checksum(b"test"), 1_484_750_348);
        assert_eq!(checksum(b"\0\0\0\x04attrhello"), 1_264_772_380);
    }
}
