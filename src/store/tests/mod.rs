//! Behaviour of the whole room, over a real directory and over a disk that fails on request.

mod appending;
mod clean_stopping;
mod closing;
pub(crate) mod disk;
mod failures;
mod faulty;
mod flushing;
mod kit;
mod loading;
mod log_files;
pub(super) mod log_kit;
mod log_reading;
mod power_cut;
mod random;
mod reading;
mod removing;
mod replay_random;
mod replaying;
mod retention;
mod rolls;
mod stopping;
mod waiting;
