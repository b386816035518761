//! What the server of local mode takes from its clients, so that none of them can fill its memory.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Bytes of a request, as ZooKeeper's `jute.maxbuffer`.
pub(super) const MAX_FRAME_BYTES: usize = 0xf_ffff;

/// Session time-outs that are granted, in milliseconds; what a client asks for is moved into this range.
pub(super) const SESSION_TIMEOUT_MS: RangeInclusive<i32> = 2_000..=60_000;

/// Time that a new connection has to say who it is.
pub(super) const CONNECT_TIME: Duration = Duration::from_secs(10);

/// Connections at a time, however many descriptors the process has.
pub const MAX_CONNECTIONS: usize = 1_000;

/// Sessions at a time, those whose client is away included.
pub(super) const MAX_SESSIONS: usize = 4_000;

/// Watches of one connection.
pub(super) const MAX_WATCHES: usize = 10_000;

/// Watches of all connections.
pub(super) const MAX_ALL_WATCHES: usize = 100_000;

/// Bytes of a path.
pub(super) const MAX_PATH_BYTES: usize = 4_096;

/// Requests of one connection that are read and whose answers are not sent; beyond that, nothing more is read from it.
pub(super) const MAX_IN_FLIGHT: usize = 32;

/// Bytes of requests of all connections that are read and not carried out; beyond that, they wait for each other.
pub(super) const MAX_IN_FLIGHT_BYTES: usize = 64 << 20;

/// Bytes of answers and events that wait for one client to take them; beyond that, it is dropped.
pub(super) const MAX_UNSENT_BYTES: usize = 64 << 20;

/// The same over all clients; beyond that, those with most are dropped.
pub(super) const MAX_ALL_UNSENT_BYTES: usize = 256 << 20;

/// Nodes of the tree.
pub(super) const MAX_NODES: usize = 500_000;

/// Bytes of the tree: paths, data and what each node takes beside them.
pub(super) const MAX_TREE_BYTES: usize = 256 << 20;

/// Bytes of the log after which it is folded into a new snapshot, if the snapshot is not larger than that anyway.
pub(super) const LOG_BYTES: u64 = 16 << 20;

/// The longest log or snapshot: no tree within its limits comes near it. What is longer is damaged, and not worth the
/// memory to read it.
pub(super) const MAX_FILE_BYTES: u64 = 1 << 30;

/// Requests that share one sync, and bytes of transactions, or of answers, beyond which no more join them.
pub(super) const MAX_BATCH: usize = 1_000;
/// See [`MAX_BATCH`].
pub(super) const MAX_BATCH_BYTES: usize = 4 << 20;

/// Longest time that a client may take for what is sent to it at once.
pub(super) const WRITE_TIME: Duration = Duration::from_secs(60);

/// Bytes of small frames that are sent together.
pub(super) const WRITE_BYTES: usize = 64 << 10;

/// Longest time that a client has to close a connection that the server is done with.
pub(super) const LINGER_TIME: Duration = Duration::from_secs(1);
