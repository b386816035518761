//! What waits to be sent on one connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::limits::MAX_UNSENT_BYTES;

/// A frame, with the place of the request that it answers. `None` in the place of one: close.
type Parcel = Option<(Bytes, Option<OwnedSemaphorePermit>)>;

/// The end that the worker has.
#[derive(Debug, Clone)]
pub(super) struct Outbox {
    peer: SocketAddr,
    parcels: UnboundedSender<Parcel>,
    unsent: Arc<AtomicUsize>,
    abort: CancellationToken,
}

/// The end that the connection has.
#[derive(Debug)]
pub(super) struct Parcels {
    parcels: UnboundedReceiver<Parcel>,
    unsent: Arc<AtomicUsize>,
}

/// Both ends; `abort` drops the connection.
pub(super) fn outbox(peer: SocketAddr, abort: CancellationToken) -> (Outbox, Parcels) {
    let (sender, receiver) = unbounded_channel();
    let unsent = Arc::new(AtomicUsize::new(0));
    (Outbox { peer, parcels: sender, unsent: Arc::clone(&unsent), abort }, Parcels { parcels: receiver, unsent })
}

impl Outbox {
    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Bytes that wait.
    pub(super) fn unsent(&self) -> usize {
        self.unsent.load(Ordering::Relaxed)
    }

    /// False if too much waits already.
    pub(super) fn send(&self, frame: Bytes, place: Option<OwnedSemaphorePermit>) -> bool {
        let len = frame.len();
        let unsent = self.unsent.fetch_add(len, Ordering::Relaxed) + len;
        // A connection that is gone needs nothing any more.
        let _gone = self.parcels.send(Some((frame, place)));
        unsent <= MAX_UNSENT_BYTES
    }

    /// Closes the connection when everything before is sent.
    pub(super) fn end(&self) {
        let _gone = self.parcels.send(None);
    }

    /// Drops the connection as it is.
    pub(super) fn abort(&self) {
        self.abort.cancel();
    }
}

impl Parcels {
    /// The next frame; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<(Bytes, Option<OwnedSemaphorePermit>)> {
        self.parcels.recv().await.flatten()
    }

    /// A frame that is there already.
    pub(super) fn ready(&mut self) -> Option<Parcel> {
        self.parcels.try_recv().ok()
    }

    /// Bytes were sent.
    pub(super) fn sent(&self, bytes: usize) {
        self.unsent.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_waits_is_limited_and_what_is_sent_waits_no_more() {
        let (outbox, mut parcels) = outbox(([127, 0, 0, 1], 1).into(), CancellationToken::new());
        let frame = Bytes::from(vec![0; MAX_UNSENT_BYTES / 2]);
        assert!(outbox.send(frame.clone(), None) && outbox.send(frame.clone(), None));
        assert!(!outbox.send(Bytes::from_static(b"x"), None));
        for _ in 0..2 {
            let (taken, _) = parcels.next().await.unwrap();
            parcels.sent(taken.len());
        }
        assert!(outbox.send(frame, None));
        outbox.end();
        while parcels.next().await.is_some() {}
    }
}
