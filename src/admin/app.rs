//! What all requests share.

use std::sync::{Arc, OnceLock};

use axum::http::StatusCode;
use tokio::sync::Semaphore;

use super::answer::Failure;
use super::doors::Doors;
use crate::broker::BrokerControl;

/// Requests that look at all partitions, or ask file systems, at the same time; others wait.
const LOOKS: usize = 2;

/// See the module. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct App(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Set when the broker serves.
    control: OnceLock<BrokerControl>,
    doors: Doors,
    looks: Arc<Semaphore>,
}

impl App {
    pub(super) fn new(doors: Doors) -> Self {
        Self(Arc::new(Shared { control: OnceLock::new(), doors, looks: Arc::new(Semaphore::new(LOOKS)) }))
    }

    pub(super) fn doors(&self) -> &Doors {
        &self.0.doors
    }

    /// From now on there is a broker to ask.
    pub(super) fn serve(&self, control: BrokerControl) {
        // A second one is never given.
        let _ = self.0.control.set(control);
    }

    /// The broker, if it has started.
    pub(super) fn started(&self) -> Option<&BrokerControl> {
        self.0.control.get()
    }

    /// The broker.
    ///
    /// # Errors
    /// 503 while it is starting.
    pub(super) fn control(&self) -> Result<&BrokerControl, Failure> {
        self.started().ok_or_else(|| {
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the broker is still starting: its log tells how far it is")
        })
    }

    /// Looks at the broker on a thread that may wait.
    ///
    /// # Errors
    /// 503 while it is starting, 500 if looking panicked.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&BrokerControl) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let control = self.control()?.clone();
        let permit = Arc::clone(&self.0.looks).acquire_owned().await;
        let work = move || {
            // Held until it is done, also if nobody waits for the answer any more.
            let _permit = permit;
            look(&control)
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| {
            Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "this failed by a fault of the broker's own: see its log")
        })
    }
}
