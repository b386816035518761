//! A panic of the application's code is an error of that code, not the end of a partition.

use futures_core::future::BoxFuture;

use crate::common::panics;

/// Runs a future of the application. Cancellation drops it.
///
/// # Errors
/// What it panicked with.
pub(super) async fn caught<T>(future: BoxFuture<'_, T>) -> Result<T, String> {
    panics::caught_async(future).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_error_with_its_text() {
        let calm = caught(Box::pin(async { 7 })).await;
        assert_eq!(calm, Ok(7));
        let panicking = caught::<()>(Box::pin(async { panic!("no {}", "bread") })).await;
        assert_eq!(panicking, Err("no bread".to_owned()));
    }
}
