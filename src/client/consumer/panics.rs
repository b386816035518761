//! A panic of the application's code is an error of that code, not the end of a partition.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_core::future::BoxFuture;

/// Runs a future of the application.
///
/// # Errors
/// What it panicked with.
pub(super) async fn caught<T>(mut future: BoxFuture<'_, T>) -> Result<T, String> {
    poll_fn(move |cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => std::task::Poll::Ready(Err(said(&*panic))),
    })
    .await
}

/// Calls a function of the application.
///
/// # Errors
/// What it panicked with.
pub(super) fn caught_call<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| said(&*panic))
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the listener panicked: {}", text.unwrap_or("without a text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_error_with_its_text() {
        let calm = caught(Box::pin(async { 7 })).await;
        assert_eq!(calm, Ok(7));
        let panicking = caught::<()>(Box::pin(async { panic!("no {}", "bread") })).await;
        assert_eq!(panicking, Err("the listener panicked: no bread".to_owned()));
        assert_eq!(caught_call(|| 1), Ok(1));
    }
}
