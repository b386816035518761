//! HTTP for operators and their programs: health, metrics, status, and the few things that change something (03 §9, §14).
//!
//! | part | what it does |
//! |---|---|
//! | `server` | [`AdminServer`]: the port, connections and their limits |
//! | `stream` | notes what moves on a connection |
//! | `doors` | who may do what: hosts, origins, tokens |
//! | `token` | the secret of those who may change something |
//! | `app`, `routes` | what requests share, and which path leads where |
//! | `probes`, `views`, `changes` | what the paths do |
//! | `answer` | the form of answers and errors |
//! | `metrics` | the exposition for Prometheus |
//!
//! It runs on the general runtime and never on the threads that serve clients; whatever looks at all partitions or asks a
//! file system does so on a thread that may wait, few at a time. It knows a broker by its
//! [`BrokerControl`](crate::broker::BrokerControl) only.

mod answer;
mod app;
mod changes;
mod doors;
mod metrics;
mod probes;
mod routes;
mod server;
mod stream;
mod token;
mod views;

pub use server::{AdminError, AdminOptions, AdminServer};
pub use token::{AdminToken, TOKEN_VARIABLE, TokenError};
