//! Messages for tests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;

use super::assignment::Assignment;
use super::dispatch::{Dispatch, Handler, OneByOne, Subscription};
use super::observer::Observer;
use super::reject::LogRejected;
use super::source::BrokerSource;
use super::stream::stream;
use crate::client::session::Session;
use crate::fetch::{FetchEngine, FetchOptions, NoStorage, ReceivedMessage};
use crate::id::{GroupName, MessageId, Offset, TopicName, TopicPartition};

/// `topic 0-3` as a value.
pub(super) fn topic_partition(text: &str) -> TopicPartition {
    let (topic, partition) = text.split_once(' ').unwrap();
    TopicPartition { topic: TopicName::new(topic.to_owned()).unwrap(), partition: partition.parse().unwrap() }
}

/// A message of one byte with the id 1000 + offset.
pub(super) fn message(from: &str, offset: i64) -> ReceivedMessage {
    ReceivedMessage {
        from: Arc::new(topic_partition(from)),
        offset: Offset::new(offset),
        next_offset: Offset::new(offset + 1),
        id: MessageId::new(1000 + offset),
        attribute: None,
        payload: Bytes::from_static(b"x"),
        redeliveries: 0,
    }
}

/// Reads a topic, if there is a broker.
pub(super) fn assignment(session: &Arc<Session>, group: &GroupName, topic: &TopicName) -> Arc<Assignment> {
    let (feed, _) = stream(1);
    let handler = Handler::OneByOne(OneByOne::Stream(feed));
    let subscriptions = HashMap::from([(topic.clone(), Subscription { max_size: 1024, filter: None, handler })]);
    let dispatch = Arc::new(Dispatch::new(group.clone(), subscriptions, Arc::new(LogRejected), None));
    let observer = Observer { session: Arc::clone(session), group: group.clone(), dispatch: Arc::clone(&dispatch) };
    let options = FetchOptions { observer: Some(Arc::new(observer)), ..FetchOptions::default() };
    let source = Arc::new(BrokerSource::new(Arc::clone(session), group, Duration::from_secs(1)));
    let engine = FetchEngine::start(source, dispatch.clone(), Arc::new(NoStorage), group.clone(), options);
    Arc::new(Assignment {
        engine: Arc::new(engine),
        dispatch,
        listener: None,
        patience: Duration::from_secs(1),
        at_the_end: Mutex::default(),
    })
}
