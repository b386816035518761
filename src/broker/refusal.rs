//! Every answer that is no success, with its status and exact text (01 §8, §9).

use std::fmt;

use bytes::BytesMut;

use super::identity::Identity;
use crate::id::{Offset, PartitionIndex};
use crate::protocol::{Opaque, Response, Status};

/// Why a command was not carried out, in the words that clients and operators know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal<'a> {
    /// A put to a partition that the operator closed.
    PutToClosed { topic: &'a str, partition: PartitionIndex },
    /// A put that failed.
    Put { topic: &'a str, partition: PartitionIndex, detail: String },
    /// A get from a partition that the operator closed.
    GetFromClosed { partition: PartitionIndex },
    /// A get or offset query for a partition that holds nothing.
    NoSuchPartition { topic: &'a str, partition: PartitionIndex },
    /// A get with a size that is not positive.
    MaxSize(i32),
    /// A get at the end of the log, or beyond it.
    NothingAt(Offset),
    /// A get that is to continue elsewhere.
    ContinueAt(Offset),
    /// Anything of a transaction.
    Transactions,
    /// A `sync`, which only a synchronous slave takes.
    NoProcessor,
    /// A command that came while the broker was stopping.
    Stopping,
    /// Statistics that could not be gathered.
    Stats(String),
}

/// The reference's words for «no processor is registered for the command class», in its language.
const NO_PROCESSOR_PREFIX: &str = "未注册请求处理器，请求处理器类为";

/// The reference's words for «the thread pool is busy», sent while it stops.
const POOL_BUSY: &str = "线程池繁忙";

impl Refusal<'_> {
    /// The status on the wire.
    pub(super) fn status(&self) -> Status {
        match self {
            Self::PutToClosed { .. } | Self::GetFromClosed { .. } => Status::FORBIDDEN,
            Self::Put { .. } | Self::Transactions | Self::Stats(_) => Status::ERROR,
            Self::NoSuchPartition { .. } | Self::NothingAt(_) => Status::NOT_FOUND,
            Self::MaxSize(_) => Status::BAD_REQUEST,
            Self::ContinueAt(_) => Status::MOVED,
            Self::NoProcessor | Self::Stopping => Status::UNAVAILABLE,
        }
    }

    /// The text on the wire.
    pub(super) fn text<'a>(&'a self, broker: &'a Identity) -> impl fmt::Display + 'a {
        Text { refusal: self, broker }
    }

    /// Appends the whole answer.
    pub(super) fn encode(&self, broker: &Identity, opaque: Opaque, out: &mut BytesMut) {
        Response::result(self.status(), self.text(broker).to_string(), opaque).encode(out);
    }
}

struct Text<'a> {
    refusal: &'a Refusal<'a>,
    broker: &'a Identity,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { id, url, .. } = self.broker;
        match self.refusal {
            Refusal::PutToClosed { topic, partition } => {
                put_failed(f, url, topic, *partition)?;
                write!(f, "Detail:partition[{id}-{partition}] has been closed")
            }
            Refusal::Put { topic, partition, detail } => {
                put_failed(f, url, topic, *partition)?;
                write!(f, "Detail:{detail}")
            }
            Refusal::GetFromClosed { partition } => write!(f, "Partition[{id}-{partition}] has been closed"),
            Refusal::NoSuchPartition { topic, partition } => {
                write!(f, "The topic `{topic}` in partition `{partition}` is not exists")
            }
            Refusal::MaxSize(max_size) => write!(f, "Bad request,invalid max size:{max_size}"),
            Refusal::NothingAt(offset) => write!(f, "Could not find message at position {offset}"),
            Refusal::ContinueAt(offset) => write!(f, "{offset}"),
            Refusal::Transactions => {
                f.write_str("This broker does not support transactions yet: send without one, or to a broker that does")
            }
            Refusal::NoProcessor => {
                write!(f, "{NO_PROCESSOR_PREFIX}com.taobao.metamorphosis.network.SyncCommand")
            }
            Refusal::Stopping => f.write_str(POOL_BUSY),
            Refusal::Stats(detail) => f.write_str(detail),
        }
    }
}

fn put_failed(
    f: &mut fmt::Formatter<'_>,
    url: &impl fmt::Display,
    topic: &str,
    partition: PartitionIndex,
) -> fmt::Result {
    write!(f, "Put message to [broker '{url}'] [partition '{topic}-{partition}'] failed.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{BrokerId, BrokerUrl};

    #[test]
    fn texts_are_those_of_the_reference() {
        let broker = Identity { id: BrokerId::new(0).unwrap(), url: BrokerUrl::new("127.0.0.1", 18123) };
        let partition = PartitionIndex::new(0);
        let put = |topic, partition, detail: &str| Refusal::Put {
            topic,
            partition: PartitionIndex::new(partition),
            detail: detail.to_owned(),
        };
        for (refusal, answer) in [
            (
                put("test", 0, "Checksum failure,message may be corrupted when transfering on networking."),
                "result 500 157 13\r\nPut message to [broker 'meta://127.0.0.1:18123'] [partition 'test-0'] failed.\
                 Detail:Checksum failure,message may be corrupted when transfering on networking.",
            ),
            (
                put("test", 7, "wrong partition 7"),
                "result 500 101 13\r\nPut message to [broker 'meta://127.0.0.1:18123'] [partition 'test-7'] failed.\
                 Detail:wrong partition 7",
            ),
            (
                put("nope", 0, "The server do not accept topic nope"),
                "result 500 119 13\r\nPut message to [broker 'meta://127.0.0.1:18123'] [partition 'nope-0'] failed.\
                 Detail:The server do not accept topic nope",
            ),
            (
                Refusal::PutToClosed { topic: "test", partition },
                "result 403 114 13\r\nPut message to [broker 'meta://127.0.0.1:18123'] [partition 'test-0'] failed.\
                 Detail:partition[0-0] has been closed",
            ),
            (Refusal::GetFromClosed { partition }, "result 403 30 13\r\nPartition[0-0] has been closed"),
            (Refusal::NothingAt(Offset::new(58)), "result 404 37 13\r\nCould not find message at position 58"),
            (Refusal::ContinueAt(Offset::new(58)), "result 301 2 13\r\n58"),
            (
                Refusal::NoSuchPartition { topic: "test", partition: PartitionIndex::new(1) },
                "result 404 47 13\r\nThe topic `test` in partition `1` is not exists",
            ),
            (Refusal::MaxSize(0), "result 400 30 13\r\nBad request,invalid max size:0"),
            (Refusal::Stopping, "result 503 15 13\r\n线程池繁忙"),
            (
                Refusal::NoProcessor,
                "result 503 92 13\r\n未注册请求处理器，请求处理器类为com.taobao.metamorphosis.network.SyncCommand",
            ),
        ] {
            let mut out = BytesMut::new();
            refusal.encode(&broker, Opaque::new(13), &mut out);
            assert_eq!(String::from_utf8(out.to_vec()).unwrap(), answer);
        }
    }
}
