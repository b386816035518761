//! Positions and numbers of the wire and the disk (specification 01 §2.4, 02 §5).

use std::fmt;
use std::str::FromStr;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name($inner);

        impl $name {
            /// Wraps a number as it is; every value of the type can appear on the wire.
            pub const fn new(value: $inner) -> Self {
                Self(value)
            }

            /// The bare number.
            pub const fn get(self) -> $inner {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = std::num::ParseIntError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}

number! {
    /// Absolute byte position in the log of a partition. Never a count of messages, never reset at a new segment.
    Offset(i64)
}

number! {
    /// Identity of a message. Any signed 64-bit value can be met: brokers on the JVM write negative ones (02 §15).
    MessageId(i64)
}

number! {
    /// Number of a partition within one broker and topic, from 0. Negative values exist on the wire only.
    PartitionIndex(i32)
}

impl Offset {
    /// The start of a fresh log.
    pub const ZERO: Self = Self(0);

    /// What a consumer sends to learn the end of the log (01 §8.3).
    pub const LATEST: Self = Self(i64::MAX);

    /// The position `bytes` further on; `None` beyond the largest offset.
    pub fn checked_add(self, bytes: u64) -> Option<Self> {
        i64::try_from(bytes).ok().and_then(|bytes| self.0.checked_add(bytes)).map(Self)
    }
}

impl PartitionIndex {
    /// What a producer sends to let the broker choose (01 §3.2).
    pub const RANDOM: Self = Self(-1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_does_not_pass_the_largest_one() {
        assert_eq!(Offset::new(5).checked_add(7), Some(Offset::new(12)));
        assert_eq!(Offset::LATEST.checked_add(1), None);
        assert_eq!(Offset::ZERO.checked_add(u64::MAX), None);
    }

    #[test]
    fn negative_message_ids_are_parsed_and_printed() {
        let id: MessageId = "-5468931342399963136".parse().unwrap();
        assert_eq!(id.to_string(), "-5468931342399963136");
    }
}
