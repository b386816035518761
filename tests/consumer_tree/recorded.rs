//! The nodes of a group, recorded or present, in a form that can be compared.

use std::collections::BTreeMap;

use metaq::zk::Node;
use serde_json::Value;

/// The id of the last message of each partition.
pub(crate) type Ids = BTreeMap<String, String>;

/// Data, whether it is ephemeral, and version of each node. Consumer ids are replaced by their rank, message ids by a
/// word if they are those of the messages.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tree(BTreeMap<String, (String, bool, i64)>);

struct Entry {
    path: String,
    data: String,
    ephemeral: bool,
    version: i64,
}

impl Tree {
    /// The nodes of a group in a recording.
    pub(crate) fn recorded(name: &str, group: &str) -> Self {
        let file = format!("{}/tests/fixtures/zk/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(file).unwrap();
        let entry = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            let text = |member: &str| line[member].as_str().unwrap().to_owned();
            Entry {
                path: text("path"),
                data: text("data"),
                ephemeral: line["ephemeral"].as_bool().unwrap(),
                version: line["version"].as_i64().unwrap(),
            }
        };
        let top = format!("/meta/consumers/{group}");
        let own =
            |entry: &Entry| entry.path.strip_prefix(&top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let entries: Vec<_> = text.lines().map(entry).filter(own).collect();
        assert!(!entries.is_empty(), "{name} has no group {group}");
        Self::compare(entries, group, |_, _| true)
    }

    /// The nodes that there are.
    pub(crate) fn of(nodes: &BTreeMap<String, Node>, group: &str, ids: &Ids) -> Self {
        let entry = |(path, node): (&String, &Node)| Entry {
            path: path.clone(),
            data: String::from_utf8(node.data.clone()).unwrap(),
            ephemeral: node.stat.ephemeral_owner.is_some(),
            version: node.stat.version.into(),
        };
        let entries = nodes.iter().map(entry).collect();
        Self::compare(entries, group, |partition, id| ids.get(partition).is_some_and(|known| known == id))
    }

    fn compare(entries: Vec<Entry>, group: &str, is_id: impl Fn(&str, &str) -> bool) -> Self {
        let ids = format!("/consumers/{group}/ids/");
        let mut consumers: Vec<_> =
            entries.iter().filter_map(|entry| entry.path.split_once(&ids)).map(|(_, id)| id.to_owned()).collect();
        consumers.sort();
        let rank = |text: String| {
            let ranked = consumers.iter().enumerate();
            ranked.fold(text, |text, (rank, id)| text.replace(id, &format!("<consumer {rank}>")))
        };
        let comparable = |Entry { path, mut data, ephemeral, version }: Entry| {
            if path.contains("/offsets/")
                && let Some((id, offset)) = data.rsplit_once('-')
                && is_id(path.rsplit('/').next().unwrap(), id)
            {
                data = format!("<message>-{offset}");
            }
            (rank(path), (rank(data), ephemeral, version))
        };
        Self(entries.into_iter().map(comparable).collect())
    }
}
