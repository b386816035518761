//! A simulated coordination service on tokio's clock, for tests: sessions that expire, ephemeral nodes, one-shot watches,
//! connections that break before or after a call was carried out, processes that stand still.
//!
//! | part | what it does |
//! |---|---|
//! | [`Service`] | the tree, sessions and watches; every call is atomic |
//! | [`Client`] | the connection of one process, a [`Coordinator`](crate::zk::Coordinator), and what can befall it |
//! | [`Reader`], [`Readers`] | assignees that drain slowly, and who reads what at any time |
//! | [`JavaMember`] | a member of a group that does as the reference does (05 §4–§5) |

mod client;
mod java;
mod reader;
mod service;

pub(crate) use client::{Client, Notice};
pub(crate) use java::JavaMember;
pub(crate) use reader::{Reader, Readers, UpTo};
pub(crate) use service::Service;
