//! TERM and INT.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long most commands may take to end after the first signal: their output may be blocked by a reader that does not
/// read.
const PATIENCE: Duration = Duration::from_secs(2);

/// A future that ends with the first signal. If the command has not ended some time after it, or at the second signal,
/// the process ends where it stands.
///
/// # Errors
/// When signals cannot be handled.
pub(super) fn stop_requested() -> io::Result<impl Future<Output = ()>> {
    stop_requested_within(PATIENCE)
}

/// The same for a command that may take so long to end.
///
/// # Errors
/// When signals cannot be handled.
pub(super) fn stop_requested_within(patience: Duration) -> io::Result<impl Future<Output = ()>> {
    let mut signals = StopSignals::new()?;
    let stop = CancellationToken::new();
    let requested = stop.clone();
    tokio::spawn(async move {
        signals.next().await;
        requested.cancel();
        let _ = tokio::time::timeout(patience, signals.next()).await;
        std::process::exit(1);
    });
    Ok(async move { stop.cancelled_owned().await })
}

/// The signals that ask a process to end.
#[derive(Debug)]
pub(super) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Takes the signals over; they no longer end the process by themselves.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one and names it.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "TERM",
            _ = self.interrupt.recv() => "INT",
        }
    }
}
