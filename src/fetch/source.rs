//! The seam to brokers.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;

use crate::id::{Offset, TopicPartition};

/// Answers gets, whichever broker and connection that takes.
///
/// Methods are cancellation-safe: a dropped future takes nothing with it but the answer.
pub trait MessageSource: fmt::Debug + Send + Sync {
    /// One get.
    ///
    /// # Errors
    /// [`SourceError`], also when no broker serves the partition at present: trying again later may help.
    fn get<'a>(&'a self, get: Get<'a>) -> BoxFuture<'a, Result<Fetched, SourceError>>;

    /// The nearest offset at or before the given one at which a record is sure to begin (01 §8.4).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    fn nearest_offset<'a>(
        &'a self,
        from: &'a TopicPartition,
        offset: Offset,
    ) -> BoxFuture<'a, Result<Offset, SourceError>>;
}

/// What to ask for.
#[derive(Debug, Clone, Copy)]
pub struct Get<'a> {
    /// Where.
    pub from: &'a TopicPartition,
    /// The first byte.
    pub offset: Offset,
    /// Bytes at most.
    pub max_size: i32,
    /// How long the broker may hold the answer back while there is nothing; a broker that cannot answers at once.
    pub wait: Duration,
}

/// The answer to a get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// Bytes of the log from the offset on, cut anywhere.
    Data(Bytes),
    /// Continue at another offset instead.
    Moved {
        /// There.
        to: Offset,
        /// Whether the broker holds gets back while there is nothing, as [`Get::wait`] asks: the first get at the new
        /// offset needs no pause then.
        holds_gets: bool,
    },
    /// Nothing there, or not yet.
    Nothing {
        /// Whether the broker held the answer back: there is no reason to pause before the next get.
        waited: bool,
    },
}

/// Why there is no answer; told to the log once per outage.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;
