//! An engine whose task panics, which is a fault of ours, must not end in silence.

use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::common::panics::{caught, caught_async};
use crate::fetch::event::FetchEvent;
use crate::fetch::{FetchError, FetchObserver};

use super::command::Command;
use super::scheduler::Scheduler;

/// How the task has ended, if it has.
#[derive(Debug, Clone, Default)]
pub(super) struct End {
    panicked: Arc<OnceLock<Arc<str>>>,
    over: CancellationToken,
}

impl End {
    pub(super) fn panicked(&self) -> Option<Arc<str>> {
        self.panicked.get().cloned()
    }

    /// Waits for it. Cancellation-safe.
    pub(super) async fn wait(&self) -> Option<Arc<str>> {
        self.over.cancelled().await;
        self.panicked()
    }

    pub(super) fn error(&self) -> FetchError {
        self.panicked().map_or(FetchError::Stopped, FetchError::Panicked)
    }
}

/// Runs the scheduler to its end. Commands are refused only when it is known how that was.
pub(super) async fn run(scheduler: Scheduler, mut commands: mpsc::UnboundedReceiver<Command>, end: End) {
    let _over = end.over.clone().drop_guard();
    let (group, observer) = (scheduler.group.clone(), scheduler.options.observer.clone());
    let Err(panic) = caught_async(scheduler.run(&mut commands)).await else { return };
    let panic = Arc::<str>::from(panic);
    // Nobody else sets it.
    let _first = end.panicked.set(Arc::clone(&panic));
    error!(
        %group, %panic,
        "the consumer has ended by a fault of its own and reads nothing any more; restart the process and report this"
    );
    if let Some(observer) = observer {
        tell(&*observer, panic);
    }
}

/// It may be the observer that has panicked.
fn tell(observer: &dyn FetchObserver, panic: Arc<str>) {
    if let Err(again) = caught(|| observer.event(&FetchEvent::Panicked { panic })) {
        error!(
            panic = again,
            "the observer of the consumer panicked; correct it, it was not told of the consumer's end"
        );
    }
}
