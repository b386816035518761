//! The ZooKeeper of local mode: an in-process server of ZooKeeper's protocol on the loopback interface, for development
//! and single machines. Unmodified clients of every language work with it; clusters use a real ensemble.
//!
//! ```text
//!  connection ─► requests ─► worker ─► engine: tree, sessions, watches ─► answers, held back ─► connection
//!  connection ─►               │                                              ▲
//!                              └──────────► journal: one sync for all ────────┘
//! ```
//!
//! | part | what it does |
//! |---|---|
//! | `jute`, `wire`, `requests`, `code` | the bytes of the protocol |
//! | `tree`, `node`, `acl`, `path` | nodes, and what may be done with them |
//! | `sessions`, `watches` | who lives, and who is to be told |
//! | `engine`, `state`, `change` | requests become changes, answers and events; free of IO |
//! | `journal` | snapshot and log on disk |
//! | `worker` | the thread that owns engine and journal |
//! | `server`, `connection`, `outbox`, `words`, `address` | sockets |
//!
//! What ZooKeeper can and this cannot: containers and nodes with a time to live, persistent watches, quotas, SASL and
//! enforced rights. Such requests are answered with `Unimplemented`; lists of rights are kept and given back.

mod acl;
mod address;
mod change;
mod code;
mod connection;
mod engine;
mod journal;
mod jute;
mod limits;
mod node;
mod outbox;
mod path;
mod random;
mod requests;
mod server;
mod sessions;
mod state;
mod tree;
mod watches;
mod wire;
mod words;
mod worker;

pub use address::{LocalAddresses, NotLocal};
pub use journal::JournalError;
pub use limits::MAX_CONNECTIONS;
pub use server::{LocalServer, LocalServerError};

/// The directory of its files within `<dataLogPath>/transactions`, which a Java broker ignores.
pub const DIRECTORY: &str = "zookeeper";
