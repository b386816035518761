//! The name of a member of a group (04 §9).

use uuid::Uuid;

use crate::common::host::default_host;
use crate::id::GroupName;

/// `<group>_<id>`; without an id of its own `<local host>-<process id>-<random UUID>` stands for it.
pub(super) fn consumer_id(group: &GroupName, id: Option<&str>) -> String {
    match id {
        Some(id) => format!("{group}_{id}"),
        None => format!("{group}_{}-{}-{}", default_host(), std::process::id(), Uuid::new_v4()),
    }
}

/// Whether a text can be the id of a member: an element of a path that no other reader takes apart.
pub(super) fn is_admissible(id: &str) -> bool {
    !id.trim().is_empty() && id.len() <= 200 && !id.contains('/') && !id.chars().any(char::is_control)
}
