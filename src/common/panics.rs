//! Panics of code that is not ours: an application's hooks, called from tasks that others depend on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls a function of the application.
///
/// # Errors
/// What it panicked with.
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| said(&*panic).to_owned())
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a text")
}
