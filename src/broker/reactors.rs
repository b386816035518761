//! The threads that serve connections, each with a runtime of its own.
//!
//! A connection stays on one thread: its commands, their answers and the hand-over to the committer never change cores.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::sync::mpsc;
use tracing::error;

use super::processor::Processor;
use super::reactor::Reactor;

/// What a thread is to do for a new connection; built there, because sockets belong to the runtime that waits for them.
type Job = Box<dyn FnOnce(Arc<Reactor>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// See the module. The threads end when this is dropped and their connections have ended.
#[derive(Debug, Clone)]
pub(super) struct Reactors {
    threads: Arc<[mpsc::UnboundedSender<Job>]>,
    next: Arc<AtomicUsize>,
}

impl Reactors {
    /// Starts so many threads, at least one.
    ///
    /// # Errors
    /// When the system gives none.
    pub(super) fn start(threads: usize, processor: &Arc<Processor>) -> io::Result<Self> {
        let start = |number: usize| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let (jobs, queue) = mpsc::unbounded_channel();
            let processor = Arc::clone(processor);
            thread::Builder::new()
                .name(format!("metaq-io-{number}"))
                .spawn(move || runtime.block_on(run(queue, processor)))?;
            Ok(jobs)
        };
        let threads = (0..threads.max(1)).map(start).collect::<io::Result<Vec<_>>>()?;
        Ok(Self { threads: threads.into(), next: Arc::default() })
    }

    /// Lets the next thread in turn do the job.
    pub(super) fn spawn<F>(&self, job: impl FnOnce(Arc<Reactor>) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let thread = self.next.fetch_add(1, Ordering::Relaxed) % self.threads.len().max(1);
        let job: Job = Box::new(|reactor| Box::pin(job(reactor)));
        if self.threads.get(thread).is_none_or(|thread| thread.send(job).is_err()) {
            error!("a thread that serves connections has ended by a fault of its own: restart the broker");
        }
    }
}

async fn run(mut jobs: mpsc::UnboundedReceiver<Job>, processor: Arc<Processor>) {
    let reactor = Reactor::start(processor);
    let connections = tokio_util::task::TaskTracker::new();
    while let Some(job) = jobs.recv().await {
        connections.spawn(job(Arc::clone(&reactor)));
    }
    connections.close();
    connections.wait().await;
}

/// As many threads as the machine has processors, up to what one commit log keeps up with.
pub(super) fn default_threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from).clamp(1, MAX_THREADS)
}

const MAX_THREADS: usize = 8;
