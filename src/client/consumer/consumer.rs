//! The consumer itself.

use std::sync::Arc;
use std::time::Duration;

use super::config::ConsumerConfig;
use super::core::Core;
use super::dispatch::{Handler, OneByOne};
use super::error::ConsumerError;
use super::source::BrokerSource;
use super::stream::{MessageStream, stream};
use super::subscription::{Fetch, SubscribeOptions};
use super::{BatchListener, MessageListener};
use crate::client::session::SessionHandle;
use crate::client::{ClientError, MessageSessionFactory};
use crate::fetch::{OffsetStorage, SeekTo};
use crate::id::{GroupName, Offset, Partition, TopicName, TopicPartition};

/// Messages that a stream holds ready before its listeners wait, one a partition at most.
const STREAM_READ_AHEAD: usize = 64;

/// Reads topics, as a member of a group or partitions chosen by hand (05).
///
/// Clones are the same consumer. It works until [`shutdown`](Self::shutdown), or that of its factory; dropping it does not
/// end it as long as the factory lives. A listener or handler that holds the consumer, or anything else of the factory, keeps
/// the factory alive: then only a shutdown ends it. Should a fault of this library end it, every call fails with
/// [`ConsumerError::Panicked`] from then on.
#[derive(Debug, Clone)]
pub struct Consumer {
    core: Arc<Core>,
    _handle: Arc<SessionHandle>,
}

impl MessageSessionFactory {
    /// A consumer whose offsets are kept in ZooKeeper; nowhere, if the factory knows one broker only.
    ///
    /// # Errors
    /// [`ConsumerError`] for settings that cannot be; [`ClientError::Shutdown`].
    pub fn create_consumer(&self, config: ConsumerConfig) -> Result<Consumer, ClientError> {
        self.consumer(config, None)
    }

    /// A consumer whose offsets are kept elsewhere, in a [file](crate::fetch::FileOffsets) for example. All members of a
    /// group must use the same place.
    ///
    /// # Errors
    /// As [`create_consumer`](Self::create_consumer).
    pub fn create_consumer_with(
        &self,
        config: ConsumerConfig,
        storage: Arc<dyn OffsetStorage>,
    ) -> Result<Consumer, ClientError> {
        self.consumer(config, Some(storage))
    }

    fn consumer(
        &self,
        config: ConsumerConfig,
        storage: Option<Arc<dyn OffsetStorage>>,
    ) -> Result<Consumer, ClientError> {
        let core = Core::new(Arc::clone(self.session()), config, storage)?;
        self.session().register_child(core.clone())?;
        Ok(Consumer { core, _handle: Arc::clone(self.handle()) })
    }
}

impl Consumer {
    /// The group.
    pub fn group(&self) -> &GroupName {
        self.core.config.group()
    }

    /// The member's name in ZooKeeper, `<group>_<id>`.
    pub fn consumer_id(&self) -> &str {
        &self.core.id
    }

    /// Reads a topic with a listener, asking for `max_size` bytes at a time. Nothing is read before
    /// [`complete_subscribe`](Self::complete_subscribe).
    ///
    /// # Errors
    /// [`ConsumerError`]: the topic's name or size cannot be, it is subscribed to already, by this or another consumer of
    /// the factory with the same group, or the work has begun; [`ClientError::Shutdown`].
    pub fn subscribe(
        &self,
        topic: &TopicName,
        max_size: i32,
        listener: impl MessageListener,
    ) -> Result<(), ClientError> {
        self.subscribe_with(topic, SubscribeOptions::new(max_size), listener)
    }

    /// [`subscribe`](Self::subscribe) with all options.
    ///
    /// # Errors
    /// As there.
    pub fn subscribe_with(
        &self,
        topic: &TopicName,
        options: SubscribeOptions,
        listener: impl MessageListener,
    ) -> Result<(), ClientError> {
        self.core.subscribe(topic, options, Handler::OneByOne(OneByOne::Listener(Box::new(listener))))
    }

    /// Reads a topic with a listener that takes messages several at a time.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub fn subscribe_batches(
        &self,
        topic: &TopicName,
        options: SubscribeOptions,
        listener: impl BatchListener,
    ) -> Result<(), ClientError> {
        self.core.subscribe(topic, options, Handler::Batches(Box::new(listener)))
    }

    /// Reads a topic as a stream.
    ///
    /// A message that waits in the stream, or for its answer, takes one of
    /// [`fetch_runner_count`](ConsumerConfig::fetch_runner_count), as a listener at work does: with more than one topic,
    /// read all streams at the same time, or allow for as many runners as there are partitions.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub fn subscribe_stream(&self, topic: &TopicName, max_size: i32) -> Result<MessageStream, ClientError> {
        self.subscribe_stream_with(topic, SubscribeOptions::new(max_size))
    }

    /// [`subscribe_stream`](Self::subscribe_stream) with all options.
    ///
    /// # Errors
    /// As [`subscribe`](Self::subscribe).
    pub fn subscribe_stream_with(
        &self,
        topic: &TopicName,
        options: SubscribeOptions,
    ) -> Result<MessageStream, ClientError> {
        let (feed, messages) = stream(STREAM_READ_AHEAD);
        self.core.subscribe(topic, options, Handler::OneByOne(OneByOne::Stream(feed)))?;
        Ok(messages)
    }

    /// Joins the group and begins to read. It is done when the member has its node in ZooKeeper, the watches and the first
    /// plan. Its partitions follow: a moment later, those that others still own as they are given up;
    /// [`ClientEvent::Rebalanced`](super::super::ClientEvent::Rebalanced) and the
    /// [rebalance listener](ConsumerConfig::rebalance_listener) tell. With a factory that knows one broker only,
    /// reads [`ConsumerConfig::partition`] of each topic without a group (05 §3).
    ///
    /// # Errors
    /// [`ConsumerError`]: it was called before, there is nothing to read, or the group could not be joined; the consumer
    /// is shut down then. [`ClientError::Shutdown`].
    ///
    /// # Cancellation
    /// Once polled, joining goes on without the future; if it fails then,
    /// [`ClientEvent::JoinFailed`](super::super::ClientEvent::JoinFailed) and the log tell, and the consumer is shut down.
    pub async fn complete_subscribe(&self) -> Result<(), ClientError> {
        let running = self.core.start()?;
        self.core.join(running).await
    }

    /// Reads exactly these partitions, chosen by hand: no group is joined, nobody else is kept from reading them. A second
    /// call replaces the first: those that stay go on untouched. Each topic needs a subscription. Offsets are stored and
    /// begun from only with a storage given to
    /// [`create_consumer_with`](MessageSessionFactory::create_consumer_with).
    ///
    /// # Errors
    /// [`ConsumerError`]: a topic has no subscription, or this consumer is a member of its group.
    /// [`ClientError::Shutdown`].
    ///
    /// # Cancellation
    /// Once polled, those that are given up are given up; call it again for the rest.
    pub async fn assign(&self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        let running = self.core.start_by_hand(partitions)?;
        running.assign(partitions).await?;
        Ok(())
    }

    /// What is read now.
    pub fn assigned(&self) -> Vec<TopicPartition> {
        self.core.running().map(|running| running.assigned()).unwrap_or_default()
    }

    /// No more deliveries of these partitions from now on, a running listener aside. They stay owned.
    ///
    /// # Errors
    /// [`ConsumerError`]: the work has not begun, or has ended.
    ///
    /// # Cancellation
    /// Once polled, it is done.
    pub async fn pause(&self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        Ok(self.core.running()?.engine.pause(partitions).await.map_err(ConsumerError::from)?)
    }

    /// Ends [`pause`](Self::pause).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancellation
    /// Once polled, it is done.
    pub async fn resume(&self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        Ok(self.core.running()?.engine.resume(partitions).await.map_err(ConsumerError::from)?)
    }

    /// Goes on elsewhere in a partition. Messages that were handled before are delivered again, whatever
    /// [`duplicate_suppression`](ConsumerConfig::duplicate_suppression) says.
    ///
    /// # Errors
    /// [`ConsumerError`]: the partition is not assigned.
    ///
    /// # Cancellation
    /// Once polled, it is done.
    pub async fn seek(&self, partition: &TopicPartition, to: SeekTo) -> Result<(), ClientError> {
        Ok(self.core.running()?.seek(partition, to).await.map_err(ConsumerError::from)?)
    }

    /// Where the next message begins that is not handled yet; `None` while that is not known.
    ///
    /// # Errors
    /// [`ConsumerError`]: the work has not begun, or has ended.
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn position(&self, partition: &TopicPartition) -> Result<Option<Offset>, ClientError> {
        let position = self.core.running()?.engine.position(partition).await.map(|stored| stored.offset);
        // As long as the broker has not told where the end is.
        Ok(position.filter(|&offset| offset != Offset::LATEST))
    }

    /// The offset that is stored, as far as this consumer knows.
    ///
    /// # Errors
    /// As [`position`](Self::position).
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn committed(&self, partition: &TopicPartition) -> Result<Option<Offset>, ClientError> {
        Ok(self.core.running()?.engine.committed(partition).await.map(|stored| stored.offset))
    }

    /// Bytes from the position to the end of the partition, for which its broker is asked; `None` while the position is
    /// not known or the broker has nothing of the partition.
    ///
    /// # Errors
    /// [`ConsumerError`]: the partition is not assigned, or its broker does not answer.
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn lag(&self, partition: &TopicPartition) -> Result<Option<u64>, ClientError> {
        let lag = self.core.running()?.engine.lag(partition).await.map_err(ConsumerError::from)?;
        if let Some(bytes) = lag {
            self.core.session.metrics().lag(partition, bytes);
        }
        Ok(lag)
    }

    /// Stores all offsets now.
    ///
    /// # Errors
    /// [`ConsumerError`]: some were not stored; they are tried again periodically.
    ///
    /// # Cancellation
    /// Once polled, it is done.
    pub async fn commit(&self) -> Result<(), ClientError> {
        Ok(self.core.running()?.engine.commit().await.map_err(ConsumerError::from)?)
    }

    /// Reads messages once, from the master of the partition, without any subscription; nothing is stored. At most
    /// `max_size` bytes.
    ///
    /// # Errors
    /// The broker cannot be reached, refuses, or does not answer within the fetch time-out; [`ConsumerError::Damaged`].
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn get(
        &self,
        topic: &TopicName,
        partition: Partition,
        offset: Offset,
        max_size: i32,
    ) -> Result<Fetch, ClientError> {
        self.get_with_timeout(topic, partition, offset, max_size, self.core.options.fetch_timeout).await
    }

    /// [`get`](Self::get) with another time-out.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn get_with_timeout(
        &self,
        topic: &TopicName,
        partition: Partition,
        offset: Offset,
        max_size: i32,
        timeout: Duration,
    ) -> Result<Fetch, ClientError> {
        if max_size <= 0 {
            return Err(ConsumerError::MaxSize(max_size).into());
        }
        self.core.check_open()?;
        let of = TopicPartition { topic: topic.clone(), partition };
        let source = BrokerSource::impatient(Arc::clone(&self.core.session), self.group(), timeout);
        let fetched = source.once(&of, offset, max_size).await?;
        Fetch::of(of, offset, fetched, &self.core.options)
    }

    /// Where a partition ends now; `None` if its broker has nothing of it.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn end_offset(&self, partition: &TopicPartition) -> Result<Option<Offset>, ClientError> {
        match self.get(&partition.topic, partition.partition, Offset::LATEST, 1).await? {
            Fetch::Moved(end) => Ok(Some(end)),
            Fetch::Messages(_) | Fetch::Nothing => Ok(None),
        }
    }

    /// The nearest offset at or before the given one at which a message is sure to begin: the start of its segment.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Cancellation
    /// Cancellation-safe.
    pub async fn nearest_offset(&self, partition: &TopicPartition, offset: Offset) -> Result<Offset, ClientError> {
        self.core.check_open()?;
        let timeout = self.core.options.fetch_timeout;
        BrokerSource::new(Arc::clone(&self.core.session), self.group(), timeout).nearest(partition, offset).await
    }

    /// Ends the consumer: listeners end within the drain time-out or are cancelled, offsets are stored, the partitions and
    /// the member's nodes are given up. Another call waits for the same end.
    ///
    /// # Errors
    /// [`ConsumerError::Unclean`], [`ConsumerError::Left`]: it has ended all the same.
    ///
    /// # Cancellation
    /// Once polled, it is done all the same; another call waits for it. A listener that waits for it waits for itself and is
    /// cancelled after the drain time-out: let a task of its own do that.
    pub async fn shutdown(&self) -> Result<(), ClientError> {
        self.core.end().await
    }
}

#[cfg(test)]
mod tests;
