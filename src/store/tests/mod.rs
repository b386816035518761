//! Behaviour of the whole room, over a real directory and over a disk that fails on request.

mod appending;
mod closing;
mod failures;
mod faulty;
mod flushing;
mod kit;
mod loading;
mod random;
mod reading;
mod waiting;
