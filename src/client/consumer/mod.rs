//! Consumers: what joins the two loops, the driver of a group and the fetch engine, with listeners and connections (05).
//!
//! | part | what it does |
//! |---|---|
//! | [`Consumer`], `Core` | what an application holds, and what stands behind it |
//! | `Running`, `Assignment` | the driver and the engine at work |
//! | `Dispatch` | from fetched batches to listeners |
//! | `BrokerSource` | the engine's way to brokers |
//! | [`MessageListener`], [`BatchListener`], [`MessageStream`] | what an application does with messages |
//! | [`RejectHandler`] | what becomes of those it cannot handle |

mod assignment;
mod config;
#[expect(clippy::module_inception, reason = "the consumer itself, beside its parts")]
mod consumer;
mod core;
mod dispatch;
mod error;
mod filter;
mod identity;
mod listener;
mod observer;
mod reject;
mod running;
mod seen;
mod source;
mod stream;
mod subscription;
mod subscriptions;
#[cfg(test)]
mod testing;
mod watcher;

pub use config::ConsumerConfig;
pub use consumer::Consumer;
pub use error::ConsumerError;
pub use filter::MessageFilter;
pub use listener::{Action, BatchListener, IntoAction, MessageBatch, MessageListener};
pub use reject::{DeadLetterTopic, DropRejected, LogRejected, RejectHandler};
pub use stream::{Delivery, MessageStream};
pub use subscription::{Fetch, SubscribeOptions};
pub(crate) use subscriptions::Subscriptions;
pub use watcher::RebalanceListener;
