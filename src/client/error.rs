//! What can go wrong between an application and its brokers (D17).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::id::{Partition, TopicName};
use crate::protocol::{DecodeError, Status, Unsendable};
use crate::zk::{ClusterError, CoordinatorError, NotConnected};

use super::config::ConfigError;
use super::consumer::ConsumerError;

/// Why the client library did not do what it was asked.
///
/// [`fault`](Self::fault) says whose fault it is, [`is_retryable`](Self::is_retryable) whether trying again can help, and
/// [`outcome`](Self::outcome) whether it may have been done all the same.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No connection came about; nothing was sent.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// `host:port` of the broker.
        address: String,
        /// Why.
        source: Arc<io::Error>,
    },
    /// The request cannot be put into the protocol's line; nothing was sent.
    #[error(transparent)]
    Unsendable(#[from] Unsendable),
    /// The connection was gone, or took nothing more, before the request was sent.
    #[error("the connection to {address} was lost before the request was sent: {reason}")]
    NotSent {
        /// `host:port` of the broker.
        address: String,
        /// Why.
        reason: String,
    },
    /// The request was sent and no answer came: it may have been carried out or not. Do it again only if twice does no
    /// harm.
    #[error(transparent)]
    Unknown(#[from] NoAnswer),
    /// The broker answered that it did not do it.
    #[error("refused by the broker with status {status}: {text}")]
    Refused {
        /// The status, never 200.
        status: Status,
        /// The broker's text.
        text: String,
    },
    /// The broker answered something that the request cannot have.
    #[error("{address} answered something unexpected: {what}")]
    Unexpected {
        /// `host:port` of the broker.
        address: String,
        /// What.
        what: String,
    },
    /// A setting of the client that cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No session with ZooKeeper came about.
    #[error(transparent)]
    NotConnected(#[from] NotConnected),
    /// ZooKeeper knows no broker for this, or did not answer.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// What is special about consumers.
    #[error(transparent)]
    Consumer(#[from] ConsumerError),
    /// Not possible with a broker that is known by its address only.
    #[error("{0}; connect through ZooKeeper instead of to one broker")]
    NeedsZooKeeper(&'static str),
    /// What was asked has been shut down.
    #[error("{0} has been shutdown")]
    Shutdown(&'static str),
    /// A message that cannot be sent as it is.
    #[error("{0}")]
    InvalidMessage(String),
    /// There is a default topic already, for the whole factory.
    #[error("Default topic has been setup already:{0}")]
    DefaultTopic(TopicName),
    /// The time of a message was over before it was sent.
    #[error("Send message timeout in {ms} mills, it was not sent: {reason}", ms = .timeout.as_millis())]
    SendTimeout {
        /// The time-out.
        timeout: Duration,
        /// What it waited for.
        reason: String,
    },
    /// There is no partition to send to.
    #[error(
        "There is no aviable partition for topic {topic},maybe you don't publish it at first? Publish it, and check that a \
         broker offers it"
    )]
    NoPartition {
        /// The topic.
        topic: TopicName,
    },
    /// The application's selector panicked; the message was not sent.
    #[error("the partition selector panicked on a message to topic {topic}, which was not sent: {panic}")]
    Selector {
        /// The topic.
        topic: TopicName,
        /// What it panicked with.
        panic: String,
    },
    /// The partition's broker has no address at present.
    #[error(
        "There is no aviable server right now for topic {topic} and partition {partition},maybe you don't publish it at \
         first? Check that broker {broker} is running and registered", broker = .partition.broker
    )]
    NoServer {
        /// The topic.
        topic: TopicName,
        /// The partition that was chosen.
        partition: Partition,
    },
}

/// What became of the answer to a request that was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The connection was lost while the request was under way.
    #[error("the connection to {address} was lost: {reason}")]
    Lost {
        /// `host:port` of the broker.
        address: String,
        /// Why.
        reason: String,
    },
    /// None came within the time-out.
    #[error("no answer from {address} within {timeout:?}")]
    Timeout {
        /// `host:port` of the broker.
        address: String,
        /// The time-out.
        timeout: Duration,
    },
    /// The same for a message of a producer.
    #[error(
        "Send message timeout in {ms} mills: no answer from {address}, the message may be stored or not",
        ms = .timeout.as_millis()
    )]
    SendTimeout {
        /// `host:port` of the broker.
        address: String,
        /// The time-out of the message.
        timeout: Duration,
    },
    /// The runtime of the producer ended first.
    #[error("the producer's runtime ended before there was an answer; shut the factory down first")]
    Abandoned,
}

/// What is known of the request behind an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was not carried out.
    NotDone,
    /// It may have been carried out.
    Unknown,
}

/// Where to look first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The application: what it asked for, or when.
    Caller,
    /// A broker, or that none is there.
    Broker,
    /// The way to the broker, or a broker that is silent.
    Network,
    /// ZooKeeper, or the way to it.
    Coordinator,
    /// This library: please report it.
    Library,
}

impl ClientError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Unsendable(_)
            | Self::Config(_)
            | Self::NeedsZooKeeper(_)
            | Self::Shutdown(_)
            | Self::InvalidMessage(_)
            | Self::Selector { .. }
            | Self::DefaultTopic(_) => Fault::Caller,
            Self::Refused { status, .. } if *status == Status::BAD_REQUEST => Fault::Caller,
            Self::Consumer(error) => error.fault(),
            Self::Connect { .. } | Self::NotSent { .. } | Self::Unknown(_) | Self::SendTimeout { .. } => Fault::Network,
            Self::NotConnected(_) | Self::Cluster(ClusterError::Coordinator(_) | ClusterError::Damaged { .. }) => {
                Fault::Coordinator
            }
            Self::Refused { .. }
            | Self::Unexpected { .. }
            | Self::Cluster(_)
            | Self::NoPartition { .. }
            | Self::NoServer { .. } => Fault::Broker,
        }
    }

    /// Whether the same request can succeed later, or at another broker. It does not say that it is safe to repeat:
    /// see [`outcome`](Self::outcome).
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Refused { status, .. } => matches!(*status, Status::FORBIDDEN | Status::ERROR | Status::UNAVAILABLE),
            Self::Cluster(ClusterError::Coordinator(error)) => !error.is_semantic(),
            Self::Cluster(ClusterError::Damaged { .. }) | Self::Unexpected { .. } => false,
            _ => !matches!(self.fault(), Fault::Caller | Fault::Library),
        }
    }

    /// Whether the broker may have carried out the request.
    pub fn outcome(&self) -> Outcome {
        match self {
            // A put that is answered with 500 because a sync failed may be on disk all the same (02 §16).
            Self::Refused { status, .. } if *status == Status::ERROR => Outcome::Unknown,
            Self::Unknown(_) | Self::Unexpected { .. } => Outcome::Unknown,
            _ => Outcome::NotDone,
        }
    }
}

impl From<CoordinatorError> for ClientError {
    fn from(error: CoordinatorError) -> Self {
        Self::Cluster(ClusterError::Coordinator(error))
    }
}

/// Why a connection ended, told to everyone who still waits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum End {
    #[error("the broker closed it")]
    Closed,
    #[error("this client closed it")]
    Dropped,
    #[error("{0}")]
    Io(String),
    #[error("the broker sent something that is no answer: {0}")]
    Garbage(#[from] DecodeError),
    #[error("the broker left {0} heartbeats in a row without a good answer")]
    Silent(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_tells_whose_fault_it_is_what_a_retry_can_do_and_what_is_known() {
        let topic = TopicName::new("t").unwrap();
        let refused = |status| ClientError::Refused { status, text: String::new() };
        let address = "h:1".to_owned();
        for (error, fault, retryable, outcome) in [
            (refused(Status::FORBIDDEN), Fault::Broker, true, Outcome::NotDone),
            (refused(Status::BAD_REQUEST), Fault::Caller, false, Outcome::NotDone),
            (refused(Status::ERROR), Fault::Broker, true, Outcome::Unknown),
            (refused(Status::NOT_FOUND), Fault::Broker, false, Outcome::NotDone),
            (
                NoAnswer::Lost { address: address.clone(), reason: String::new() }.into(),
                Fault::Network,
                true,
                Outcome::Unknown,
            ),
            (ClientError::NotSent { address, reason: String::new() }, Fault::Network, true, Outcome::NotDone),
            (ClientError::Shutdown("Producer"), Fault::Caller, false, Outcome::NotDone),
            (ClientError::NoPartition { topic: topic.clone() }, Fault::Broker, true, Outcome::NotDone),
            (NotConnected::Closed.into(), Fault::Coordinator, true, Outcome::NotDone),
            (CoordinatorError::NotEmpty("/a".to_owned()).into(), Fault::Coordinator, false, Outcome::NotDone),
        ] {
            assert_eq!((error.fault(), error.is_retryable(), error.outcome()), (fault, retryable, outcome), "{error}");
        }
    }

    #[test]
    fn texts_begin_as_those_of_the_reference() {
        let topic = TopicName::new("t").unwrap();
        let text = ClientError::NoPartition { topic: topic.clone() }.to_string();
        assert!(
            text.starts_with("There is no aviable partition for topic t,maybe you don't publish it at first?"),
            "{text}"
        );
        let text = ClientError::NoServer { topic, partition: "0-1".parse().unwrap() }.to_string();
        let start =
            "There is no aviable server right now for topic t and partition 0-1,maybe you don't publish it at first?";
        assert!(text.starts_with(start), "{text}");
        assert_eq!(ClientError::Shutdown("Producer").to_string(), "Producer has been shutdown");
    }
}
