//! metaq: a message broker, client library and command line natively compatible with MetaQ
//! (Alibaba Metamorphosis 1.4), coordinated through ZooKeeper.
//!
//! The crate is a house of rooms; dependencies point up this table only.
//!
//! | room | owns | needs the feature |
//! |---|---|---|
//! | [`id`] | newtypes for everything that has a name or a position | |
//! | [`message`] | the stored record, its body and checksum | |
//! | [`protocol`] | commands and responses, decoder and encoder in one place | |
//! | [`config`] | `server.ini`: reading, checking, effective values | `broker` |
//! | [`store`] | segments, append, flush, recovery, one directory lock | `broker` |
//! | [`zk`] | the coordinator seam, node paths and formats, registration | |
//! | [`rebalance`] | who of a consumer group reads which partition, and the driver that brings it about | `client` |
//! | [`fetch`] | the pull engine of a consumer, offset storages | `client` |
//! | [`client`] | session factory, connections, discovery, producers, consumers | `client` |
//! | [`broker`] | listener, connections, command processors, life cycle | `broker` |
//! | [`admin`] | HTTP for operators: health, metrics, status, closing and opening partitions | `broker` |
//! | [`cli`] | the `metaq` binary: arguments and output | `broker` |
//!
//! **To send or read messages from a Rust service start with the `guide`.** `ARCHITECTURE.md` tells how the rooms work
//! together.

pub mod id;
pub mod message;
pub mod protocol;
pub mod zk;

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "client")]
#[doc = include_str!("../docs/client.md")]
pub mod guide {}
#[cfg(feature = "client")]
mod common;
#[cfg(feature = "client")]
pub mod fetch;
#[cfg(feature = "client")]
pub mod rebalance;

#[cfg(feature = "broker")]
pub mod admin;
#[cfg(feature = "broker")]
pub mod broker;
#[cfg(feature = "broker")]
pub mod cli;
#[cfg(feature = "broker")]
pub mod config;
#[cfg(feature = "broker")]
pub mod store;
