//! What tests of this room share.

use std::sync::Arc;

use crate::id::TopicPartition;

/// Partition `0-<index>` of the topic `test`.
pub(super) fn partition(index: i32) -> Arc<TopicPartition> {
    let partition = format!("0-{index}").parse().unwrap();
    Arc::new(TopicPartition { topic: "test".parse().unwrap(), partition })
}
