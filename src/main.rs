//! The `metaq` binary.

fn main() {}
