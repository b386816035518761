//! Batches to listeners (05 §12).

use std::sync::Arc;

use tokio::task::{Id, JoinError};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::fetch::event::FetchEvent;
use crate::fetch::{Batch, MessageSink, Verdict};

use super::scheduler::{Done, Scheduler, Work};
use super::slot::{Fetched, Key, Slot, Stage};

/// How a batch ended.
#[derive(Debug)]
pub(super) enum Delivered {
    /// All of it is handled.
    All,
    /// The first message that is not handled is to be delivered again.
    Failed(String),
    /// The message of this place is put away.
    Rejected { place: usize, reason: String },
    /// The first message that is not handled could not be put away.
    NotRejected { reason: String, error: String },
    /// The listener takes nothing more of the partition.
    Suspended,
    /// The batch was stopped before its end.
    Stopped,
    /// The listener was stopped.
    Cancelled,
}

impl Delivered {
    pub(super) fn broken(error: &JoinError) -> Self {
        if error.is_cancelled() { Self::Cancelled } else { Self::Failed(format!("the listener panicked: {error}")) }
    }
}

/// Gives a batch to the listener; with `rejection`, its first message goes where rejected ones go instead.
pub(super) async fn deliver(sink: Arc<dyn MessageSink>, batch: Arc<Batch>, rejection: Option<String>) -> Delivered {
    // The process may have stood still since the task was started.
    if batch.is_stopped() {
        return Delivered::Stopped;
    }
    let reason = match rejection {
        Some(reason) => reason,
        None => match sink.deliver(&batch).await {
            Verdict::Done => return Delivered::All,
            _ if batch.handled_count() == batch.messages().len() => return Delivered::All,
            Verdict::Retry(reason) => return Delivered::Failed(reason),
            Verdict::Reject(reason) => reason,
            Verdict::Suspend => return Delivered::Suspended,
            Verdict::Stopped => return Delivered::Stopped,
        },
    };
    let place = batch.handled_count();
    let Some(message) = batch.messages().get(place) else { return Delivered::All };
    match sink.reject(message, &reason).await {
        Ok(()) => Delivered::Rejected { place, reason },
        Err(error) => Delivered::NotRejected { reason, error: error.to_string() },
    }
}

impl Scheduler {
    /// Starts listeners as long as runners are free. A partition whose earlier listener still runs waits for it, and one of
    /// an earlier session waits to be lost; others go before it.
    pub(super) fn start_deliveries(&mut self) {
        while self.busy.len() < self.options.runners.get() && !self.is_fenced() {
            let may_begin = |of: &Key| !self.busy.contains(of) && self.slots.get(&**of).is_none_or(Slot::may_begin);
            let Some(place) = self.ready.iter().position(may_begin) else { return };
            let Some(of) = self.ready.remove(place) else { return };
            self.start_delivery(&of);
        }
    }

    fn start_delivery(&mut self, of: &Key) {
        let Some(slot) = self.slots.get_mut(&**of) else { return };
        let Stage::Ready(fetched) = std::mem::replace(&mut slot.stage, Stage::Idle) else { return };
        let Fetched { batch, bytes, undeliverable } = fetched;
        let rejection = undeliverable.or_else(|| slot.request.as_ref()?.rejection());
        let task = deliver(Arc::clone(&self.sink), Arc::clone(&batch), rejection);
        let task = self.spawn(Work::Deliver { of: Arc::clone(of), bytes }, async move { Done::Delivered(task.await) });
        self.busy.insert(Arc::clone(of));
        self.set_stage(of, Stage::Delivering { task, batch, applied: 0, stale: false });
    }

    pub(super) fn delivered(&mut self, of: &Key, id: Id, bytes: usize, result: Delivered, now: Instant) {
        self.busy.remove(of);
        self.budget.release(bytes);
        let Some(slot) = self.slots.get_mut(&**of).filter(|slot| slot.runs(id)) else { return };
        let Stage::Delivering { batch, stale, .. } = &slot.stage else { return };
        if *stale {
            slot.stage = Stage::Idle;
            return self.schedule_delayed(of, now);
        }
        let batch = Arc::clone(batch);
        let count = match &result {
            Delivered::All => batch.messages().len(),
            Delivered::Rejected { place, .. } => *place,
            _ => batch.handled_count(),
        };
        let applied = slot.apply(count);
        self.tell_handled(of, applied);
        let Some(slot) = self.slots.get_mut(&**of) else { return };
        // Deliveries end in `Stage::Delivering` only if the request is there.
        let Some(request) = &mut slot.request else { return };
        let first = batch.messages().get(count);
        match result {
            Delivered::All => request.delivered(),
            Delivered::Cancelled | Delivered::Stopped => {}
            Delivered::Suspended => slot.paused = true,
            Delivered::Failed(reason) => {
                let times = request.delivery_failed(count > 0);
                let offset = request.position().offset;
                self.told_failed_delivery(of, times, &reason);
                self.tell(&FetchEvent::DeliveryFailed { of: Arc::clone(of), offset, times, reason });
            }
            Delivered::NotRejected { reason, error } => {
                let offset = request.position().offset;
                let is_new = request.reject_failed(reason);
                if is_new {
                    warn!(
                        group = %self.group, partition = %of, %offset, %error,
                        "a rejected message could not be put away, offering it again; look at where rejected messages go"
                    );
                } else {
                    debug!(group = %self.group, partition = %of, %offset, %error, "a rejected message is still here");
                }
                self.tell(&FetchEvent::RejectFailed { of: Arc::clone(of), offset, error, is_new });
            }
            Delivered::Rejected { reason, .. } => {
                request.delivered();
                if let Some(message) = first {
                    let (offset, id) = (message.offset, message.id);
                    slot.apply(count + 1);
                    // Whoever put it away has said what there is to say.
                    debug!(group = %self.group, partition = %of, %offset, %id, reason, "a message was rejected");
                    self.tell(&FetchEvent::Rejected { of: Arc::clone(of), offset, id, reason });
                }
            }
        }
        self.set_stage(of, Stage::Idle);
        self.schedule_delayed(of, now);
    }

    fn told_failed_delivery(&mut self, of: &Key, times: u32, reason: &str) {
        let told = (times == 1).then(|| self.outages.listener()).flatten();
        match told {
            Some(count) => warn!(
                group = %self.group, partition = %of, reason, messages = count,
                "a listener did not handle a message, delivering it again"
            ),
            None => debug!(group = %self.group, partition = %of, times, reason, "a listener failed again"),
        }
    }

    /// Stops a running listener; what it has handled until then is taken over when its task has ended.
    pub(super) fn cancel_delivery(&self, of: &Key) -> bool {
        match self.slots.get(&**of) {
            Some(Slot { stage: Stage::Delivering { task, .. }, .. }) => {
                task.abort();
                true
            }
            _ => false,
        }
    }
}
