//! The message store: segments, append, flush, recovery (02).
