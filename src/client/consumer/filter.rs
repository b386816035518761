//! Leaving messages out on the client's side (05 §12).

use std::fmt;

use crate::fetch::ReceivedMessage;
use crate::id::GroupName;

/// Decides which messages a listener sees. Those it does not accept count as handled.
pub trait MessageFilter: Send + Sync + 'static {
    /// Whether the listener is to see the message. A panic counts as no.
    fn accept(&self, group: &GroupName, message: &ReceivedMessage) -> bool;
}

impl<F> MessageFilter for F
where
    F: Fn(&GroupName, &ReceivedMessage) -> bool + Send + Sync + 'static,
{
    fn accept(&self, group: &GroupName, message: &ReceivedMessage) -> bool {
        self(group, message)
    }
}

impl fmt::Debug for dyn MessageFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MessageFilter")
    }
}
