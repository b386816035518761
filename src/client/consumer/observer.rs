//! What the engine tells, as events and metrics of the client.

use std::fmt;
use std::sync::Arc;

use super::dispatch::Dispatch;
use crate::client::ClientEvent;
use crate::client::session::Session;
use crate::fetch::{FetchEvent, FetchObserver};
use crate::id::GroupName;

/// Passes on what an application may want to react to.
pub(super) struct Observer {
    pub(super) session: Arc<Session>,
    pub(super) group: GroupName,
    pub(super) dispatch: Arc<Dispatch>,
}

impl FetchObserver for Observer {
    fn event(&self, event: &FetchEvent) {
        let metrics = self.session.metrics();
        let client_event = match event {
            FetchEvent::Received { of, messages, bytes } => return metrics.received(of, *messages, *bytes),
            FetchEvent::DeliveryFailed { of, offset, times, reason } => {
                metrics.retried(of);
                ClientEvent::ListenerFailed {
                    from: (**of).clone(),
                    offset: *offset,
                    times: *times,
                    reason: reason.clone(),
                }
            }
            FetchEvent::Rejected { of, offset, id, reason } => {
                metrics.rejected(of);
                let (from, reason) = ((**of).clone(), reason.clone());
                ClientEvent::MessageRejected { from, offset: *offset, id: *id, reason }
            }
            FetchEvent::Moved { of, from, to } | FetchEvent::Realigned { of, from, to } => {
                ClientEvent::OffsetMoved { of: (**of).clone(), from: *from, to: *to }
            }
            FetchEvent::Stuck { of, offset, reason } => {
                ClientEvent::PartitionStuck { of: (**of).clone(), offset: *offset, reason: reason.clone() }
            }
            FetchEvent::Sought { of, from } => return self.dispatch.told_position(of, *from),
            FetchEvent::Committed { of, offset } => return metrics.committed(&self.group, of, *offset),
            FetchEvent::CommitFailed { of, error } | FetchEvent::LoadFailed { of, error } => {
                ClientEvent::OffsetsUnavailable { of: (**of).clone(), error: error.clone() }
            }
            FetchEvent::Panicked { panic } => {
                ClientEvent::ConsumerPanicked { group: self.group.clone(), reason: panic.to_string() }
            }
            FetchEvent::NotOwner { of } => ClientEvent::PartitionTaken { of: (**of).clone() },
            FetchEvent::RejectFailed { of, offset, error, is_new: true } => {
                ClientEvent::RejectFailed { from: (**of).clone(), offset: *offset, error: error.clone() }
            }
            FetchEvent::GetFailed { of, error, is_new: true } => {
                ClientEvent::PartitionFailing { of: (**of).clone(), error: error.clone() }
            }
            FetchEvent::Recovered { of } => ClientEvent::PartitionRecovered { of: (**of).clone() },
            // An outage is told of when it begins.
            FetchEvent::RejectFailed { is_new: false, .. } | FetchEvent::GetFailed { is_new: false, .. } => return,
            FetchEvent::Handled { .. } => return,
        };
        self.session.emit(client_event);
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("group", &self.group).finish_non_exhaustive()
    }
}
