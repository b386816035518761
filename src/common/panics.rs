//! Panics: of code that is not ours, an application's hooks called from tasks that others depend on; and of our own in a
//! task that runs as long as what it serves, which must not end in silence.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Calls a function of the application.
///
/// # Errors
/// What it panicked with.
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| said(&*panic).to_owned())
}

/// Runs a future. After a panic it is not polled any more.
///
/// # Errors
/// What it panicked with.
pub(crate) async fn caught_async<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = pin!(future);
    poll_fn(move |cx| match caught(|| future.as_mut().poll(cx)) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_error_with_its_text() {
        assert_eq!(caught_async(async { 7 }).await, Ok(7));
        assert_eq!(caught_async::<()>(async { panic!("no {}", "bread") }).await, Err("no bread".to_owned()));
        assert_eq!(caught::<()>(|| panic!("no bread")), Err("no bread".to_owned()));
    }
}
