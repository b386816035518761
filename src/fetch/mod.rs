//! The pull engine of a consumer (05 §8–§13): which partition is asked when, what becomes of the messages, and where the
//! offsets are kept. The room knows neither brokers' connections nor groups; it reaches them through three seams.
//!
//! | part | what it does |
//! |---|---|
//! | [`FetchEngine`] | reads partitions for ever, delivers, commits |
//! | [`MessageSource`] | the seam to brokers: one get, one offset query |
//! | [`MessageSink`] | the seam to listeners: a batch of messages in, how far it was handled out |
//! | [`OffsetStorage`] | the seam to where offsets are kept |
//! | [`ZooKeeperOffsets`], [`FileOffsets`], [`NoStorage`] | in ZooKeeper, in a local file, nowhere |
//! | [`MessageIdCache`] | which messages were handled lately |
//! | [`FetchObserver`] | hears what happens |

mod engine;
mod error;
mod event;
mod offsets;
mod options;
mod queue;
mod request;
mod seen;
mod sink;
mod source;
mod state;
#[cfg(test)]
mod testing;

pub use engine::FetchEngine;
pub use error::FetchError;
pub use event::{FetchEvent, FetchObserver};
pub use offsets::{
    CommitError, FileOffsets, NoStorage, OffsetCommit, OffsetFileError, OffsetStorage, StorageError,
    ZooKeeperOffsetError, ZooKeeperOffsets,
};
pub use options::{FetchOptions, SeekTo};
pub use seen::{MessageIdCache, RecentMessages};
pub(crate) use sink::Stop;
pub use sink::{Batch, MessageSink, ReceivedMessage, RejectError, Verdict};
pub use source::{Fetched, Get, MessageSource, SourceError};
pub use state::{PartitionState, PartitionStatus, Released};
