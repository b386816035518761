//! The JSON of the file: group → array of entries, as the reference writes it (05 §11).

use serde_json::{Map, Value, json};

use crate::fetch::OffsetCommit;
use crate::id::{BrokerId, GroupName, Offset, Partition, PartitionIndex, TopicPartition};

/// Stands for a message that is not known.
const UNKNOWN_MESSAGE: i64 = -1;

/// Entries of all groups. Those of other groups, and members that we do not use, are kept as they are.
#[derive(Debug, Clone, Default)]
pub(super) struct Groups(Map<String, Value>);

impl Groups {
    /// Reads a file; an empty one has no groups.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self::default());
        }
        let groups: Map<String, Value> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match groups.iter().find(|(_, entries)| !entries.is_array()) {
            Some((group, _)) => Err(format!("the entries of group '{group}' are no array")),
            None => Ok(Self(groups)),
        }
    }

    pub(super) fn to_json(&self) -> String {
        Value::Object(self.0.clone()).to_string()
    }

    /// Where a group stands. The message's id is not read, as in the reference.
    ///
    /// # Errors
    /// What stands there instead of an offset.
    pub(super) fn offset(&self, group: &GroupName, of: &TopicPartition) -> Result<Option<Offset>, String> {
        let entries = self.0.get(group.as_str()).and_then(Value::as_array);
        let Some(entry) = entries.and_then(|entries| entries.iter().find(|entry| concerns(entry, of))) else {
            return Ok(None);
        };
        let offset = entry.get("offset").unwrap_or(&Value::Null);
        number(offset).map(|offset| Some(Offset::new(offset))).ok_or_else(|| offset.to_string())
    }

    /// Sets where a group stands in some partitions. Its other entries stay: the reference drops those of partitions that it
    /// has no more, and so forgets where the group stood.
    pub(super) fn set(&mut self, group: &GroupName, commits: &[OffsetCommit]) {
        let entries = self.0.entry(group.as_str()).or_insert_with(|| Value::Array(Vec::new()));
        let Some(entries) = entries.as_array_mut() else { return };
        for commit in commits {
            let entry = entry(commit);
            match entries.iter_mut().find(|entry| concerns(entry, &commit.of)) {
                Some(present) => *present = entry,
                None => entries.push(entry),
            }
        }
    }
}

fn entry(commit: &OffsetCommit) -> Value {
    let OffsetCommit { of, offset } = commit;
    json!({
        "topic": of.topic.as_str(),
        "partition": { "brokerId": of.partition.broker.get(), "partition": of.partition.index.get() },
        "offset": offset.offset.get(),
        "messageId": offset.message_id.map_or(UNKNOWN_MESSAGE, |id| id.get()),
        "modified": true,
    })
}

fn concerns(entry: &Value, of: &TopicPartition) -> bool {
    let partition = || {
        let partition = entry.get("partition")?;
        let broker = BrokerId::new(number(partition.get("brokerId")?)?)?;
        let index = i32::try_from(number(partition.get("partition")?)?).ok()?;
        Some(Partition { broker, index: PartitionIndex::new(index) })
    };
    entry.get("topic").and_then(Value::as_str) == Some(of.topic.as_str()) && partition() == Some(of.partition)
}

/// A number, or a text that is one.
fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}
