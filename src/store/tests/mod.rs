//! Behaviour of the whole room over a real directory and over a failing disk.
