//! What several test binaries use.

#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod wire;
